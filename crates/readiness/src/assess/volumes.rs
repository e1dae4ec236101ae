//! Resolves a Windows workload's volumes to the drivers that they need.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::assess::partial::{self, Lacking};
use crate::assess::plugins::{self, Plugin};
use crate::assess::report::{Finding, Source};
use crate::index::{
    AnyTable, Claim, ClaimTemplate, Cluster, Name, ObjectKey, PodVolume, PodVolumeSource, ReadFrom,
    VolumeType, WorkloadKey, WorkloadKind,
};

/// A volume and the driver or plugin that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The volume's name in the pod.
    pub volume: Name,
    /// How it was found.
    pub source: Source,
    /// The claim, if its name is known.
    pub claim: Option<Name>,
    /// The `PersistentVolume`.
    pub persistent_volume: Option<Name>,
    /// The class.
    pub storage_class: Option<Name>,
    /// The driver or plugin.
    pub served_by: VolumeType,
}

impl Resolved {
    fn new(
        volume: &Name,
        claim: Option<&ObjectKey>,
        source: Source,
        served_by: VolumeType,
    ) -> Self {
        Self {
            volume: volume.clone(),
            source,
            claim: claim.map(|key| key.name.clone()),
            persistent_volume: None,
            storage_class: None,
            served_by,
        }
    }

    /// Returns its kind and name, joined by `joint`: the volume, the claim, or the volume's name in the pod.
    pub fn named_as(&self, joint: &str) -> String {
        match (&self.persistent_volume, &self.claim) {
            (Some(name), _) => format!("PersistentVolume{joint}{name}"),
            (None, Some(claim)) => format!("PersistentVolumeClaim{joint}{claim}"),
            (None, None) => format!("volume{joint}{}", self.volume),
        }
    }

    /// Returns the in-tree plugin, if the volume is in-tree.
    pub fn plugin(&self) -> Option<&'static Plugin> {
        self.served_by.plugin()
    }

    /// Returns the CSI driver that the volume needs, if any.
    pub fn driver(&self) -> Option<&str> {
        self.served_by.driver()
    }
}

/// A Windows workload with volumes that need a driver or are in-tree, or with findings.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// The Windows node that the workload is bound to.
    pub node: Option<Name>,
    /// The workload's volumes, sorted by volume and claim.
    pub rows: Vec<Resolved>,
    /// What is wrong with its other volumes.
    pub findings: Vec<Finding>,
    /// What files have nothing of, so that they say nothing about a volume.
    pub lacking: Lacking,
}

/// Why it is not known what serves a volume.
enum Trouble {
    Finding(Finding),
    /// Files have nothing of this kind, and what to add.
    Lacking(&'static str, String),
}

/// A volume that needs a driver or is in-tree, or none.
type Found = Result<Option<Resolved>, Trouble>;

impl Used {
    fn add(&mut self, found: Found) {
        match found {
            Ok(row) => self.rows.extend(row),
            Err(Trouble::Finding(finding)) => self.findings.push(finding),
            Err(Trouble::Lacking(kind, problem)) => {
                self.lacking.entry(kind).or_insert(problem);
            }
        }
    }
}

/// Resolves volumes by the cluster's objects.
pub struct Resolver<'a> {
    cluster: &'a Cluster,
    /// Of several default classes, Kubernetes takes the newest, then the first by name.
    default_class: Option<&'a Name>,
    /// The drivers that at least one CSINode lists.
    registered: HashSet<&'a Name>,
    /// The volumes that are bound to a claim, by that claim.
    bound: HashMap<&'a ObjectKey, &'a Name>,
}

impl<'a> Resolver<'a> {
    /// Creates one.
    pub fn of(cluster: &'a Cluster) -> Self {
        let mut bound = HashMap::new();
        for (name, volume) in cluster.volumes.iter() {
            if let Some(claim) = &volume.bound_to {
                bound.entry(claim).or_insert(name);
            }
        }
        let classes = cluster.classes.iter().filter(|(_, class)| class.is_default);
        let default = classes.min_by_key(|(name, class)| (Reverse(class.created), *name));
        let csi_nodes = cluster.csi_nodes.iter();
        Self {
            cluster,
            default_class: default.map(|(name, _)| name),
            registered: csi_nodes.flat_map(|(_, it)| it.drivers.iter()).collect(),
            bound,
        }
    }

