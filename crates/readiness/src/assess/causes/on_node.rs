//! Finds problems of a driver on one node.

use serde_json::json;

use crate::assess::CSI_PROXY_PIPES;
use crate::assess::causes::{DaemonSet, Place, deploy, lacks_pods_of};
use crate::assess::report::Finding;
use crate::assess::versions;
use crate::index::{ObjectKey, Pod};

/// Reasons why a container waits that its logs cannot explain, because it has none yet.
const WITHOUT_LOGS: [(&str, &str); 2] = [
    (
        "ErrImagePull ImagePullBackOff InvalidImageName ErrImageNeverPull ImageInspectError RegistryUnavailable",
        "check the image's name and pull secret, and that it has a build for this version of Windows",
    ),
    (
        "ContainerCreating PodInitializing CreateContainerConfigError CreateContainerError \
         CreateContainerHostProcessError RunContainerError StartError ContainerCannotRun",
        "its events say what it waits for",
    ),
];

/// Returns why the driver is not registered on the node. Messages name the node only if it is the finding's object.
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

/// Reports a driver that is registered although none of its pods on the node is ready.
#[must_use]
pub fn stale_entry(place: &Place<'_>) -> Option<Finding> {
    let Place { driver, sets, .. } = place;
    let pods = place.driver_pods();
    let drivers = place.csi_node.map(|csi_node| &csi_node.drivers);
    let is_registered = drivers.is_some_and(|drivers| drivers.contains(*driver));
    if !is_registered || pods.iter().any(|(_, pod)| is_ready(pod)) {
        return None;
    }
    let object = format!("CSINode/{}", place.name);
    let what = match (pods.first(), sets.windows.first()) {
        (Some((key, pod)), _) => {
            let finding = finding!(
                STALE_ENTRY,
                object,
                "{driver} is registered, but its pod {key} is not ready{}, and no volume of it mounts until it is; see its \
                 events",
                trouble(pod).map(in_brackets).unwrap_or_default()
            );
            return Some(finding.run(&describe_pod(key)));
        }
        (None, Some(set)) if lacks_pods_of(place.cluster, &set.key.namespace) => return None,
        (None, Some(set)) => {
            let finding = finding!(
                STALE_ENTRY,
                object,
                "{driver} is registered, but DaemonSet {} has no pod here: the entry is a leftover; see its events",
                set.key
            );
            return Some(finding.run(&set.describe()));
        }
        (None, None) if place.may_lack_pods() || place.unseen_daemon_sets().is_some() => {
            return None;
        }
        (None, None) => format!(
            "no pod here and no DaemonSet for Windows nodes brings it: the entry may be a leftover; {}",
            deploy(driver)
        ),
    };
    Some(finding!(
        STALE_ENTRY,
        object,
        "{driver} is registered, but {what}"
    ))
}

