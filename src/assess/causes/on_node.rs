//! What is wrong with a driver on one node.

use crate::assess::causes::{DaemonSet, DaemonSets, Place, lacks_pods_of};
use crate::assess::report::Finding;
use crate::assess::{codes, drivers, versions};
use crate::index::{ObjectKey, Pod, ReadFrom, Taint};
use crate::services::CSI_PROXY_PIPES;

/// Taints that the DaemonSet controller lets its pods tolerate, each with that effect only.
const TOLERATED_BY_EVERY_DAEMON_SET: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Taints that go when the node is well: it is to be mended, and not the DaemonSet.
const TAINTS_OF_NODES_IN_TROUBLE: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
];

/// Why a container waits where its logs cannot say it, for it has none.
const WITHOUT_LOGS: [(&[&str], &str); 2] = [
    (
        &[
            "ErrImagePull",
            "ImagePullBackOff",
            "InvalidImageName",
            "ErrImageNeverPull",
            "ImageInspectError",
            "RegistryUnavailable",
        ],
        "check the image's name and pull secret, and that it has a build for this version of Windows",
    ),
    (
        &[
            "ContainerCreating",
            "PodInitializing",
            "CreateContainerConfigError",
            "CreateContainerError",
            "CreateContainerHostProcessError",
            "RunContainerError",
            "StartError",
            "ContainerCannotRun",
        ],
        "its events say what it waits for",
    ),
];

/// Why the driver is not registered on the node. The messages do not name the node, but where it is the object.
#[must_use]
pub fn why_missing(place: &Place<'_>) -> Vec<Finding> {
    let pods = place.driver_pods();
    let ready = pods.iter().find(|(_, pod)| is_ready(pod));
    let mut causes = match (ready, pods.first()) {
        (Some((key, pod)), _) => place.not_registered(key, pod).into_iter().collect(),
        (None, Some((key, pod))) => vec![place.not_ready(key, pod)],
        (None, None) => place.no_pod(),
    };
    causes.extend(place.not_for_windows());
    causes.extend(place.pipes_not_offered());
    causes
}

/// The entry is there although no pod of the driver is ready on the node.
#[must_use]
pub fn stale_entry(place: &Place<'_>) -> Option<Finding> {
    let Place { driver, sets, .. } = place;
    let pods = place.driver_pods();
    let is_registered = place
        .csi_node
        .is_some_and(|csi_node| csi_node.drivers.contains(*driver));
    if !is_registered || pods.iter().any(|(_, pod)| is_ready(pod)) {
        return None;
    }
    let what = match (pods.first(), sets.windows.first()) {
        (Some((key, pod)), _) => format!(
            "its pod {key} is not ready{}, and no volume of it mounts until it is; see kubectl describe pod -n {} {}",
            trouble(pod).map(in_brackets).unwrap_or_default(),
            key.namespace,
            key.name
        ),
        (None, Some(set)) if lacks_pods_of(place.cluster, &set.key.namespace) => return None,
        (None, Some(set)) => format!(
            "DaemonSet {} has no pod here: the entry is a leftover; see {}",
            set.key,
            set.describe()
        ),
        (None, None) if place.has_no_daemon_sets() => return None,
        (None, None) => format!(
            "no pod here and no DaemonSet for Windows nodes brings it: the entry may be a leftover; {}",
            deploy(driver)
        ),
    };
    Some(Finding::new(
        codes::STALE_ENTRY,
        format!("CSINode/{}", place.name),
        format!("{driver} is registered, but {what}"),
    ))
}

fn is_ready(pod: &Pod) -> bool {
    pod.driver.as_ref().is_some_and(|driver| driver.ready)
}

fn trouble(pod: &Pod) -> Option<&str> {
    pod.driver.as_ref()?.trouble.as_deref()
}

fn in_brackets(text: &str) -> String {
    format!(" ({text})")
}

/// What to do where nothing brings the driver to Windows nodes.
fn deploy(driver: &str) -> String {
    match drivers::by_name(driver) {
        Some(known) => format!(
            "deploy it (upstream DaemonSet {}, see {})",
            known.daemon_set, known.home
        ),
        None => {
            "ask its vendor for one, or move the data to a driver that has one, such as smb.csi.k8s.io"
                .to_owned()
        }
    }
}

impl<'a> Place<'a> {
    /// The driver's pods on the node: those that name it and those of its DaemonSets, but none that is not ready and
    /// not meant for Windows.
    fn driver_pods(&self) -> Vec<(&'a ObjectKey, &'a Pod)> {
        let of_windows = |pod: &Pod| self.sets.windows.iter().any(|set| set.has_made(pod));
        let names_driver = |pod: &Pod| {
            pod.driver
                .as_ref()
                .is_some_and(|driver| driver.names.contains(self.driver))
        };
        self.pods
            .iter()
            .filter(|(_, pod)| names_driver(pod) || of_windows(pod))
            .filter(|(_, pod)| is_ready(pod) || self.set_for_others(pod).is_none())
            .copied()
            .collect()
    }

