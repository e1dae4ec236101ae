//! Objects as large as real ones: with the labels, environment, probes and conditions that a kubelet and the
//! controllers leave on them and, once the API server has stored them, their managedFields.

mod driver;
mod nodes;
mod pods;
mod storage;
mod workloads;

use serde_json::{Value, json};

pub use driver::{driver_pod, driver_set, driver_set_name};
pub use nodes::{csi_node, node, node_status};
pub use pods::{Owner, pod_status, stateful_pod, stateless_pod};
pub use storage::{claim, claim_status, volume, volume_name, volume_status};
pub use workloads::{deployment, replica_set, stateful_set};

/// An operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Os {
    /// Windows.
    Windows,
    /// Linux.
    Linux,
}

/// Number of namespaces with workloads.
pub const NAMESPACES: usize = 100;
/// The CSI driver that the in-tree volumes need.
pub const DRIVER: &str = "disk.csi.azure.com";
const OTHER_DRIVER: &str = "file.csi.azure.com";
/// StorageClass of the Linux volumes.
const CLASS: &str = "managed-csi";
const IN_TREE_CLASS: &str = "managed-in-tree";
const WHEN: &str = "2026-01-12T08:15:42Z";

impl Os {
    fn as_str(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Linux => "linux",
        }
    }

    fn short(self) -> &'static str {
        match self {
            Self::Windows => "win",
            Self::Linux => "lin",
        }
    }
}

/// Returns a node's name.
pub fn node_name(os: Os, number: usize) -> String {
    format!("aks-{}pool1-38124476-vmss{number:06}", os.short())
}

/// Returns the namespace of a workload.
pub fn namespace(number: usize) -> String {
    format!("team-{:03}-production", number % NAMESPACES)
}

/// Returns the name of a workload, which is also in its pods' labels.
pub fn workload_name(os: Os, stateful: bool, number: usize) -> String {
    let kind = if stateful { "ledger" } else { "frontend" };
    format!("{kind}-{}-{number:05}", os.short())
}

/// Returns digits that look like a hash.
fn hash(of: usize, digits: usize) -> String {
    // The multiplier of Knuth's MMIX generator; it spreads consecutive numbers far apart.
    let spread = (of as u64 + 1).wrapping_mul(6_364_136_223_846_793_005);
    format!("{spread:016x}{:016x}", spread.rotate_left(29))[..digits].to_owned()
}

/// Returns a digest in the format of container images.
fn digest(of: usize) -> String {
    format!("sha256:{}{}", hash(of, 32), hash(of + 7, 32))
}

/// Returns a namespace.
pub fn namespace_object(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(number), "labels": {"team": format!("team-{number:03}")}}})
}

/// Returns the cluster-wide objects, `StorageClass` and `CSIDriver`, each with the path of its collection.
pub fn shared() -> Vec<(&'static str, Value)> {
    const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
    const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
    let class = |name: &str, provisioner: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "parameters": {"skuName": "Premium_LRS"}, "reclaimPolicy": "Delete",
            "allowVolumeExpansion": true, "volumeBindingMode": "WaitForFirstConsumer"})
    };
    let driver = |name: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name},
            "spec": {"attachRequired": true, "podInfoOnMount": false, "fsGroupPolicy": "ReadWriteOnceWithFSType"}})
    };
    vec![
        (CLASSES, class(CLASS, DRIVER)),
        (CLASSES, class(IN_TREE_CLASS, "kubernetes.io/azure-disk")),
        (CLASSES, class("azurefile-csi", OTHER_DRIVER)),
        (DRIVERS, driver(DRIVER)),
        (DRIVERS, driver(OTHER_DRIVER)),
        (
            "/apis/node.k8s.io/v1/runtimeclasses",
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "windows-2022"},
                "handler": "runhcs-wcow-process", "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}}}),
        ),
    ]
}

fn labels(workload: &str) -> Value {
    json!({"app.kubernetes.io/name": workload, "app.kubernetes.io/instance": workload, "app.kubernetes.io/component": "server",
        "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/version": "4.17.2", "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": "shop-service-2.3.1"})
}

fn selector(workload: &str) -> Value {
    json!({"matchLabels": {"app.kubernetes.io/name": workload}})
}

fn push(list: &mut Value, item: Value) {
    if let Value::Array(items) = list {
        items.push(item);
    }
}
