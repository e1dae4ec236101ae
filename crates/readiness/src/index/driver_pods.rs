//! The node side of CSI drivers, as pods and DaemonSets show it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::assess::drivers::Image;
use crate::index::{Name, Node, NodeSelection};

/// The node side of a CSI driver, as a pod template shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSide {
    /// Candidate driver names: from the registrar's path, the plugin's folder and the images.
    pub names: BTreeSet<Name>,
    /// Those of the names that the template's pods can register with the kubelet: they run a registrar or a known driver,
    /// and reach the kubelet's `plugins_registry` and the driver's folder.
    pub registers: BTreeSet<Name>,
    /// The drivers whose own images the template has, by their standard names.
    pub known: BTreeSet<Name>,
    /// The plugin's folder, where nothing else says which driver it is. A driver may name its folder as it likes.
    pub folder: Option<Name>,
    /// What is wrong with paths, so that the template's pods cannot register a driver on a Windows node.
    pub wrong_paths: Vec<String>,
    /// The csi-proxy pipes that the template mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Vec<String>,
    /// The template's node selector and required node affinity.
    pub selection: NodeSelection,
    /// The template's tolerations.
    pub tolerations: Vec<Toleration>,
    /// The template's images, without common sidecars.
    pub images: Vec<Image>,
    /// The images of common sidecars, by their own names.
    pub sidecars: Vec<Image>,
    /// Whether a container is a HostProcess container.
    pub is_host_process: bool,
    /// The tag of a csi-proxy image; empty if the image has no tag.
    pub csi_proxy: Option<String>,
    /// A driver in HostProcess containers that is not known to work without csi-proxy. Such containers reach csi-proxy's
    /// pipes without mounting them.
    pub may_reach_csi_proxy: bool,
    /// Whether an operator of OpenShift's seems to apply the DaemonSet. Anyone can write the annotation that says so.
    pub is_openshifts: bool,
}

/// Taints that the DaemonSet controller makes its pods tolerate, each with this effect only.
const TOLERATED_BY_EVERY_DAEMON_SET: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

impl NodeSide {
    /// Whether a DaemonSet with this template has a pod on the node, or will have one once the node is set up and well.
    pub fn covers(&self, name: &str, node: &Node) -> bool {
        self.selects(name, node) && self.not_tolerated(node).0.is_empty()
    }

    /// Whether the template's node selector and affinity match the node.
    pub fn selects(&self, name: &str, node: &Node) -> bool {
        self.selection.matches(name, &node.labels)
    }

    /// Returns the node's taints that the template does not tolerate: those that stay, and those that pass. Until then, the
    /// node gets no pod.
    pub(crate) fn not_tolerated<'a>(&self, node: &'a Node) -> (Vec<&'a Taint>, Vec<&'a Taint>) {
        let is_tolerated = |taint: &&Taint| {
            let taint_is = (taint.key.as_str(), taint.effect.as_str());
            TOLERATED_BY_EVERY_DAEMON_SET.contains(&taint_is)
                || (self.tolerations.iter()).any(|toleration| toleration.covers(taint))
        };
        let taints = node.taints.iter().filter(|taint| !is_tolerated(taint));
        taints.partition(|taint| !taint.passes())
    }
}

/// A pod that looks like part of a CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverPod {
    /// Candidate driver names.
    pub names: BTreeSet<Name>,
    /// The pod's `Ready` condition; false while the pod is being deleted.
    pub ready: bool,
    /// Why one of the containers waits or terminated, such as `CrashLoopBackOff`.
    pub trouble: Option<String>,
    /// The image, if the container waits for it; empty if the pod does not say which one.
    pub image: Option<String>,
    /// See [`NodeSide::may_reach_csi_proxy`].
    pub may_reach_csi_proxy: bool,
}

/// A taint that keeps pods off a Node: `NoSchedule` or `NoExecute`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Option<String>,
    /// The effect.
    pub effect: String,
}

impl Taint {
    /// Whether the taint goes away once the node is set up, or well again.
    pub fn passes(&self) -> bool {
        // GKE and kube-up mark Windows nodes with this key for as long as they live, and no DaemonSet tolerates it by itself.
        const STAYS: &str = "node.kubernetes.io/os";
        const SHUT_DOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
        let key = self.key.as_str();
        (key.starts_with("node.kubernetes.io/") && key != STAYS)
            || key.ends_with("/uninitialized")
            || key == SHUT_DOWN
    }
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

/// A toleration. An empty key or effect matches all; with operator `Exists`, so does any value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toleration {
    key: Option<String>,
    operator: Option<String>,
    value: Option<String>,
    effect: Option<String>,
}

impl Toleration {
    /// Whether this tolerates a taint, by Kubernetes' rules.
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
    fn taints_that_pass_do_not_count_against_a_daemon_set() {
        let side = NodeSide::default();
        for (key, passes) in [
            ("node.kubernetes.io/not-ready", true),
            ("node.kubernetes.io/network-unavailable", true),
            ("node.kubernetes.io/anything", true),
            ("node.cluster.x-k8s.io/uninitialized", true),
            ("node.cloudprovider.kubernetes.io/shutdown", true),
            // It stays as long as the node does.
            ("node.kubernetes.io/os", false),
            ("os", false),
            ("example.org/node.kubernetes.io/x", false),
            ("uninitialized", false),
        ] {
            let node = Node {
                taints: vec![Taint {
                    key: key.to_owned(),
                    value: None,
                    effect: "NoSchedule".to_owned(),
                }],
                ..Node::default()
            };
            assert_eq!(side.covers("win-1", &node), passes, "{key}");
            let (staying, passing) = side.not_tolerated(&node);
            assert_eq!(
                (staying.is_empty(), passing.is_empty()),
                (passes, !passes),
                "{key}"
            );
        }
    }

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
