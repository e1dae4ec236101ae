//! Decodes Node, `CSINode`, `CSIDriver` and `RuntimeClass`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::IgnoredAny;

use crate::assess::plugins;
use crate::assess::versions::Distribution;
use crate::index::{self, CsiNode, Labels, Node, System, Taint, intern};
use crate::objects::Object;
use crate::objects::metadata::text;
use crate::objects::placement::{OS_ID_LABEL, OS_LABEL, named_by_labels};
use crate::objects::platform::platform;

/// The plugins that the kubelet redirects, comma-separated.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
const IGNORE_LABEL: &str = "windowsstorage.dev/ignore";
const MANAGEMENT_ANNOTATION: &str = "windowsstorage.dev/management";
const WMCO_VERSION: &str = "windowsmachineconfig.openshift.io/version";
const WMCO_DESIRED_VERSION: &str = "windowsmachineconfig.openshift.io/desired-version";
const WMCO_HOST_KEY: &str = "windowsmachineconfig.openshift.io/ssh-host-key";
const WMCO_HOST_KEY_TYPE: &str = "windowsmachineconfig.openshift.io/ssh-host-key-type";

pub(super) fn row(meta: &ObjectMeta, node: Object<core::NodeSpec, core::NodeStatus>) -> Node {
    let label = |key: &str| text(meta.labels.as_ref(), key);
    let status = node.status.unwrap_or_default();
    let info = status.node_info.unwrap_or_default();
    let other = Node {
        operating_system: label(OS_LABEL)
            .map(str::to_owned)
            .unwrap_or(info.operating_system),
        deleting: meta.deletion_timestamp.is_some(),
        distribution: distribution(meta),
        kubelet_version: info.kubelet_version,
        labels: labels(meta),
        ..Node::default()
    };
    if other.system() == Some(System::Other) {
        // Other fields are not needed.
        return other;
    }
    let noted = |key| text(meta.annotations.as_ref(), key).map(str::to_owned);
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let mut taints: Vec<Taint> = taints.into_iter().map(Taint::from).collect();
    taints.retain(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    Node {
        uid: meta.uid.clone().unwrap_or_default(),
        ignored: label(IGNORE_LABEL) == Some("true"),
        platform: platform(meta, &taints, &other.kubelet_version),
        given: noted(MANAGEMENT_ANNOTATION).as_deref() == Some("Managed"),
        ready_since: ready_since(status.conditions.as_deref().unwrap_or_default()),
        wmco_version: noted(WMCO_DESIRED_VERSION).or_else(|| noted(WMCO_VERSION)),
        boot_id: info.boot_id,
        wmco_host_key: noted(WMCO_HOST_KEY),
        wmco_host_key_type: noted(WMCO_HOST_KEY_TYPE),
        addresses: status.addresses.unwrap_or_default(),
        taints,
        ..other
    }
}

fn ready_since(conditions: &[core::NodeCondition]) -> Option<Timestamp> {
    let mut conditions = conditions.iter();
    let ready = conditions.find(|condition| condition.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref().map(|time| time.0);
    since.filter(|_| ready.status == "True")
}

fn distribution(meta: &ObjectMeta) -> Distribution {
    let is_labelled = text(meta.labels.as_ref(), OS_ID_LABEL).is_some();
    if is_labelled || text(meta.annotations.as_ref(), WMCO_VERSION).is_some() {
        Distribution::OpenShift
    } else {
        Distribution::Kubernetes
    }
}

fn labels(meta: &ObjectMeta) -> Labels {
    let labels = meta.labels.iter().flatten();
    labels
        .map(|(key, value)| (intern(key), intern(value)))
        .collect()
}

pub(super) fn csi_node(meta: &ObjectMeta, csi_node: Object<storage::CSINodeSpec>) -> CsiNode {
    let drivers = csi_node.spec.map(|spec| spec.drivers).unwrap_or_default();
    let noted = text(meta.annotations.as_ref(), MIGRATED_PLUGINS).into_iter();
    let noted = noted.flat_map(|names| names.split(',').map(str::trim));
    CsiNode {
        redirected: noted.filter_map(plugins::by_name).collect(),
        drivers: Arc::new(drivers.iter().map(|entry| intern(&entry.name)).collect()),
    }
}

/// Returns an empty row: only a CSIDriver's name is used.
pub(super) fn csi_driver(_: &ObjectMeta, _: IgnoredAny) {}

pub(super) fn runtime_class(_: &ObjectMeta, class: RuntimeClass) -> index::RuntimeClass {
    let scheduling = class.scheduling;
    let selector = scheduling.and_then(|scheduling| scheduling.node_selector);
    let selector = selector.unwrap_or_default();
    index::RuntimeClass {
        names: named_by_labels(&selector),
        selector,
    }
}
