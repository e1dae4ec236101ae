//! A cluster out of objects that come one by one, from files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::index::{Cluster, ReadFrom};
use crate::objects::{FieldError, Gathered, Object, decode, for_each_kind, gathered};

/// Where `apps` kinds were before Kubernetes 1.16, as old dumps still have them.
const OLD_APPS_GROUP: &str = "extensions";

/// A kind that is used, and what becomes of an object of it.
struct UsedKind {
    group: String,
    kind: String,
    put: fn(&mut Loader, Value) -> Result<(), FieldError>,
}

impl UsedKind {
    fn of<K: Object>() -> Self {
        Self {
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            put: |loader, value| loader.put_as::<K>(value),
        }
    }
}

static USED_KINDS: LazyLock<Vec<UsedKind>> = LazyLock::new(|| {
    let mut kinds = Vec::new();
    macro_rules! used {
        ($kind:ty) => {
            kinds.push(UsedKind::of::<$kind>());
        };
    }
    for_each_kind!(used);
    kinds
});

/// Whether objects of that kind are used.
#[must_use]
pub fn is_used(api_version: &str, kind: &str) -> bool {
    used_kind(api_version, kind).is_some()
}

fn used_kind(api_version: &str, kind: &str) -> Option<&'static UsedKind> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    USED_KINDS.iter().find(|used| {
        let is_old = used.group == "apps" && group == OLD_APPS_GROUP;
        (group == used.group || is_old) && kind == used.kind
    })
}

/// Fills a cluster with objects, each of which may come more than once.
#[derive(Debug, Default)]
pub struct Loader {
    cluster: Cluster,
    /// The resourceVersion of each object, by kind and key.
    versions: BTreeMap<(Cow<'static, str>, String), Option<u128>>,
    counts: BTreeMap<Cow<'static, str>, u64>,
    /// What must-gathers say of themselves.
    records: Vec<Gathered>,
}

impl Loader {
    /// Takes the record of a must-gather.
    pub fn put_record(&mut self, value: &Value) -> Result<(), FieldError> {
        self.records.push(decode(value)?);
        Ok(())
    }

    /// Whether a must-gather says what there was and what was not.
    #[must_use]
    pub fn has_record(&self) -> bool {
        !self.records.is_empty()
    }

    /// Takes an object of a kind that [is used](is_used). Of one that comes again the higher resourceVersion counts,
    /// else the later one.
    pub fn put(&mut self, api_version: &str, kind: &str, value: Value) -> Result<(), FieldError> {
        match used_kind(api_version, kind) {
            Some(used) => (used.put)(self, value),
            None => Ok(()),
        }
    }

    /// How many objects of each kind were taken.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<Cow<'static, str>, u64> {
        &self.counts
    }

    /// The cluster: what was not given is not there. But a cluster has nodes, and a claim that a volume is bound to. Where
    /// a must-gather says what there was, that holds.
    #[must_use]
    pub fn finish(self) -> Cluster {
        let mut cluster = self.cluster;
        if !self.records.is_empty() {
            gathered::settle(&self.records, &self.counts, &mut cluster);
            return cluster;
        }
        cluster.read_from = ReadFrom::Files;
        if cluster.nodes.is_empty() {
            let problem = "the input has none; add the output of kubectl get nodes -o yaml";
            cluster.nodes.fail(problem.to_owned());
        } else {
            cluster.nodes.finish();
        }
        cluster.csi_nodes.finish();
        cluster.csi_drivers.finish();
        cluster.pods.finish();
        match lost_claim(&cluster) {
            Some(problem) => {
                cluster.claims.fail(problem);
            }
            None => {
                cluster.claims.finish();
            }
        }
        cluster.volumes.finish();
        cluster.classes.finish();
        cluster.runtime_classes.finish();
        cluster.feature_switches.finish();
        cluster.settings.finish();
        cluster.node_statuses.finish();
        for (_, table) in cluster.owners.tables_mut() {
            table.finish();
        }
        cluster
    }

    fn put_as<K: Object>(&mut self, mut value: Value) -> Result<(), FieldError> {
        // Who wrote which field is of no use, and it is the largest part of many objects.
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        if !K::is_of_interest(&value) {
            return Ok(());
        }
        let object: K = decode(&value)?;
        let meta = object.meta();
        if meta.name.as_deref().unwrap_or_default().is_empty() {
            return Err(FieldError {
                field: "metadata.name".to_owned(),
                what: "is missing".to_owned(),
            });
        }
        let key = K::key(meta);
        if !self.is_newer::<K>(&key, meta) {
            return Ok(());
        }
        let table = K::table(&mut self.cluster);
        match object.row() {
            Some(row) => table.apply(key, row),
            None => table.delete(&key),
        };
        Ok(())
    }

    fn is_newer<K: Object>(&mut self, key: &K::Key, meta: &ObjectMeta) -> bool {
        let version = meta.resource_version.as_deref();
        let version = version.and_then(|version| version.parse::<u128>().ok());
        let kind = K::kind(&());
        match self.versions.entry((kind.clone(), key.to_string())) {
            Entry::Vacant(entry) => {
                entry.insert(version);
                *self.counts.entry(kind).or_default() += 1;
                true
            }
            Entry::Occupied(mut entry) => {
                let is_older =
                    matches!((version, entry.get()), (Some(new), Some(old)) if new < *old);
                if !is_older {
                    entry.insert(version);
                }
                !is_older
            }
        }
    }
}

/// A claim that an in-tree volume is bound to and that was not given: with it, who uses the volume may be missing, as
/// in a must-gather without the namespaces of workloads.
fn lost_claim(cluster: &Cluster) -> Option<String> {
    cluster.windows_nodes().next()?;
    let volumes = cluster.volumes.iter();
    let (volume, claim) = volumes
        .filter_map(|(name, volume)| Some((name, volume.bound_to.as_ref()?)))
        .find(|(_, claim)| cluster.claims.get(claim).is_none())?;
    Some(format!(
        "the input has the in-tree PersistentVolume {volume}, but not the claim {claim} that it is bound to; add the objects \
         of namespace {} and of others that are missing",
        claim.namespace
    ))
}
