//! Resolves a Windows workload's volumes to the drivers that they need.

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

/// The result of resolving a workload's volumes.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// The volumes that need a driver or are in-tree, sorted by volume and claim.
    pub rows: Vec<Resolved>,
    /// Problems with the other volumes.
    pub findings: Vec<Finding>,
    /// What files have nothing of, so that they say nothing about a volume.
    pub lacking: Lacking,
}

/// The data that volumes are resolved with.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// The objects.
    pub cluster: &'a Cluster,
    /// The default class.
    pub default_class: Option<&'a Name>,
    /// The drivers that at least one CSINode lists.
    pub registered: &'a HashSet<&'a Name>,
    /// The volumes that are bound to a claim, by that claim.
    pub bound: &'a HashMap<&'a ObjectKey, &'a Name>,
}

/// Resolves the volumes of a pod or a template, and the claim templates of a StatefulSet.
pub fn resolve(
    lookup: Lookup<'_>,
    workload: &WorkloadKey,
    volumes: &[PodVolume],
    claim_templates: &[ClaimTemplate],
) -> Resolution {
    let mut resolver = Resolver {
        lookup,
        workload,
        found: Resolution::default(),
    };
    for volume in volumes {
        resolver.volume(volume);
    }
    for template in claim_templates {
        resolver.claim_template(template);
    }
    let mut found = resolver.found;
    found
        .rows
        .sort_by(|left, right| (&left.volume, &left.claim).cmp(&(&right.volume, &right.claim)));
    found
}

struct Resolver<'a> {
    lookup: Lookup<'a>,
    workload: &'a WorkloadKey,
    found: Resolution,
}

