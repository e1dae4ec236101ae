//! Node, CSINode, CSIDriver, RuntimeClass.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::index::{Cluster, CsiNode, Name, Node, NodeAddress, RuntimeClass, Taint};
use crate::objects::placement::{OS_LABEL, selects_windows};
use crate::objects::{annotation, interned, label};

object_only!(
    NodeSpec,
    NodeStatus,
    NodeInfo,
    CsiNodeSpec,
    CsiNodeEntry,
    Scheduling
);

const IGNORE_LABEL: &str = "windowsstorage.dev/ignore";
const WMCO_VERSION: &str = "windowsmachineconfig.openshift.io/version";
const WMCO_DESIRED_VERSION: &str = "windowsmachineconfig.openshift.io/desired-version";
const WMCO_HOST_KEY: &str = "windowsmachineconfig.openshift.io/ssh-host-key";
const WMCO_HOST_KEY_TYPE: &str = "windowsmachineconfig.openshift.io/ssh-host-key-type";

#[derive(Deserialize)]
pub(super) struct NodeObject {
    spec: Option<NodeSpec>,
    status: Option<NodeStatus>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase")]
struct NodeStatus {
    node_info: Option<NodeInfo>,
    addresses: Option<Vec<NodeAddress>>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase")]
struct NodeInfo {
    operating_system: Option<String>,
    kubelet_version: Option<String>,
    #[serde(rename = "bootID")]
    boot_id: Option<String>,
}

pub(super) fn row(meta: &ObjectMeta, node: NodeObject) -> Node {
    let status = node.status.unwrap_or_default();
    let info = status.node_info.unwrap_or_default();
    let other = Node {
        operating_system: label(meta, OS_LABEL)
            .map(str::to_owned)
            .or(info.operating_system)
            .unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        kubelet_version: info.kubelet_version.unwrap_or_default(),
        ..Node::default()
    };
    if other.runs_another_system() {
        // Nothing else of it is looked at.
        return other;
    }
    let noted = |key| annotation(meta, key).map(str::to_owned);
    let mut taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    taints.retain(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    Node {
        uid: meta.uid.clone().unwrap_or_default(),
        ignored: label(meta, IGNORE_LABEL) == Some("true"),
        managed_by_wmco: noted(WMCO_VERSION).is_some(),
        wmco_version: noted(WMCO_DESIRED_VERSION).or_else(|| noted(WMCO_VERSION)),
        boot_id: info.boot_id.unwrap_or_default(),
        wmco_host_key: noted(WMCO_HOST_KEY),
        wmco_host_key_type: noted(WMCO_HOST_KEY_TYPE),
        addresses: status.addresses.unwrap_or_default(),
        taints,
        ..other
    }
}

/// Pods that were left out on a node that may run Windows matter now.
pub(super) fn store(cluster: &mut Cluster, name: Name, node: Node) -> bool {
    if !node.runs_another_system() && cluster.without_pods.remove(&name) {
        cluster.pods.want_relist(format!(
            "Node {name} was none of Windows before, its pods are listed now"
        ));
    }
    cluster.nodes.apply(name, node)
}

#[derive(Deserialize)]
pub(super) struct CsiNodeObject {
    spec: Option<CsiNodeSpec>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct CsiNodeSpec {
    drivers: Option<Vec<CsiNodeEntry>>,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct CsiNodeEntry {
    #[serde(deserialize_with = "interned")]
    name: Name,
}

pub(super) fn csi_node(_: &ObjectMeta, csi_node: CsiNodeObject) -> CsiNode {
    let spec = csi_node.spec.unwrap_or_default();
    let entries = spec.drivers.unwrap_or_default();
    CsiNode {
        drivers: Arc::new(entries.into_iter().map(|entry| entry.name).collect()),
    }
}

/// Of a CSIDriver only the name matters.
pub(super) fn csi_driver(_: &ObjectMeta, _: IgnoredAny) {}

#[derive(Deserialize)]
pub(super) struct RuntimeClassObject {
    scheduling: Option<Scheduling>,
}

#[derive(Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase")]
struct Scheduling {
    node_selector: Option<BTreeMap<String, String>>,
}

pub(super) fn runtime_class(_: &ObjectMeta, class: RuntimeClassObject) -> RuntimeClass {
    let scheduling = class.scheduling;
    let selector = scheduling.and_then(|scheduling| scheduling.node_selector);
    RuntimeClass {
        asks_for_windows: selector.as_ref().is_some_and(selects_windows),
    }
}
