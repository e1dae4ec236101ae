//! Decodes Node, `CSINode`, `CSIDriver` and `RuntimeClass`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::node::v1::Scheduling;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::assess::plugins;
use crate::index::{
    CsiNode, Labels, LeftOut, Name, Node, NodeAddress, NodeSelection, System, Taint, intern,
};
use crate::objects::interned;
use crate::objects::metadata::{Meta, Object};
use crate::objects::placement::{OS_LABEL, WINDOWS_BUILD_LABEL};
use crate::objects::platform::platform;
use crate::objects::pod::Condition;

object_only!(NodeSpec, NodeStatus, CsiNodeSpec, CsiNodeEntry);

/// The plugins that the kubelet redirects, comma-separated.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
const IGNORE_LABEL: &str = "windowsstorage.dev/ignore";
/// What shows a virtual node. Sources: virtual-kubelet (azure-aci's `windows-virtual-node.md`), Liqo (`TypeLabel` and
/// `TypeNode` in its `pkg/consts`), Admiralty, KWOK (its manual's examples of nodes).
const TYPE_LABELS: [&str; 2] = ["type", "liqo.io/type"];
const VIRTUAL_TYPES: [&str; 3] = ["virtual-kubelet", "virtual-node", "kwok"];
const VIRTUAL_TAINT: &str = "virtual-kubelet.io/provider";
const MANAGEMENT_ANNOTATION: &str = "windowsstorage.dev/management";
const WMCO_HOST_KEY: &str = "windowsmachineconfig.openshift.io/ssh-host-key";
const WMCO_HOST_KEY_TYPE: &str = "windowsmachineconfig.openshift.io/ssh-host-key-type";

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
pub(super) struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub(super) struct NodeStatus {
    node_info: Option<core::NodeSystemInfo>,
    addresses: Option<Vec<NodeAddress>>,
    conditions: Option<Vec<Condition>>,
}

pub(super) fn row(node: Object<NodeSpec, NodeStatus>) -> Node {
    let meta = node.metadata;
    let label = |key: &str| meta.label(key);
    let status = node.status.unwrap_or_default();
    let info = status.node_info.unwrap_or_default();
    let mut taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let mut types = TYPE_LABELS.into_iter().filter_map(label);
    let is_virtual = types.any(|it| VIRTUAL_TYPES.contains(&it))
        || taints.iter().any(|taint| taint.key == VIRTUAL_TAINT);
    let left_out = if is_virtual {
        Some(LeftOut::Virtual)
    } else {
        (label(IGNORE_LABEL) == Some("true")).then_some(LeftOut::Ignored)
    };
    let other = Node {
        left_out,
        operating_system: label(OS_LABEL).map_or(info.operating_system, str::to_owned),
        deleting: meta.deletion_timestamp.is_some(),
        kubelet_version: info.kubelet_version,
        labels: labels(&meta),
        ..Node::default()
    };
    if other.system() == Some(System::Other) {
        // Other fields are not needed.
        return other;
    }
    let noted = |key| meta.annotation(key).map(str::to_owned);
    taints.retain(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    Node {
        uid: meta.uid.clone().unwrap_or_default(),
        platform: platform(&meta, &taints, &other.kubelet_version),
        given: noted(MANAGEMENT_ANNOTATION).as_deref() == Some("Managed"),
        ready_since: ready_since(status.conditions.as_deref().unwrap_or_default()),
        boot_id: info.boot_id,
        windows_build: windows_build(
            label(WINDOWS_BUILD_LABEL),
            &info.kernel_version,
            info.os_image,
        ),
        wmco_host_key: noted(WMCO_HOST_KEY),
        wmco_host_key_type: noted(WMCO_HOST_KEY_TYPE),
        addresses: status.addresses.unwrap_or_default(),
        taints,
        ..other
    }
}

/// Returns the build of Windows by its label, or by a kernel such as `10.0.20348.2461`, or else the system's own name.
fn windows_build(label: Option<&str>, kernel: &str, os_image: String) -> String {
    let of_kernel = || {
        let parts: Vec<&str> = kernel.split('.').take(3).collect();
        (parts.len() == 3).then(|| parts.join("."))
    };
    label
        .map(str::to_owned)
        .or_else(of_kernel)
        .unwrap_or(os_image)
}

fn ready_since(conditions: &[Condition]) -> Option<Timestamp> {
    let mut conditions = conditions.iter();
    let ready = conditions.find(|condition| condition.is_true("Ready"))?;
    Some(ready.last_transition_time.as_ref()?.0)
}

fn labels(meta: &Meta) -> Labels {
    let labels = meta.labels.iter().flatten();
    labels
        .map(|(key, value)| (intern(key), intern(value)))
        .collect()
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
pub(super) struct CsiNodeSpec {
    drivers: Option<Vec<CsiNodeEntry>>,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct CsiNodeEntry {
    #[serde(deserialize_with = "interned")]
    name: Name,
}

pub(super) fn csi_node(csi_node: Object<CsiNodeSpec>) -> CsiNode {
    let meta = csi_node.metadata;
    let spec = csi_node.spec.unwrap_or_default();
    let entries = spec.drivers.unwrap_or_default();
    let noted = meta.annotation(MIGRATED_PLUGINS).into_iter();
    let noted = noted.flat_map(|names| names.split(',').map(str::trim));
    CsiNode {
        node_uid: meta.node_uid(),
        redirected: noted.filter_map(plugins::by_name).collect(),
        drivers: Arc::new(entries.into_iter().map(|entry| entry.name).collect()),
    }
}

/// Returns an empty row: only a CSIDriver's name is used.
pub(super) fn csi_driver(_: IgnoredAny) {}

/// Only its node selector is used, so nothing else of it has to fit.
#[derive(Deserialize)]
pub(super) struct RuntimeClassObject {
    scheduling: Option<Scheduling>,
}

pub(super) fn runtime_class(class: RuntimeClassObject) -> NodeSelection {
    let scheduling = class.scheduling;
    let selector = scheduling.and_then(|scheduling| scheduling.node_selector);
    NodeSelection::of(selector.unwrap_or_default())
}