    /// The pod's DaemonSet, if that does not ask for Windows.
    fn set_for_others(&self, pod: &Pod) -> Option<&'a DaemonSet<'a>> {
        self.sets.others.iter().find(|set| set.has_made(pod))
    }

    /// Whether files were read that have no DaemonSet at all, so that nothing follows from the lack of one.
    fn has_no_daemon_sets(&self) -> bool {
        self.cluster.read_from == ReadFrom::Files && self.cluster.owners.daemon_sets.is_empty()
    }

    /// A DaemonSet without a node selector has pods on every node.
    fn not_for_windows(&self) -> Vec<Finding> {
        let found = self.pods.iter().filter(|(_, pod)| !is_ready(pod));
        found
            .filter_map(|(_, pod)| self.set_for_others(pod))
            .map(|set| {
                Finding::new(
                    codes::DAEMON_SET_NOT_FOR_WINDOWS,
                    set.object(),
                    format!(
                        "DaemonSet {} of {} does not ask for Windows, but has a pod here that is not ready; add \
                         kubernetes.io/os: linux to its spec.template.spec.nodeSelector, and deploy a DaemonSet of its \
                         own for Windows",
                        set.key, self.driver
                    ),
                )
            })
            .collect()
    }

    fn no_pod(&self) -> Vec<Finding> {
        let sets = self.sets.windows.iter();
        // The one that is nearest to having a pod here.
        let nearest = sets
            .map(|set| (set, self.repelling(set)))
            .min_by_key(|(_, taints)| taints.len());
        let Some((set, taints)) = nearest else {
            return vec![self.no_daemon_set(self.sets)];
        };
        if taints.is_empty() {
            return vec![self.pod_missing(set)];
        }
        let (of_node, of_set): (Vec<_>, Vec<_>) = taints
            .into_iter()
            .partition(|taint| TAINTS_OF_NODES_IN_TROUBLE.contains(&taint.key.as_str()));
        let mut findings = Vec::new();
        if !of_set.is_empty() {
            findings.push(self.not_tolerated(set, &of_set));
        }
        if !of_node.is_empty() {
            findings.push(Finding::new(
                codes::NODE_NOT_READY,
                format!("Node/{}", self.name),
                format!(
                    "the node has the taint {}, which keeps the pod of DaemonSet {} of {} from it; mend the node first \
                     (kubectl describe node {})",
                    texts(&of_node),
                    set.key,
                    self.driver,
                    self.name
                ),
            ));
        }
        findings
    }

