//! All objects of a cluster, and access to their fields.

use super::memory::Memory;
use serde_json::Value;

/// A kind, as apiVersion and name.
pub type Kind = (&'static str, &'static str);

pub const NODE: Kind = ("v1", "Node");
pub const POD: Kind = ("v1", "Pod");
pub const NAMESPACE: Kind = ("v1", "Namespace");
pub const CLAIM: Kind = ("v1", "PersistentVolumeClaim");
pub const PERSISTENT_VOLUME: Kind = ("v1", "PersistentVolume");
pub const REPLICATION_CONTROLLER: Kind = ("v1", "ReplicationController");
pub const DEPLOYMENT: Kind = ("apps/v1", "Deployment");
pub const REPLICA_SET: Kind = ("apps/v1", "ReplicaSet");
pub const STATEFUL_SET: Kind = ("apps/v1", "StatefulSet");
pub const DAEMON_SET: Kind = ("apps/v1", "DaemonSet");
pub const JOB: Kind = ("batch/v1", "Job");
pub const CRON_JOB: Kind = ("batch/v1", "CronJob");
pub const STORAGE_CLASS: Kind = ("storage.k8s.io/v1", "StorageClass");
pub const CSI_NODE: Kind = ("storage.k8s.io/v1", "CSINode");
pub const CSI_DRIVER: Kind = ("storage.k8s.io/v1", "CSIDriver");
pub const RUNTIME_CLASS: Kind = ("node.k8s.io/v1", "RuntimeClass");
pub const WINDOWS_STORAGE: Kind = ("windowsstorage.dev/v1alpha1", "WindowsStorage");

/// The objects, and what is remembered of earlier ones.
#[derive(Clone, Copy)]
pub struct Cluster<'a>(pub &'a [Value], pub &'a Memory);

impl<'a> Cluster<'a> {
    pub fn of(self, kind: Kind) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |object| is(object, kind))
    }

    /// `namespace` is empty for cluster-scoped objects.
    pub fn get(self, kind: Kind, of_namespace: &str, of_name: &str) -> Option<&'a Value> {
        self.of(kind)
            .find(|object| namespace(object) == of_namespace && name(object) == of_name)
    }
}

pub fn is(object: &Value, (api_version, kind): Kind) -> bool {
    object["kind"] == kind && object["apiVersion"] == api_version
}

/// Returns the field at a path of keys; `None` if it is null or absent.
pub fn field<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let mut at = object;
    for key in path {
        at = at.get(key)?;
    }
    (!at.is_null()).then_some(at)
}

/// Returns a string field, which may be empty.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    field(object, path)?.as_str()
}

/// Returns a string field that is not empty.
pub fn nonempty<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    text(object, path).filter(|text| !text.is_empty())
}

pub fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    field(object, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"]).unwrap_or_default()
}

pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"]).unwrap_or_default()
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    text(object, &["metadata", "annotations", key])
}

/// Returns the node's CSINode, unless it belongs to an earlier node of that name.
pub fn csi_node<'a>(cluster: Cluster<'a>, of_node: &str) -> Option<&'a Value> {
    let uid = cluster
        .get(NODE, "", of_node)
        .and_then(|node| nonempty(node, &["metadata", "uid"]));
    cluster.get(CSI_NODE, "", of_node).filter(|csi_node| {
        let owners = list(csi_node, &["metadata", "ownerReferences"]);
        let mut owners = owners.iter().filter(|owner| owner["kind"] == "Node");
        let owner = owners.find_map(|owner| nonempty(owner, &["uid"]));
        uid.is_none() || owner.is_none() || owner == uid
    })
}

pub fn csi_node_drivers(csi_node: &Value) -> Vec<&str> {
    list(csi_node, &["spec", "drivers"])
        .iter()
        .filter_map(|driver| text(driver, &["name"]))
        .collect()
}
