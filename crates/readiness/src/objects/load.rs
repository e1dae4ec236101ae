//! Loads a cluster from objects that are read one by one from files.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::index::{Cluster, ReadFrom};
use crate::objects::received::OnlyMetadata;
use crate::objects::{FieldError, Gathered, Kind, Scope, cluster_kinds, decode, gathered, kind};

/// Builds a cluster from objects, which may occur more than once.
#[derive(Debug, Default)]
pub struct Loader {
    cluster: Cluster,
    /// The resourceVersion of each object, by kind and key.
    versions: BTreeMap<(&'static str, String), Option<u128>>,
    /// The must-gathers' records.
    records: Vec<Gathered>,
}

impl Loader {
    /// Whether the input contains a must-gather's record.
    pub fn has_record(&self) -> bool {
        !self.records.is_empty()
    }

    /// Adds an object of a kind that [is used](kind), or a must-gather's record. Of duplicates, keeps the one with the
    /// higher resourceVersion, otherwise the later one.
    pub fn put(&mut self, api_version: &str, name: &str, value: &Value) -> Result<(), FieldError> {
        if Gathered::is_one(api_version, name) {
            self.records.push(decode(value)?);
            return Ok(());
        }
        let Some(kind) = kind(api_version, name) else {
            return Ok(());
        };
        if let Scope::Named(name) = kind.scope
            && value.pointer("/metadata/name") != Some(&name.into())
        {
            return Ok(());
        }
        let OnlyMetadata { metadata } = decode(value)?;
        let metadata = ObjectMeta::from(metadata);
        if metadata.name.as_deref().unwrap_or_default().is_empty() {
            return Err(FieldError {
                field: "metadata.name".to_owned(),
                what: "is missing".to_owned(),
            });
        }
        // Files are read only once, so no object may be left out because of a later one.
        self.cluster.read_from = ReadFrom::Files;
        if self.note_version(kind, &metadata) {
            // Whoever gives files decides about the size of what is in them.
            (kind.put)(&mut self.cluster, &metadata, &value.to_string(), usize::MAX)?;
        }
        Ok(())
    }

    /// Returns the number of objects read per kind.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (kind, _) in self.versions.keys() {
            *counts.entry(*kind).or_default() += 1;
        }
        counts
    }

    /// Returns the cluster. Objects that were not given are taken as absent, unless the others show that they are missing
    /// (`assess` looks). With a must-gather's record, the record decides what is complete.
    pub fn finish(self) -> Cluster {
        let counts = self.counts();
        let mut cluster = self.cluster;
        if !self.records.is_empty() {
            gathered::settle(&self.records, &counts, &mut cluster);
            return cluster;
        }
        cluster.read_from = ReadFrom::Files;
        for kind in cluster_kinds() {
            kind.table_mut(&mut cluster).finish();
        }
        let kinds = cluster_kinds().map(Kind::name);
        let absent = kinds.filter(|kind| !counts.contains_key(kind));
        cluster.absent_kinds = absent.collect();
        // Not each object has a row.
        let keys = self.versions.keys().map(|(_, key)| key.split_once('/'));
        let namespaces: BTreeSet<&str> = keys.flatten().map(|(namespace, _)| namespace).collect();
        let claims = cluster.volumes.iter();
        let claims = claims.filter_map(|(_, volume)| volume.bound_to.as_ref());
        let absent = claims.filter(|claim| !namespaces.contains(claim.namespace.as_str()));
        cluster.absent_namespaces = absent.map(|claim| claim.namespace.clone()).collect();
        cluster
    }

    fn note_version(&mut self, kind: &'static Kind, meta: &ObjectMeta) -> bool {
        let version = meta.resource_version.as_deref();
        let version = version.and_then(|version| version.parse::<u128>().ok());
        let id = (kind.name(), kind.table(&self.cluster).key(meta));
        let known = self.versions.entry(id).or_default();
        if matches!((version, *known), (Some(new), Some(old)) if new < old) {
            return false;
        }
        *known = version.max(*known);
        true
    }
}