/// Returns the command that shows a pod's events.
fn describe_pod(key: &ObjectKey) -> [&str; 6] {
    let ObjectKey { namespace, name } = key;
    ["kubectl", "describe", "pod", "-n", namespace, name]
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

impl<'a> Place<'a> {
    /// Returns the driver's pods on the node: those that contain the driver and those of its DaemonSets for Windows.
    /// Excludes unready pods of DaemonSets for other nodes.
    fn driver_pods(&self) -> Vec<(&'a ObjectKey, &'a Pod)> {
        let of_windows =
            |key: &ObjectKey, pod: &Pod| self.sets.windows.iter().any(|set| set.has_made(key, pod));
        let names_driver = |pod: &Pod| {
            let driver = pod.driver.as_ref();
            driver.is_some_and(|driver| driver.names.contains(self.driver))
        };
        self.pods
            .iter()
            .filter(|(key, pod)| names_driver(pod) || of_windows(key, pod))
            .filter(|(key, pod)| is_ready(pod) || self.set_for_others(key, pod).is_none())
            .copied()
            .collect()
    }

    /// Returns the pod's DaemonSet if the DaemonSet does not select Windows.
    fn set_for_others(&self, key: &ObjectKey, pod: &Pod) -> Option<&'a DaemonSet<'a>> {
        self.sets.others.iter().find(|set| set.has_made(key, pod))
    }

    /// Reports unready pods of DaemonSets that run on Windows nodes only because they have no node selector.
    fn not_for_windows(&self) -> Vec<Finding> {
        let found = self.pods.iter().filter(|(_, pod)| !is_ready(pod));
        found
            .filter_map(|(key, pod)| self.set_for_others(key, pod))
            .map(|set| {
                let finding = finding!(
                    DAEMON_SET_NOT_FOR_WINDOWS,
                    set.object(),
                    "DaemonSet {} of {} does not ask for Windows, but has a pod here that is not ready; add \
                     kubernetes.io/os: linux to its spec.template.spec.nodeSelector, and deploy a DaemonSet of its \
                     own for Windows",
                    set.key, self.driver
                );
                let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}});
                let patch = json!({"spec": {"template": {"spec": linux}}});
                set.patch(finding, "strategic", &patch)
            })
            .collect()
    }

    fn not_ready(&self, key: &ObjectKey, pod: &Pod) -> Finding {
        let reason = trouble(pod);
        let without_logs = WITHOUT_LOGS.iter().find(|(reasons, _)| {
            reason.is_some_and(|reason| reasons.split(' ').any(|known| known == reason))
        });
        let advice = match without_logs {
            Some((_, advice)) => advice,
            None if pod.csi_proxy_pipes.is_empty() => "see its log",
            None => {
                "see its log: \"The system cannot find the file specified\" there means a pipe that csi-proxy does not \
                 offer"
            }
        };
        let finding = finding!(
            DRIVER_POD_NOT_READY,
            format!("Pod/{key}"),
            "pod {key} of {} is not ready{}; {advice}",
            self.driver,
            reason.map(in_brackets).unwrap_or_default()
        );
        if without_logs.is_some() {
            return finding.run(&describe_pod(key));
        }
        let ObjectKey { namespace, name } = key;
        finding.run(&["kubectl", "logs", "-n", namespace, name, "--all-containers"])
    }

    fn not_registered(&self, key: &ObjectKey, pod: &Pod) -> Option<Finding> {
        let driver = self.driver;
        if versions::misses_registrations(&self.node.kubelet_version) {
            return Some(finding!(
                KUBELET_TOO_OLD,
                format!("Node/{}", self.name),
                "pod {key} of {driver} is ready, but kubelet {} on Windows misses drivers that register after its \
                 start; upgrade it to 1.23.10, 1.24.4, 1.25.0 or later, or restart it",
                self.node.kubelet_version
            ));
        }
        // Without a CSINode, CSI_NODE_MISSING is reported instead.
        self.csi_node?;
        let again = match pod.controller {
            Some(_) => "Delete the pod, which is then recreated",
            None => "Start it again; nothing recreates it",
        };
        let finding = finding!(
            DRIVER_NOT_REGISTERED,
            format!("Pod/{key}"),
            "pod {key} is ready, but {driver} is not registered, as when its registrar gave up (it waits for one \
             second). If a restart does not help, compare the paths in its spec with the kubelet's --root-dir. {again}"
        );
        let ObjectKey { namespace, name } = key;
        Some(match pod.controller {
            Some(_) => finding.run(&["kubectl", "delete", "pod", "-n", namespace, name]),
            None => finding,
        })
    }

    fn pipes_not_offered(&self) -> Vec<Finding> {
        let csi_proxy = self.cluster.csi_proxy(self.name);
        let closed = csi_proxy.map_or(&[][..], |csi_proxy| &csi_proxy.missing_pipes);
        let mut findings = Vec::new();
        for set in &self.sets.windows {
            let mounted = set.node_side.csi_proxy_pipes.iter().map(String::as_str);
            let (known, unknown): (Vec<&str>, Vec<&str>) =
                mounted.partition(|pipe| CSI_PROXY_PIPES.contains(pipe));
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
                    findings.push(finding!(
                        PIPE_NOT_OFFERED,
                        set.object(),
                        r"DaemonSet {} of {} mounts \\.\pipe\{}, {what}",
                        set.key,
                        self.driver,
                        pipes.join(r", \\.\pipe\")
                    ));
                }
            }
        }
        findings
    }
}
