//! Generates claims and volumes.

use serde_json::{Value, json};

use super::{CLASS, DRIVER, IN_TREE_CLASS, Os, hash, labels, namespace, workload_name};

pub(super) fn class_of(os: Os) -> &'static str {
    match os {
        Os::Windows => IN_TREE_CLASS,
        Os::Linux => CLASS,
    }
}

/// Returns the name of a pod's PersistentVolume.
pub fn volume_name(os: Os, workload: usize, ordinal: usize) -> String {
    let id = hash(workload * 64 + ordinal, 32);
    format!("pvc-{}-{}-{}", os.short(), &id[..8], &id[8..32])
}

/// Returns a pod's claim, bound to its volume.
pub fn claim(os: Os, workload: usize, ordinal: usize) -> Value {
    let set = workload_name(os, true, workload);
    let provisioner = match os {
        Os::Windows => "kubernetes.io/azure-disk",
        Os::Linux => DRIVER,
    };
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("data-{set}-{ordinal}"), "namespace": namespace(workload), "labels": labels(&set),
            "finalizers": ["kubernetes.io/pvc-protection"],
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.beta.kubernetes.io/storage-provisioner": provisioner, "volume.kubernetes.io/storage-provisioner": provisioner}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class_of(os), "volumeMode": "Filesystem",
            "volumeName": volume_name(os, workload, ordinal), "resources": {"requests": {"storage": "32Gi"}}}})
}

/// Returns the status of a bound claim.
pub fn claim_status() -> Value {
    json!({"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "32Gi"}}})
}

/// Returns a volume: in-tree for Windows, CSI for Linux.
pub fn volume(os: Os, workload: usize, ordinal: usize) -> Value {
    let name = volume_name(os, workload, ordinal);
    let disk = format!(
        "/subscriptions/{}/resourceGroups/shop/providers/Microsoft.Compute/disks/{name}",
        hash(3, 32)
    );
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "32Gi"}, "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": class_of(os), "volumeMode": "Filesystem",
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(workload),
            "name": format!("data-{}-{ordinal}", workload_name(os, true, workload))}});
    match os {
        Os::Windows => {
            spec["azureDisk"] = json!({"kind": "Managed", "diskName": name, "diskURI": disk, "cachingMode": "ReadOnly", "fsType": "ntfs", "readOnly": false});
        }
        Os::Linux => {
            spec["csi"] = json!({"driver": DRIVER, "volumeHandle": disk, "fsType": "ext4",
                "volumeAttributes": {"csi.storage.k8s.io/pv/name": name, "requestedsizegib": "32", "skuName": "Premium_LRS",
                    "storage.kubernetes.io/csiProvisionerIdentity": "1768205742000-8081-disk.csi.azure.com"}});
        }
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": "kubernetes.io/azure-disk"},
            "finalizers": ["kubernetes.io/pv-protection"]}, "spec": spec})
}

/// Returns the status of a bound volume.
pub fn volume_status() -> Value {
    json!({"status": {"phase": "Bound"}})
}