impl Resolver<'_> {
    fn volume(&mut self, volume: &PodVolume) {
        match &volume.source {
            PodVolumeSource::Inline(served_by) => {
                let found = (Source::Inline, None, None);
                self.row(&volume.name, None, found, served_by.clone());
            }
            PodVolumeSource::Claim(name) => self.named_claim(&volume.name, name),
            PodVolumeSource::Ephemeral(template) => self.ephemeral(&volume.name, template),
        }
    }

    fn named_claim(&mut self, volume: &Name, name: &Name) {
        let key = ObjectKey::new(self.workload.object.namespace.clone(), name.clone());
        let claims = &self.lookup.cluster.claims;
        match claims.get(&key) {
            Some(claim) => self.claim(volume, Some(&key), claim),
            None if self.is_of_files() && !claims.has_any_of(&key.namespace) => self.lacks(
                partial::CLAIMS,
                format!(
                    "{} uses the claim {name}, and the files have no claim of namespace {}; add the output of kubectl get \
                     pvc -A -o yaml",
                    self.workload, key.namespace
                ),
            ),
            None => self.found.findings.push(finding!(
                PERSISTENT_VOLUME_CLAIM_NOT_FOUND,
                format!("PersistentVolumeClaim/{key}"),
                "{} uses the claim {name} in its volume {volume}, but there is no such claim; create it or remove the \
                 volume",
                self.workload
            )),
        }
    }

    /// Resolves an ephemeral volume. For a template, the claim has no name yet, because the pod has none.
    fn ephemeral(&mut self, volume: &Name, template: &Claim) {
        if self.workload.kind != WorkloadKind::Pod {
            return self.claim(volume, None, template);
        }
        let pod = &self.workload.object;
        let key = ObjectKey::new(pod.namespace.clone(), format!("{}-{volume}", pod.name));
        let claim = self.lookup.cluster.claims.get(&key).unwrap_or(template);
        self.claim(volume, Some(&key), claim);
    }

    /// Resolves a claim template: the claims that already exist for the StatefulSet, else the template itself.
    fn claim_template(&mut self, template: &ClaimTemplate) {
        let set = &self.workload.object;
        let stem = format!("{}-{}", template.name, set.name);
        let first = ObjectKey::new(set.namespace.clone(), format!("{stem}-"));
        let claims = &self.lookup.cluster.claims;
        let mut left = claims
            .from(&first)
            .take_while(|(key, _)| {
                key.namespace == first.namespace && key.name.starts_with(&*first.name)
            })
            .filter(|(key, _)| ordinal_stem(&key.name) == Some(&stem))
            .peekable();
        if left.peek().is_none() {
            self.claim(&template.name, None, &template.claim);
        }
        for (key, claim) in left {
            self.claim(&template.name, Some(key), claim);
        }
    }

    fn claim(&mut self, volume: &Name, key: Option<&ObjectKey>, claim: &Claim) {
        // A volume that is bound to the claim is its own, also where the claim was read before, or comes from a manifest.
        let of_volume = key.and_then(|key| self.lookup.bound.get(key).copied());
        match claim.volume_name.as_ref().or(of_volume) {
            Some(name) => self.bound(volume, key, claim, name),
            None => self.unbound(volume, key, claim),
        }
    }

    fn bound(&mut self, volume: &Name, key: Option<&ObjectKey>, claim: &Claim, name: &Name) {
        let Some(persistent_volume) = self.lookup.cluster.volumes.get(name) else {
            let subject = self.claim_name(key);
            if self.is_of_files() && self.lookup.cluster.volumes.is_empty() {
                let problem = format!(
                    "{subject} is bound to the PersistentVolume {name}, and the files have none; add the output of kubectl \
                     get pv -o yaml"
                );
                return self.lacks(partial::VOLUMES, problem);
            }
            return self.found.findings.push(finding!(
                PERSISTENT_VOLUME_NOT_FOUND,
                subject.clone(),
                "{subject} is bound to the PersistentVolume {name}, but there is no such volume; its data is out of \
                 reach until the volume is there again"
            ));
        };
        let Some(served_by) = persistent_volume.source.clone() else {
            return;
        };
        let class = claim.storage_class.clone();
        let class = class.filter(|class| !class.is_empty());
        let found = (Source::PersistentVolume, Some(name.clone()), class);
        self.row(volume, key, found, served_by);
    }

    fn unbound(&mut self, volume: &Name, key: Option<&ObjectKey>, claim: &Claim) {
        if let Some((class, provisioner)) = self.class_of(key, claim)
            && let Some(mut served_by) = self.provisioned_type(&provisioner)
        {
            let row = self.lookup.cluster.classes.get(&class);
            if let VolumeType::InTree(plugin) = served_by
                && plugin.name == plugins::AZURE_DISK
                && row.is_some_and(|class| class.unmanaged)
            {
                served_by = VolumeType::NotTakenOver(plugin);
            }
            let found = (Source::StorageClass, None, Some(class));
            self.row(volume, key, found, served_by);
        }
    }

    /// Whether what is not in the input may be in the cluster.
    fn is_of_files(&self) -> bool {
        self.lookup.cluster.read_from == ReadFrom::Files
    }

    /// Whether files have no class at all, so that they say nothing about the one of this claim.
    fn lacks_classes(&mut self, claim: Option<&ObjectKey>) -> bool {
        let lacks = self.is_of_files() && self.lookup.cluster.classes.is_empty();
        if lacks {
            let problem = format!(
                "the class of {} decides, and the files have none; add the output of kubectl get storageclasses -o yaml",
                self.claim_name(claim)
            );
            self.lacks(partial::CLASSES, problem);
        }
        lacks
    }

    fn lacks(&mut self, kind: &'static str, problem: String) {
        self.found.lacking.entry(kind).or_insert(problem);
    }

    /// Adds a resolved volume.
    fn row(
        &mut self,
        volume: &Name,
        claim: Option<&ObjectKey>,
        (source, persistent_volume, storage_class): (Source, Option<Name>, Option<Name>),
        served_by: VolumeType,
    ) {
        self.found.rows.push(Resolved {
            volume: volume.clone(),
            source,
            claim: claim.map(|key| key.name.clone()),
            persistent_volume,
            storage_class,
            served_by,
        });
    }

    /// Returns the class that provisions a claim, and the class's provisioner.
    fn class_of(&mut self, key: Option<&ObjectKey>, claim: &Claim) -> Option<(Name, Name)> {
        let classes = &self.lookup.cluster.classes;
        let Some(name) = &claim.storage_class else {
            let Some(name) = self.lookup.default_class else {
                self.lacks_classes(key);
                return None;
            };
            let class = classes.get(name)?;
            return Some((name.clone(), class.provisioner.clone()));
        };
        if name.is_empty() {
            return None;
        }
        let class = classes.get(name).map(|class| &class.provisioner);
        if let Some(provisioner) = class.or(claim.provisioner.as_ref()) {
            return Some((name.clone(), provisioner.clone()));
        }
        if self.lacks_classes(key) {
            return None;
        }
        let subject = self.claim_name(key);
        self.found.findings.push(finding!(
            STORAGE_CLASS_NOT_FOUND,
            format!("StorageClass/{name}"),
            "{subject} asks for the StorageClass {name}, but there is no such class; create it, or \
             recreate the claim with a class that exists"
        ));
        None
    }

    fn provisioned_type(&mut self, provisioner: &Name) -> Option<VolumeType> {
        if let Some(plugin) = plugins::by_name(provisioner) {
            return Some(VolumeType::InTree(plugin));
        }
        if plugins::is_known_driver(provisioner) {
            return Some(VolumeType::Csi(provisioner.clone()));
        }
        let objects = &self.lookup.cluster.csi_drivers;
        let is_driver =
            self.lookup.registered.contains(provisioner) || objects.get(provisioner).is_some();
        is_driver.then(|| VolumeType::Csi(provisioner.clone()))
    }

    fn claim_name(&self, key: Option<&ObjectKey>) -> String {
        match key {
            Some(key) => format!("PersistentVolumeClaim/{key}"),
            None => self.workload.to_string(),
        }
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
