//! Why a driver that is needed is not registered, as far as the API shows it.
//!
//! Each cause is a small function from what is known to a finding; a driver may have several.

use crate::assess::drivers;
use crate::assess::report::Finding;
use crate::assess::versions;
use crate::index::{Cluster, CsiNode, Name, Node, NodeSide, ObjectKey, Owner, Pod};
use crate::services::CSI_PROXY_PIPES;

/// The switch of the vSphere driver, and the first version of the driver in which it is on by default.
const WINDOWS_SWITCH: &str = "csi-windows-support";
const SWITCH_ON_FROM: (u64, u64) = (3, 2);
/// Taints that the DaemonSet controller lets its pods tolerate.
const TOLERATED_BY_EVERY_DAEMON_SET: [&str; 7] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
];

/// The DaemonSets that name a driver.
#[derive(Clone, Debug, Default)]
pub struct DaemonSets<'a> {
    /// Those for Windows nodes, by name, then namespace.
    pub windows: Vec<DaemonSet<'a>>,
    /// All others.
    pub others: Vec<DaemonSet<'a>>,
}

/// One DaemonSet of a driver.
#[derive(Clone, Copy, Debug)]
pub struct DaemonSet<'a> {
    /// Its key.
    pub key: &'a ObjectKey,
    /// What is known of it.
    pub owner: &'a Owner,
    /// What its template shows.
    pub node_side: &'a NodeSide,
}

impl<'a> DaemonSets<'a> {
    /// The DaemonSets that name that driver.
    #[must_use]
    pub fn of_driver(cluster: &'a Cluster, driver: &str) -> Self {
        let mut sets = Self::default();
        for (key, owner) in cluster.owners.daemon_sets.iter() {
            let Some(node_side) = owner.node_side.as_deref() else {
                continue;
            };
            if !node_side.names_driver(driver) {
                continue;
            }
            let list = if cluster.asks_for_windows(&owner.request) {
                &mut sets.windows
            } else {
                &mut sets.others
            };
            list.push(DaemonSet {
                key,
                owner,
                node_side,
            });
        }
        let by_name = |set: &DaemonSet<'a>| (set.key.name.clone(), set.key.namespace.clone());
        sets.windows.sort_by_key(by_name);
        sets.others.sort_by_key(by_name);
        sets
    }
}

/// One node, as far as one driver is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Everything.
    pub cluster: &'a Cluster,
    /// The driver.
    pub driver: &'a str,
    /// Its DaemonSets.
    pub sets: &'a DaemonSets<'a>,
    /// The node's name.
    pub name: &'a Name,
    /// The node.
    pub node: &'a Node,
    /// Its CSINode.
    pub csi_node: Option<&'a CsiNode>,
    /// The pods that are bound to it.
    pub pods: &'a [(&'a ObjectKey, &'a Pod)],
}

/// Why the driver is not registered on the node. The messages do not name the node.
#[must_use]
pub fn why_missing(place: &Place<'_>) -> Vec<Finding> {
    let pods = place.driver_pods();
    let ready = pods.iter().find(|(_, pod)| is_ready(pod));
    let mut causes = match (ready, pods.first()) {
        (Some((key, _)), _) => place.not_registered(key).into_iter().collect(),
        (None, Some((key, pod))) => vec![place.not_ready(key, pod)],
        (None, None) => vec![place.no_pod()],
    };
    causes.extend(place.pipes_not_offered());
    causes
}

/// The entry is there although no pod of the driver is ready on the node.
#[must_use]
pub fn stale_entry(place: &Place<'_>) -> Option<Finding> {
    let is_registered = place
        .csi_node
        .is_some_and(|csi_node| csi_node.drivers.contains(place.driver));
    let is_served = place.driver_pods().iter().any(|(_, pod)| is_ready(pod));
    (is_registered && !is_served).then(|| {
        Finding::new(
            "StaleEntry",
            format!("CSINode/{}", place.name),
            format!(
                "{} is registered, but no pod of it is ready on the node: the entry may be a leftover; check the \
                 driver's DaemonSet",
                place.driver
            ),
        )
    })
}

