//! Decodes claims, volumes and storage classes.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::assess::plugins::Plugin;
use crate::index::{
    Claim, ClaimTemplate, ObjectKey, PersistentVolume, StorageClass, VolumeType, intern,
};
use crate::objects::Object;
use crate::objects::metadata::{created, text};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const PROVISIONER_ANNOTATIONS: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Returns the in-tree plugin whose field is set in a pod's volume or a PersistentVolume's spec.
macro_rules! in_tree {
    ($volume:expr) => {{
        let volume = &$volume;
        let fields = [
            (
                volume.aws_elastic_block_store.is_some(),
                "awsElasticBlockStore",
            ),
            (volume.azure_disk.is_some(), "azureDisk"),
            (volume.azure_file.is_some(), "azureFile"),
            (volume.gce_persistent_disk.is_some(), "gcePersistentDisk"),
            (volume.cinder.is_some(), "cinder"),
            (volume.vsphere_volume.is_some(), "vsphereVolume"),
            (volume.portworx_volume.is_some(), "portworxVolume"),
            (volume.rbd.is_some(), "rbd"),
            (volume.cephfs.is_some(), "cephfs"),
            (volume.glusterfs.is_some(), "glusterfs"),
            (volume.flocker.is_some(), "flocker"),
            (volume.quobyte.is_some(), "quobyte"),
            (volume.storageos.is_some(), "storageos"),
            (volume.scale_io.is_some(), "scaleIO"),
        ];
        let set = fields.into_iter().find(|(is_set, _)| *is_set);
        set.and_then(|(_, field)| $crate::assess::plugins::by_field(field))
    }};
}
pub(super) use in_tree;

/// Returns the driver or plugin of a volume. A volume with a CSI driver is not in-tree, whatever other fields are set.
pub(super) fn volume_type(
    driver: Option<&str>,
    in_tree: Option<&'static Plugin>,
) -> Option<VolumeType> {
    match driver {
        Some(driver) => Some(VolumeType::Csi(intern(driver))),
        None => in_tree.map(VolumeType::InTree),
    }
}

/// Returns the claim of this spec, or of a template's.
pub(super) fn claim_of(
    meta: Option<&ObjectMeta>,
    spec: Option<&core::PersistentVolumeClaimSpec>,
) -> Claim {
    let annotation = |key: &str| text(meta?.annotations.as_ref(), key);
    let noted = PROVISIONER_ANNOTATIONS.into_iter().filter_map(annotation);
    let volume_name = spec.and_then(|spec| spec.volume_name.as_deref());
    // The annotation takes precedence over the field, as in Kubernetes.
    let class =
        annotation(CLASS_ANNOTATION).or(spec.and_then(|spec| spec.storage_class_name.as_deref()));
    Claim {
        volume_name: volume_name.filter(|name| !name.is_empty()).map(intern),
        storage_class: class.map(intern),
        provisioner: noted.filter(|name| !name.is_empty()).map(intern).next(),
    }
}

pub(super) fn claim(meta: &ObjectMeta, object: Object<core::PersistentVolumeClaimSpec>) -> Claim {
    let spec = object.spec;
    claim_of(Some(meta), spec.as_ref())
}

/// Returns the claim template of a StatefulSet.
pub(super) fn claim_template(template: &core::PersistentVolumeClaim) -> ClaimTemplate {
    let meta = &template.metadata;
    ClaimTemplate {
        name: intern(meta.name.as_deref().unwrap_or_default()),
        claim: claim_of(Some(meta), template.spec.as_ref()),
    }
}

pub(super) fn volume(
    _: &ObjectMeta,
    object: Object<core::PersistentVolumeSpec, core::PersistentVolumeStatus>,
) -> PersistentVolume {
    let spec = object.spec.unwrap_or_default();
    let phase = object.status.and_then(|status| status.phase);
    let in_tree = in_tree!(spec);
    let is_bound_in_tree =
        phase.as_deref() == Some("Bound") && spec.csi.is_none() && in_tree.is_some();
    let claim = spec.claim_ref.filter(|_| is_bound_in_tree);
    let driver = spec.csi.as_ref().map(|csi| csi.driver.as_str());
    PersistentVolume {
        bound_to: claim.and_then(|claim| Some(ObjectKey::new(claim.namespace?, claim.name?))),
        source: volume_type(driver, in_tree),
        goes_with_claim: spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete"),
    }
}

pub(super) fn class(meta: &ObjectMeta, object: storage::StorageClass) -> StorageClass {
    let mut keys = DEFAULT_CLASS_ANNOTATIONS.into_iter();
    let provisioner = object.provisioner;
    StorageClass {
        is_default: keys.any(|key| text(meta.annotations.as_ref(), key) == Some("true")),
        created: created(meta),
        provisioner: intern(&provisioner),
    }
}
