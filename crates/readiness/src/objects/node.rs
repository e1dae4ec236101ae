//! Node, CSINode, CSIDriver, RuntimeClass.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::node::v1 as runtime;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use crate::index::{
    Cluster, CsiNode, Name, Node, NodeAddress, RuntimeClass, Table, Taint as NodeTaint,
};
use crate::objects::placement::{OS_LABEL, selects_windows};
use crate::objects::{Object, annotation, label, metadata::metadata, name, shared_name};

const IGNORE_LABEL: &str = "windowsstorage.dev/ignore";
const WMCO_VERSION: &str = "windowsmachineconfig.openshift.io/version";
const WMCO_DESIRED_VERSION: &str = "windowsmachineconfig.openshift.io/desired-version";
const WMCO_HOST_KEY: &str = "windowsmachineconfig.openshift.io/ssh-host-key";
const WMCO_HOST_KEY_TYPE: &str = "windowsmachineconfig.openshift.io/ssh-host-key-type";

/// A Node.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = core::Node)]
pub struct NodeObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: Option<NodeSpec>,
    status: Option<NodeStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
    value: Option<String>,
    effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    node_info: Option<NodeInfo>,
    addresses: Option<Vec<Address>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo {
    operating_system: Option<String>,
    kubelet_version: Option<String>,
    #[serde(rename = "bootID")]
    boot_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    r#type: String,
    address: String,
}

impl Object for NodeObject {
    type Key = Name;
    type Row = Node;

    fn key(meta: &ObjectMeta) -> Name {
        name(meta)
    }

    fn row(self) -> Option<Node> {
        let status = self.status.unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let taints = self.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let meta = &self.metadata;
        let operating_system = label(meta, OS_LABEL)
            .map(str::to_owned)
            .or(info.operating_system)
            .unwrap_or_default();
        let kubelet_version = info.kubelet_version.unwrap_or_default();
        let deleting = meta.deletion_timestamp.is_some();
        let other = Node {
            operating_system,
            deleting,
            kubelet_version,
            ..Node::default()
        };
        if other.runs_another_system() {
            // Nothing else of it is looked at.
            return Some(other);
        }
        Some(Node {
            uid: meta.uid.clone().unwrap_or_default(),
            ignored: label(meta, IGNORE_LABEL) == Some("true"),
            managed_by_wmco: annotation(meta, WMCO_VERSION).is_some(),
            wmco_version: annotation(meta, WMCO_DESIRED_VERSION)
                .or_else(|| annotation(meta, WMCO_VERSION))
                .map(str::to_owned),
            boot_id: info.boot_id.unwrap_or_default(),
            wmco_host_key: annotation(meta, WMCO_HOST_KEY).map(str::to_owned),
            wmco_host_key_type: annotation(meta, WMCO_HOST_KEY_TYPE).map(str::to_owned),
            addresses: status
                .addresses
                .unwrap_or_default()
                .into_iter()
                .map(|Address { r#type, address }| NodeAddress {
                    kind: r#type,
                    address,
                })
                .collect(),
            taints: taints
                .into_iter()
                .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
                .map(|Taint { key, value, effect }| NodeTaint {
                    key,
                    value: value.unwrap_or_default(),
                    effect,
                })
                .collect(),
            ..other
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<Name, Node> {
        &mut cluster.nodes
    }

    fn put(cluster: &mut Cluster, name: Name, node: Node) -> bool {
        if !node.runs_another_system() && cluster.without_pods.remove(&name) {
            cluster.pods.want_anew(format!(
                "Node {name} was none of Windows before, its pods are listed now"
            ));
        }
        cluster.nodes.apply(name, node)
    }
}

/// A CSINode.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = storage::CSINode)]
pub struct CsiNodeObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: Option<CsiNodeSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct CsiNodeSpec {
    drivers: Option<Vec<CsiNodeEntry>>,
}

#[derive(Clone, Debug, Deserialize)]
struct CsiNodeEntry {
    #[serde(deserialize_with = "shared_name")]
    name: Name,
}

impl Object for CsiNodeObject {
    type Key = Name;
    type Row = CsiNode;

    fn key(meta: &ObjectMeta) -> Name {
        name(meta)
    }

    fn row(self) -> Option<CsiNode> {
        let entries = self.spec.and_then(|spec| spec.drivers).unwrap_or_default();
        Some(CsiNode {
            drivers: Arc::new(entries.into_iter().map(|entry| entry.name).collect()),
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<Name, CsiNode> {
        &mut cluster.csi_nodes
    }
}

/// A CSIDriver, of which only the name matters.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = storage::CSIDriver)]
pub struct CsiDriverObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
}

impl Object for CsiDriverObject {
    type Key = Name;
    type Row = ();

    fn key(meta: &ObjectMeta) -> Name {
        name(meta)
    }

    fn row(self) -> Option<()> {
        Some(())
    }

    fn table(cluster: &mut Cluster) -> &mut Table<Name, ()> {
        &mut cluster.csi_drivers
    }
}

/// A RuntimeClass.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = runtime::RuntimeClass)]
pub struct RuntimeClassObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    scheduling: Option<Scheduling>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scheduling {
    node_selector: Option<BTreeMap<String, String>>,
}

impl Object for RuntimeClassObject {
    type Key = Name;
    type Row = RuntimeClass;

    fn key(meta: &ObjectMeta) -> Name {
        name(meta)
    }

    fn row(self) -> Option<RuntimeClass> {
        let selector = self
            .scheduling
            .and_then(|scheduling| scheduling.node_selector);
        Some(RuntimeClass {
            asks_for_windows: selector.as_ref().is_some_and(selects_windows),
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<Name, RuntimeClass> {
        &mut cluster.runtime_classes
    }
}