/// What is wrong with a driver as a whole.
#[must_use]
pub fn of_driver(
    cluster: &Cluster,
    driver: &str,
    sets: &DaemonSets<'_>,
    is_missing: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(duplicates(driver, sets));
    findings.extend(version_skew(sets));
    if is_missing && driver == drivers::VSPHERE {
        findings.extend(switch_off(cluster, sets));
    }
    findings
}

fn is_ready(pod: &Pod) -> bool {
    pod.driver.as_ref().is_some_and(|driver| driver.ready)
}

impl<'a> Place<'a> {
    /// The driver's pods on the node: those that name it and those of its DaemonSets.
    fn driver_pods(&self) -> Vec<(&'a ObjectKey, &'a Pod)> {
        let is_of_set = |pod: &Pod| {
            pod.controller.is_some()
                && self
                    .sets
                    .windows
                    .iter()
                    .any(|set| set.owner.uid == pod.controller)
        };
        let names_driver = |pod: &Pod| {
            pod.driver
                .as_ref()
                .is_some_and(|driver| driver.names.contains(self.driver))
        };
        self.pods
            .iter()
            .filter(|(_, pod)| names_driver(pod) || is_of_set(pod))
            .copied()
            .collect()
    }

    fn no_pod(&self) -> Finding {
        let driver = self.driver;
        let Some(set) = self.sets.windows.first() else {
            return no_daemon_set(driver, self.sets);
        };
        let object = format!("DaemonSet/{}", set.key);
        let repelled = |set: &DaemonSet<'_>| {
            self.node.taints.iter().find(|taint| {
                !TOLERATED_BY_EVERY_DAEMON_SET.contains(&taint.key.as_str())
                    && !set.node_side.tolerates(taint)
            })
        };
        let all_repelled = self.sets.windows.iter().all(|set| repelled(set).is_some());
        match repelled(set) {
            Some(taint) if all_repelled => Finding::new(
                "TaintNotTolerated",
                object,
                format!(
                    "DaemonSet {} of {driver} does not tolerate the taint {taint}; add a toleration for it to its pod \
                     template",
                    set.key
                ),
            ),
            _ => Finding::new(
                "DriverPodMissing",
                object,
                format!(
                    "DaemonSet {} of {driver} has no pod here; look at its node selector, its affinity and its events \
                     (kubectl describe daemonset -n {} {})",
                    set.key, set.key.namespace, set.key.name
                ),
            ),
        }
    }

    fn not_ready(&self, key: &ObjectKey, pod: &Pod) -> Finding {
        let trouble = pod
            .driver
            .as_ref()
            .and_then(|driver| driver.trouble.as_ref());
        let trouble = trouble
            .map(|trouble| format!(" ({trouble})"))
            .unwrap_or_default();
        Finding::new(
            "DriverPodNotReady",
            format!("Pod/{key}"),
            format!(
                "pod {key} of {} is not ready{trouble}; see kubectl logs -n {} {} --all-containers. \"The system cannot \
                 find the file specified\" there means a pipe that csi-proxy does not offer",
                self.driver, key.namespace, key.name
            ),
        )
    }

    fn not_registered(&self, pod: &ObjectKey) -> Option<Finding> {
        let driver = self.driver;
        if versions::misses_registrations(&self.node.kubelet_version) {
            return Some(Finding::new(
                "KubeletTooOld",
                format!("Node/{}", self.name),
                format!(
                    "pod {pod} of {driver} is ready, but kubelet {} on Windows misses drivers that register after its \
                     start; upgrade it to 1.23.10, 1.24.4, 1.25.0 or later, or restart it",
                    self.node.kubelet_version
                ),
            ));
        }
        self.csi_node?;
        Some(Finding::new(
            "DriverNotRegistered",
            format!("Pod/{pod}"),
            format!(
                "pod {pod} is ready, but {driver} is not registered: its registrar gives up after a second; delete the \
                 pod, and its DaemonSet makes it anew"
            ),
        ))
    }

    fn pipes_not_offered(&self) -> Vec<Finding> {
        let Some(set) = self.sets.windows.first() else {
            return Vec::new();
        };
        let status = self.cluster.node_statuses.get(&**self.name);
        let closed = status
            .and_then(|status| status.csi_proxy.as_ref())
            .map_or(&[][..], |csi_proxy| &csi_proxy.missing_pipes);
        let is_offered = |pipe: &str| CSI_PROXY_PIPES.contains(&pipe);
        let mut findings = Vec::new();
        for pipe in &set.node_side.csi_proxy_pipes {
            let what = if !is_offered(pipe) {
                "which no csi-proxy that this operator knows offers; deploy a version of the driver that goes with it"
            } else if closed.contains(pipe) {
                "which csi-proxy here does not offer at present; is it running, and new enough?"
            } else {
                continue;
            };
            findings.push(Finding::new(
                "PipeNotOffered",
                format!("DaemonSet/{}", set.key),
                format!(
                    r"DaemonSet {} of {} mounts \\.\pipe\{pipe}, {what}",
                    set.key, self.driver
                ),
            ));
        }
        findings
    }
}

