//! The node side of CSI drivers: what a pod or a DaemonSet shows of the driver that it brings to nodes.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::assess::NodeSelection;
use crate::index::{Name, Node};
use crate::objects::object_only;

object_only!(Taint, Toleration);

/// What a pod template shows of a CSI driver's node side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSide {
    /// Names of drivers that it may be: from the registrar's path, the plugin's folder and the images.
    pub names: BTreeSet<Name>,
    /// The csi-proxy pipes that it mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Vec<String>,
    /// The nodes that it selects, as a [`NodeSelection`]'s text; absent where it selects all.
    pub selector: Option<Name>,
    /// What it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Its images but those of the usual sidecars.
    pub images: Vec<Image>,
    /// The tag of an image of csi-proxy itself; empty where the image has none.
    pub csi_proxy: Option<String>,
    /// A driver in HostProcess containers, which reach csi-proxy's pipes without mounting them, and of which it is not known that
    /// it does without.
    pub may_reach_csi_proxy: bool,
}

/// Taints that the DaemonSet controller lets its pods tolerate, each with that effect only.
const TOLERATED_BY_EVERY_DAEMON_SET: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

impl NodeSide {
    /// Whether a DaemonSet with this template has a pod on that node.
    #[must_use]
    pub fn covers(&self, name: &str, node: &Node) -> bool {
        self.selects(name, node) && self.repelled_by(node).is_empty()
    }

    /// Whether its node selector and affinity fit that node.
    #[must_use]
    pub fn selects(&self, name: &str, node: &Node) -> bool {
        let selection = self.selector.as_deref().map(NodeSelection::from_text);
        selection.is_none_or(|selection| selection.matches(name, &node.labels))
    }

    /// The node's taints that keep the pods of such a DaemonSet away.
    #[must_use]
    pub fn repelled_by<'a>(&self, node: &'a Node) -> Vec<&'a Taint> {
        let is_tolerated = |taint: &&Taint| {
            let taint_is = (taint.key.as_str(), taint.effect.as_str());
            TOLERATED_BY_EVERY_DAEMON_SET.contains(&taint_is)
                || (self.tolerations.iter()).any(|toleration| toleration.covers(taint))
        };
        let taints = node.taints.iter();
        taints.filter(|taint| !is_tolerated(taint)).collect()
    }
}

/// A pod that looks like a part of a CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverPod {
    /// Names of drivers that it may be.
    pub names: BTreeSet<Name>,
    /// Its condition `Ready`; a pod that is being deleted is not ready.
    pub ready: bool,
    /// Why a container of it waits or has ended, such as `CrashLoopBackOff`.
    pub trouble: Option<String>,
    /// As [`NodeSide::may_reach_csi_proxy`].
    pub may_reach_csi_proxy: bool,
}

/// An image by the last part of its name and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The last part of its name.
    pub name: String,
    /// Major and minor version in its tag.
    pub version: (u64, u64),
    /// The tag as it is.
    pub tag: String,
}

/// A taint that keeps pods from a Node: its effect is `NoSchedule` or `NoExecute`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", default)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Option<String>,
    /// The effect.
    pub effect: String,
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, value, effect } = self;
        match value.as_deref() {
            None | Some("") => write!(f, "{key}:{effect}"),
            Some(value) => write!(f, "{key}={value}:{effect}"),
        }
    }
}

/// A toleration. An empty key or effect stands for all, as does the value where the operator is `Exists`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self")]
pub struct Toleration {
    key: Option<String>,
    operator: Option<String>,
    value: Option<String>,
    effect: Option<String>,
}

impl Toleration {
    /// As Kubernetes matches it.
    #[must_use]
    pub fn covers(&self, taint: &Taint) -> bool {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let all_or = |wanted: &Option<String>, is: &str| {
            wanted
                .as_deref()
                .is_none_or(|wanted| wanted.is_empty() || wanted == is)
        };
        let exists = self.operator.as_deref() == Some("Exists");
        all_or(&self.key, &taint.key)
            && (exists || text(&self.value) == text(&taint.value))
            && all_or(&self.effect, &taint.effect)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_covers_what_kubernetes_says_it_covers() {
        let taint: Taint = serde_json::from_value(
            json!({"key": "os", "value": "Windows", "effect": "NoSchedule"}),
        )
        .unwrap();
        for (covers, toleration) in [
            (true, json!({"operator": "Exists"})),
            (true, json!({"operator": "Exists", "key": "", "effect": ""})),
            (true, json!({"operator": "Exists", "effect": "NoSchedule"})),
            (false, json!({"operator": "Exists", "effect": "NoExecute"})),
            (true, json!({"key": "os", "operator": "Exists"})),
            (true, json!({"key": "os", "value": "Windows"})),
            (false, json!({"key": "os", "value": "windows"})),
            (false, json!({"key": "os"})),
            (
                false,
                json!({"key": "node.kubernetes.io/os", "operator": "Exists"}),
            ),
        ] {
            let decoded: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(decoded.covers(&taint), covers, "{toleration}");
        }
    }
}
