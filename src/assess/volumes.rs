//! From a Windows workload's volumes to the drivers that they need.

use crate::assess::plugins::{self, Plugin};
use crate::assess::report::{Finding, Source};
use crate::index::{
    Claim, Cluster, ObjectKey, Pod, PodVolume, PodVolumeSource, StorageClass, VolumeType,
};

/// A volume and what serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Its name in the pod.
    pub volume: String,
    /// How it was found.
    pub source: Source,
    /// The claim.
    pub claim: Option<String>,
    /// The `PersistentVolume`.
    pub persistent_volume: Option<String>,
    /// The class.
    pub storage_class: Option<String>,
    /// What serves it.
    pub served_by: VolumeType,
}

impl Resolved {
    /// The in-tree plugin, if it is one.
    #[must_use]
    pub fn plugin(&self) -> Option<&'static Plugin> {
        match self.served_by {
            VolumeType::InTree(plugin) => Some(plugin),
            VolumeType::Csi(_) => None,
        }
    }

    /// The CSI driver that it needs, if there is one.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        match &self.served_by {
            VolumeType::InTree(plugin) => plugin.driver,
            VolumeType::Csi(driver) => Some(driver),
        }
    }
}

/// What the volumes of a pod come to: those that need a driver or are in-tree, and what is wrong with others.
#[must_use]
pub fn resolve_pod(cluster: &Cluster, key: &ObjectKey, pod: &Pod) -> (Vec<Resolved>, Vec<Finding>) {
    let mut findings = Vec::new();
    let resolved = pod
        .volumes
        .iter()
        .filter_map(|volume| resolve(cluster, key, volume, &mut findings))
        .collect::<Vec<_>>();
    (resolved, findings)
}

fn resolve(
    cluster: &Cluster,
    pod: &ObjectKey,
    volume: &PodVolume,
    findings: &mut Vec<Finding>,
) -> Option<Resolved> {
    match &volume.source {
        PodVolumeSource::Inline(served_by) => Some(Resolved {
            volume: volume.name.clone(),
            source: Source::Inline,
            claim: None,
            persistent_volume: None,
            storage_class: None,
            served_by: served_by.clone(),
        }),
        PodVolumeSource::Claim(name) => {
            let key = ObjectKey::new(&pod.namespace, name);
            let Some(claim) = cluster.claims.get(&key) else {
                findings.push(Finding {
                    code: "PersistentVolumeClaimNotFound".to_owned(),
                    object: format!("PersistentVolumeClaim/{key}"),
                    message: format!(
                        "pod {pod} uses the claim {name} in its volume {}, but there is no such claim; create it or \
                         remove the volume",
                        volume.name
                    ),
                });
                return None;
            };
            resolve_claim(cluster, &key, claim, volume, findings)
        }
        PodVolumeSource::Ephemeral { storage_class } => {
            let key = ObjectKey::new(&pod.namespace, format!("{}-{}", pod.name, volume.name));
            let from_template = Claim {
                storage_class: storage_class.clone(),
                ..Claim::default()
            };
            let claim = cluster.claims.get(&key).unwrap_or(&from_template);
            resolve_claim(cluster, &key, claim, volume, findings)
        }
    }
}

fn resolve_claim(
    cluster: &Cluster,
    key: &ObjectKey,
    claim: &Claim,
    volume: &PodVolume,
    findings: &mut Vec<Finding>,
) -> Option<Resolved> {
    let found =
        |source, persistent_volume: Option<&String>, class: Option<&str>, served_by| Resolved {
            volume: volume.name.clone(),
            source,
            claim: Some(key.name.clone()),
            persistent_volume: persistent_volume.cloned(),
            storage_class: class.filter(|name| !name.is_empty()).map(str::to_owned),
            served_by,
        };
    if let Some(name) = &claim.volume_name {
        let Some(persistent_volume) = cluster.volumes.get(name) else {
            findings.push(Finding {
                code: "PersistentVolumeNotFound".to_owned(),
                object: format!("PersistentVolumeClaim/{key}"),
                message: format!(
                    "the claim {key} is bound to the PersistentVolume {name}, but there is no such volume; its data \
                     is out of reach until the volume is there again"
                ),
            });
            return None;
        };
        let served_by = persistent_volume.source.clone()?;
        return Some(found(
            Source::PersistentVolume,
            Some(name),
            claim.storage_class.as_deref(),
            served_by,
        ));
    }
    let (class_name, provisioner) = match &claim.storage_class {
        Some(name) if name.is_empty() => return None,
        Some(name) => match (cluster.classes.get(name), &claim.provisioner) {
            (Some(class), _) => (name.as_str(), class.provisioner.as_str()),
            (None, Some(noted)) => (name.as_str(), noted.as_str()),
            (None, None) => {
                findings.push(Finding {
                    code: "StorageClassNotFound".to_owned(),
                    object: format!("StorageClass/{name}"),
                    message: format!(
                        "the claim {key} asks for the StorageClass {name}, but there is no such class; create it, or \
                         delete the claim and make it anew with a class that exists"
                    ),
                });
                return None;
            }
        },
        None => {
            let (name, class) = default_class(cluster)?;
            (name.as_str(), class.provisioner.as_str())
        }
    };
    let served_by = provisioned_type(cluster, provisioner)?;
    Some(found(
        Source::StorageClass,
        None,
        Some(class_name),
        served_by,
    ))
}

/// The default class: of several the newest, then the first by name, as Kubernetes chooses.
fn default_class(cluster: &Cluster) -> Option<(&String, &StorageClass)> {
    cluster
        .classes
        .iter()
        .filter(|(_, class)| class.is_default)
        .min_by(|(left_name, left), (right_name, right)| {
            right
                .created
                .cmp(&left.created)
                .then_with(|| left_name.cmp(right_name))
        })
}

fn provisioned_type(cluster: &Cluster, provisioner: &str) -> Option<VolumeType> {
    if let Some(plugin) = plugins::by_name(provisioner) {
        return Some(VolumeType::InTree(plugin));
    }
    let is_driver = plugins::is_known_driver(provisioner)
        || cluster.csi_drivers.get(provisioner).is_some()
        || cluster
            .csi_nodes
            .iter()
            .any(|(_, csi_node)| csi_node.drivers.contains(provisioner));
    is_driver.then(|| VolumeType::Csi(provisioner.to_owned()))
}