fn no_daemon_set(driver: &str, sets: &DaemonSets<'_>) -> Finding {
    let others = match sets.others.first() {
        Some(set) => format!("; DaemonSet {} is not for Windows", set.key),
        None => String::new(),
    };
    let advice = match drivers::by_name(driver) {
        Some(known) => format!("deploy it (upstream: {})", known.daemon_set),
        None => "ask its vendor for one, or move the data to a driver that has one".to_owned(),
    };
    Finding::new(
        "DaemonSetMissing",
        format!("CSIDriver/{driver}"),
        format!("no DaemonSet for Windows nodes brings {driver}{others}; {advice}"),
    )
}

fn duplicates(driver: &str, sets: &DaemonSets<'_>) -> Vec<Finding> {
    let mut windows = sets.windows.iter();
    let Some(first) = windows.next() else {
        return Vec::new();
    };
    windows
        .map(|set| {
            Finding::new(
                "DaemonSetDuplicate",
                format!("DaemonSet/{}", set.key),
                format!(
                    "DaemonSet {} brings {driver} to Windows nodes, and so does {}; keep one: where the platform brings \
                     its own, remove the one that was made by hand",
                    set.key, first.key
                ),
            )
        })
        .collect()
}

fn version_skew(sets: &DaemonSets<'_>) -> Option<Finding> {
    let windows = sets.windows.first()?;
    for image in &windows.node_side.images {
        let skewed = sets.others.iter().find_map(|set| {
            let others = set.node_side.images.iter();
            let mut same = others.filter(|other| other.name == image.name);
            let other = same.find(|other| other.version != image.version)?;
            Some((set, other))
        });
        if let Some((set, other)) = skewed {
            return Some(Finding::new(
                "VersionSkew",
                format!("DaemonSet/{}", windows.key),
                format!(
                    "DaemonSet {} runs {} {}, DaemonSet {} for other nodes {}; run one minor version on all",
                    windows.key, image.name, image.tag, set.key, other.tag
                ),
            ));
        }
    }
    None
}

/// The vSphere driver ends by itself on Windows while its switch is off.
fn switch_off(cluster: &Cluster, sets: &DaemonSets<'_>) -> Option<Finding> {
    let driver_images = sets.windows.iter().flat_map(|set| &set.node_side.images);
    let is_old = driver_images.clone().next().is_some()
        && driver_images
            .into_iter()
            .any(|image| image.version < SWITCH_ON_FROM);
    cluster.feature_switches.iter().find_map(|(key, switches)| {
        let is_off = match switches.data.get(WINDOWS_SWITCH) {
            Some(value) => value.eq_ignore_ascii_case("false"),
            None => is_old,
        };
        is_off.then(|| {
            Finding::new(
                "FeatureSwitchOff",
                format!("ConfigMap/{key}"),
                format!(
                    "the vSphere driver ends on Windows nodes while {WINDOWS_SWITCH} is not \"true\" in ConfigMap {key}; \
                     set it and delete the driver's pods"
                ),
            )
        })
    })
}