    /// The node's taints that keep the DaemonSet's pods away.
    fn repelling(&self, set: &DaemonSet<'_>) -> Vec<&'a Taint> {
        let taints = self.node.taints.iter();
        taints
            .filter(|taint| {
                let taint_is = (taint.key.as_str(), taint.effect.as_str());
                !TOLERATED_BY_EVERY_DAEMON_SET.contains(&taint_is)
                    && !set.node_side.tolerates(taint)
            })
            .collect()
    }

    fn not_tolerated(&self, set: &DaemonSet<'_>, taints: &[&Taint]) -> Finding {
        let tolerations: Vec<String> = taints
            .iter()
            .map(|Taint { key, effect, .. }| {
                format!("{{key: {key}, operator: Exists, effect: {effect}}}")
            })
            .collect();
        Finding::new(
            codes::TAINT_NOT_TOLERATED,
            set.object(),
            format!(
                "DaemonSet {} of {} does not tolerate the taint {}; add to its spec.template.spec.tolerations: {}",
                set.key,
                self.driver,
                texts(taints),
                tolerations.join(", ")
            ),
        )
    }

    fn pod_missing(&self, set: &DaemonSet<'_>) -> Finding {
        let (driver, key) = (self.driver, set.key);
        let message = if lacks_pods_of(self.cluster, &key.namespace) {
            format!(
                "DaemonSet {key} brings {driver}, but the input has no pod of its namespace; add the output of kubectl \
                 get pods -n {} -o yaml",
                key.namespace
            )
        } else {
            format!(
                "DaemonSet {key} of {driver} has no pod here, and no taint explains it; compare its node selector and \
                 affinity with the node's labels, and look at its events ({}) and for a pod of it that is pending",
                set.describe()
            )
        };
        Finding::new(codes::DRIVER_POD_MISSING, set.object(), message)
    }

    fn no_daemon_set(&self, sets: &DaemonSets<'_>) -> Finding {
        let driver = self.driver;
        let message = if self.has_no_daemon_sets() {
            format!(
                "whether a DaemonSet brings {driver} cannot be seen, for the input has none; add the output of kubectl \
                 get daemonsets -A -o yaml"
            )
        } else {
            let others = match sets.others.first() {
                Some(set) => format!(" ({} is not for Windows)", set.key),
                None => String::new(),
            };
            format!(
                "no DaemonSet for Windows nodes brings {driver}{others}; {}",
                deploy(driver)
            )
        };
        Finding::new(
            codes::DAEMON_SET_MISSING,
            format!("CSIDriver/{driver}"),
            message,
        )
    }

    fn not_ready(&self, key: &ObjectKey, pod: &Pod) -> Finding {
        let ObjectKey { namespace, name } = key;
        let reason = trouble(pod);
        let without_logs = WITHOUT_LOGS
            .iter()
            .find(|(reasons, _)| reason.is_some_and(|reason| reasons.contains(&reason)));
        let advice = match without_logs {
            Some((_, advice)) => {
                format!("{advice} (kubectl describe pod -n {namespace} {name})")
            }
            None if pod.csi_proxy_pipes.is_empty() => {
                format!("see kubectl logs -n {namespace} {name} --all-containers")
            }
            None => format!(
                "see kubectl logs -n {namespace} {name} --all-containers: \"The system cannot find the file specified\" \
                 there means a pipe that csi-proxy does not offer"
            ),
        };
        Finding::new(
            codes::DRIVER_POD_NOT_READY,
            format!("Pod/{key}"),
            format!(
                "pod {key} of {} is not ready{}; {advice}",
                self.driver,
                reason.map(in_brackets).unwrap_or_default()
            ),
        )
    }

    fn not_registered(&self, key: &ObjectKey, pod: &Pod) -> Option<Finding> {
        let driver = self.driver;
        if versions::misses_registrations(&self.node.kubelet_version) {
            return Some(Finding::new(
                codes::KUBELET_TOO_OLD,
                format!("Node/{}", self.name),
                format!(
                    "pod {key} of {driver} is ready, but kubelet {} on Windows misses drivers that register after its \
                     start; upgrade it to 1.23.10, 1.24.4, 1.25.0 or later, or restart it",
                    self.node.kubelet_version
                ),
            ));
        }
        // Without a CSINode there is another finding.
        self.csi_node?;
        let ObjectKey { namespace, name } = key;
        let again = if pod.controller.is_some() {
            format!("kubectl delete pod -n {namespace} {name}; it is made anew")
        } else {
            "start it again; nothing makes it anew".to_owned()
        };
        Some(Finding::new(
            codes::DRIVER_NOT_REGISTERED,
            format!("Pod/{key}"),
            format!(
                "pod {key} is ready, but {driver} is not registered, as when its registrar gave up (it waits for one \
                 second): {again}. If that does not help, compare the paths in its spec with the kubelet's --root-dir"
            ),
        ))
    }

    fn pipes_not_offered(&self) -> Vec<Finding> {
        let status = match self.cluster.read_from {
            ReadFrom::Api => self.cluster.node_statuses.get(&**self.name),
            // Files say nothing of what runs at present.
            ReadFrom::Files => None,
        };
        let closed = status
            .and_then(|status| status.csi_proxy.as_ref())
            .map_or(&[][..], |csi_proxy| &csi_proxy.missing_pipes);
        let mut findings = Vec::new();
        for set in &self.sets.windows {
            let (known, unknown): (Vec<&str>, Vec<&str>) = set
                .node_side
                .csi_proxy_pipes
                .iter()
                .map(String::as_str)
                .partition(|pipe| CSI_PROXY_PIPES.contains(pipe));
            let is_closed = |pipe: &&str| closed.iter().any(|closed| closed == pipe);
            let shut: Vec<&str> = known.into_iter().filter(is_closed).collect();
            for (pipes, what) in [
                (
                    unknown,
                    "which no csi-proxy that this operator knows offers; deploy a version of the driver that goes with \
                     csi-proxy 1.x, or one that runs as HostProcess",
                ),
                (
                    shut,
                    "which csi-proxy here does not offer at present; see that it runs, and that it is 1.1.3 or later",
                ),
            ] {
                if !pipes.is_empty() {
                    findings.push(Finding::new(
                        codes::PIPE_NOT_OFFERED,
                        set.object(),
                        format!(
                            r"DaemonSet {} of {} mounts \\.\pipe\{}, {what}",
                            set.key,
                            self.driver,
                            pipes.join(r", \\.\pipe\")
                        ),
                    ));
                }
            }
        }
        findings
    }
}

fn texts(taints: &[&Taint]) -> String {
    let taints: Vec<String> = taints.iter().map(ToString::to_string).collect();
    taints.join(", ")
}