    /// Resolves the volumes of a pod or a template, and the claim templates of a StatefulSet.
    pub fn resolve(
        &self,
        workload: &WorkloadKey,
        volumes: &[PodVolume],
        claim_templates: &[ClaimTemplate],
    ) -> Used {
        let mut used = Used::default();
        for PodVolume { name, source } in volumes {
            used.add(match source {
                PodVolumeSource::Inline(served_by) => {
                    let served_by = served_by.clone();
                    Ok(Some(Resolved::new(name, None, Source::Inline, served_by)))
                }
                PodVolumeSource::Claim(claim) => self.named_claim(workload, name, claim),
                PodVolumeSource::Ephemeral(claim) => self.ephemeral(workload, name, claim),
            });
        }
        for template in claim_templates {
            self.claim_template(workload, template, &mut used);
        }
        used.rows
            .sort_by(|left, right| (&left.volume, &left.claim).cmp(&(&right.volume, &right.claim)));
        used
    }

    fn named_claim(&self, workload: &WorkloadKey, volume: &Name, name: &Name) -> Found {
        let key = ObjectKey::new(workload.object.namespace.clone(), name.clone());
        let claims = &self.cluster.claims;
        if let Some(claim) = claims.get(&key) {
            return self.claim(workload, volume, Some(&key), claim);
        }
        if self.is_of_files() && !claims.has_any_of(&key.namespace) {
            let problem = format!(
                "{workload} uses the claim {name}, and the files have no claim of namespace {}; add the output of kubectl get \
                 pvc -A -o yaml",
                key.namespace
            );
            return Err(Trouble::Lacking(partial::CLAIMS, problem));
        }
        Err(Trouble::Finding(finding!(
            PERSISTENT_VOLUME_CLAIM_NOT_FOUND,
            format!("PersistentVolumeClaim/{key}"),
            "{workload} uses the claim {name} in its volume {volume}, but there is no such claim; create it or remove the \
             volume"
        )))
    }

    /// Resolves an ephemeral volume. For a template, the claim has no name yet, because the pod has none.
    fn ephemeral(&self, workload: &WorkloadKey, volume: &Name, template: &Claim) -> Found {
        if workload.kind != WorkloadKind::Pod {
            return self.claim(workload, volume, None, template);
        }
        let ObjectKey { namespace, name } = &workload.object;
        let key = ObjectKey::new(namespace.clone(), format!("{name}-{volume}"));
        let claim = self.cluster.claims.get(&key).unwrap_or(template);
        self.claim(workload, volume, Some(&key), claim)
    }

    /// Resolves a claim template: the claims that already exist for the StatefulSet, else the template itself.
    fn claim_template(&self, workload: &WorkloadKey, template: &ClaimTemplate, used: &mut Used) {
        let set = &workload.object;
        let stem = format!("{}-{}", template.name, set.name);
        let first = ObjectKey::new(set.namespace.clone(), format!("{stem}-"));
        let is_near = |key: &ObjectKey| {
            key.namespace == first.namespace && key.name.starts_with(&*first.name)
        };
        let near = self.cluster.claims.from(&first);
        let near = near.take_while(|(key, _)| is_near(key));
        let mut left = near
            .filter(|(key, _)| ordinal_stem(&key.name) == Some(&stem))
            .peekable();
        if left.peek().is_none() {
            used.add(self.claim(workload, &template.name, None, &template.claim));
        }
        for (key, claim) in left {
            used.add(self.claim(workload, &template.name, Some(key), claim));
        }
    }

    fn claim(
        &self,
        workload: &WorkloadKey,
        volume: &Name,
        key: Option<&ObjectKey>,
        claim: &Claim,
    ) -> Found {
        let subject = || match key {
            Some(key) => format!("PersistentVolumeClaim/{key}"),
            None => workload.to_string(),
        };
        // A volume that is bound to the claim is its own, also where the claim was read before, or comes from a manifest.
        let of_volume = key.and_then(|key| self.bound.get(key).copied());
        if let Some(name) = claim.volume_name.as_ref().or(of_volume) {
            let Some(served_by) = self.volume(name, subject)? else {
                return Ok(None);
            };
            let class = claim.storage_class.clone();
            return Ok(Some(Resolved {
                persistent_volume: Some(name.clone()),
                storage_class: class.filter(|class| !class.is_empty()),
                ..Resolved::new(volume, key, Source::PersistentVolume, served_by)
            }));
        }
        let Some((class, provisioner)) = self.class_of(claim, subject)? else {
            return Ok(None);
        };
        let served_by = self.provisioned_type(class, provisioner);
        Ok(served_by.map(|served_by| Resolved {
            storage_class: Some(class.clone()),
            ..Resolved::new(volume, key, Source::StorageClass, served_by)
        }))
    }

    /// Returns what serves a `PersistentVolume`.
    fn volume(
        &self,
        name: &Name,
        subject: impl Fn() -> String,
    ) -> Result<Option<VolumeType>, Trouble> {
        let volumes = &self.cluster.volumes;
        if let Some(volume) = volumes.get(name) {
            return Ok(volume.source.clone());
        }
        let subject = subject();
        if self.is_of_files() && volumes.is_empty() {
            let problem = format!(
                "{subject} is bound to the PersistentVolume {name}, and the files have none; add the output of kubectl get pv \
                 -o yaml"
            );
            return Err(Trouble::Lacking(partial::VOLUMES, problem));
        }
        Err(Trouble::Finding(finding!(
            PERSISTENT_VOLUME_NOT_FOUND,
            subject.clone(),
            "{subject} is bound to the PersistentVolume {name}, but there is no such volume; its data is out of reach until \
             the volume is there again"
        )))
    }

    /// Returns the class that provisions a claim, and its provisioner.
    fn class_of<'c>(
        &'c self,
        claim: &'c Claim,
        subject: impl Fn() -> String,
    ) -> Result<Option<(&'c Name, &'c Name)>, Trouble> {
        let classes = &self.cluster.classes;
        let own = claim.storage_class.as_ref();
        if own.is_some_and(Name::is_empty) {
            return Ok(None);
        }
        let name = own.or(self.default_class);
        let class = name.and_then(|name| classes.get(name));
        let noted = own.and(claim.provisioner.as_ref());
        if let (Some(name), Some(provisioner)) =
            (name, class.map(|class| &class.provisioner).or(noted))
        {
            return Ok(Some((name, provisioner)));
        }
        if self.is_of_files() && classes.is_empty() {
            let problem = format!(
                "the class of {} decides, and the files have none; add the output of kubectl get storageclasses -o yaml",
                subject()
            );
            return Err(Trouble::Lacking(partial::CLASSES, problem));
        }
        let Some(name) = own else {
            return Ok(None);
        };
        Err(Trouble::Finding(finding!(
            STORAGE_CLASS_NOT_FOUND,
            format!("StorageClass/{name}"),
            "{} asks for the StorageClass {name}, but there is no such class; create it, or recreate the claim with a class \
             that exists",
            subject()
        )))
    }

    fn provisioned_type(&self, class: &Name, provisioner: &Name) -> Option<VolumeType> {
        if let Some(plugin) = plugins::by_name(provisioner) {
            let class = self.cluster.classes.get(class);
            let is_unmanaged = class.is_some_and(|class| class.unmanaged);
            return Some(if is_unmanaged && plugin.name == plugins::AZURE_DISK {
                VolumeType::NotTakenOver(plugin)
            } else {
                VolumeType::InTree(plugin)
            });
        }
        let is_driver = plugins::is_known_driver(provisioner)
            || self.registered.contains(provisioner)
            || self.cluster.csi_drivers.get(provisioner).is_some();
        is_driver.then(|| VolumeType::Csi(provisioner.clone()))
    }

    /// Whether what is not in the input may be in the cluster.
    fn is_of_files(&self) -> bool {
        self.cluster.read_from == ReadFrom::Files
    }
}

/// Returns the part of a StatefulSet claim's name before the ordinal: `data-web` of `data-web-0`.
pub fn ordinal_stem(claim: &str) -> Option<&str> {
    let (stem, ordinal) = claim.rsplit_once('-')?;
    let is_number = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = ordinal == "0" || !ordinal.starts_with('0');
    (is_number && is_plain).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_of_a_stateful_set_end_in_a_plain_number() {
        for (claim, stem) in [
            ("data-web-0", Some("data-web")),
            ("data-web-10", Some("data-web")),
            ("data-web-2147483647", Some("data-web")),
            ("-0", Some("")),
            ("data-web-", None),
            ("data-web-01", None),
            ("data-web-00", None),
            ("data-web-1a", None),
            ("data-web-+1", None),
            ("data-web", None),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(ordinal_stem(claim), stem, "{claim}");
        }
    }
}
