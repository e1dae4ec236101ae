//! Finds problems of a driver on one node.

use crate::assess::CSI_PROXY_PIPES;
use crate::assess::causes::{DaemonSet, DaemonSets, Place, deploy, lacks_pods_of};
use crate::assess::report::Finding;
use crate::assess::{advisories, versions};
use crate::index::{ObjectKey, Pod};
use crate::visible::some_of;

/// The label that DaemonSets select a build of Windows by.
pub(super) const BUILD_LABEL: &str = "node.kubernetes.io/windows-build";
/// How many DaemonSets of a driver are named, and how many pipes of one. Anyone can make any number.
const NAMED: usize = 5;

/// Returns why the driver is not registered on the node. Messages name the node only if it is the finding's object.
pub fn why_missing(place: &Place<'_>) -> Vec<Finding> {
    let pods = place.driver_pods();
    let ready = pods.iter().find(|(_, pod)| is_ready(pod));
    let mut causes = match (ready, pods.first()) {
        (Some((key, pod)), _) => place.not_registered(key, pod).into_iter().collect(),
        (None, Some((key, pod))) => vec![place.pod_not_ready(key, pod, place.driver)],
        (None, None) => place.no_pod(),
    };
    causes.extend(place.wrong_paths());
    causes.extend(place.pipes_not_offered());
    causes
}

/// Reports a driver that is registered although none of its pods on the node is ready.
pub fn stale_entry(place: &Place<'_>) -> Vec<Finding> {
    let pods = place.driver_pods();
    if pods.iter().any(|(_, pod)| is_ready(pod)) {
        return Vec::new();
    }
    let driver = place.driver;
    let object = format!("CSINode/{}", place.name);
    if let Some((key, pod)) = pods.first() {
        let finding = finding!(
            STALE_ENTRY,
            object,
            "{driver} is registered, but its pod {key} is not ready{}, and no volume of it mounts until it is; see its events",
            in_brackets(trouble(pod))
        );
        return vec![finding.run("kubectl describe pod", &key.words())];
    }
    if let Some(DaemonSet { key, .. }) = place.sets_for_node().first() {
        if lacks_pods_of(place.cluster, &key.namespace) {
            return Vec::new();
        }
        let finding = finding!(
            STALE_ENTRY,
            object,
            "{driver} is registered, but DaemonSet {key} has no pod here: the entry is a leftover; see its events"
        );
        return vec![finding.run("kubectl describe daemonset", &key.words())];
    }
    // One of them may be the driver's.
    if !place.sets.perhaps.is_empty() {
        return place.not_ready_perhaps();
    }
    if place.may_lack_pods() || place.may_lack_daemon_sets() {
        return Vec::new();
    }
    vec![finding!(
        STALE_ENTRY,
        object,
        "{driver} is registered, but no pod here and no DaemonSet for Windows nodes brings it: the entry may be a leftover; {}",
        deploy(driver)
    )]
}

fn is_ready(pod: &Pod) -> bool {
    pod.driver.as_ref().is_some_and(|driver| driver.ready)
}

fn trouble(pod: &Pod) -> Option<&str> {
    pod.driver.as_ref()?.trouble.as_deref()
}

fn in_brackets(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!(" ({text})"))
}

impl<'a> Place<'a> {
    /// Returns the driver's pods on the node: those that contain the driver and those of its DaemonSets for Windows.
    /// Excludes unready pods of DaemonSets for other nodes.
    fn driver_pods(&self) -> Vec<(&'a ObjectKey, &'a Pod)> {
        let DaemonSets {
            windows, others, ..
        } = self.sets;
        let is_of =
            |sets: &[DaemonSet<'_>], (key, pod)| sets.iter().any(|it| it.has_made(key, pod));
        let names_driver = |pod: &Pod| {
            let driver = pod.driver.as_ref();
            driver.is_some_and(|driver| driver.names.contains(self.driver))
        };
        let pods = self.pods.iter().copied();
        pods.filter(|&pod| names_driver(pod.1) || is_of(windows, pod))
            .filter(|&pod| is_ready(pod.1) || !is_of(others, pod))
            .collect()
    }

    /// Says which DaemonSets may bring the driver, if their plugins' folders are all that is known of them.
    pub(super) fn perhaps(&self) -> Option<String> {
        let sets = self.sets.perhaps.iter();
        let sets = sets.filter_map(|set| {
            Some(format!(
                "DaemonSet {} brings from {}",
                set.key,
                set.node_side.folder.as_ref()?
            ))
        });
        let sets = some_of(sets, NAMED);
        (!sets.is_empty()).then(|| format!("it is not known which driver {sets}"))
    }

    /// Reports the unready pods of those DaemonSets.
    pub(super) fn not_ready_perhaps(&self) -> Vec<Finding> {
        let sets = self.sets.perhaps.iter();
        let of_set = |set: &DaemonSet<'_>| {
            let made = |(key, pod): &&(&ObjectKey, &Pod)| set.has_made(key, pod) && !is_ready(pod);
            let (key, pod) = self.pods.iter().find(made)?;
            let folder = set.node_side.folder.as_deref()?;
            Some(self.pod_not_ready(key, pod, &format!("the driver in the folder {folder}")))
        };
        sets.filter_map(of_set).take(NAMED).collect()
    }

    /// Reports the paths with which the DaemonSets for the node cannot register the driver.
    fn wrong_paths(&self) -> Vec<Finding> {
        let sets = self.sets_for_node().into_iter().take(NAMED);
        let paths = sets.flat_map(|set| {
            set.node_side
                .wrong_paths
                .iter()
                .map(move |path| (set, path))
        });
        let paths = paths.map(|(set, path)| {
            let finding = finding!(
                DRIVER_PATH_WRONG,
                set.object(),
                "DaemonSet {} cannot register {}: {path}",
                set.key,
                self.driver
            );
            finding.run("kubectl edit daemonset", &set.key.words())
        });
        paths.collect()
    }

    fn pod_not_ready(&self, key: &ObjectKey, pod: &Pod, driver: &str) -> Finding {
        let image = pod.driver.as_ref().and_then(|driver| driver.image.as_ref());
        let advice = match image {
            Some(image) => self.without_image(image),
            None if pod.csi_proxy_pipes.is_empty() => "see its events and its log".to_owned(),
            None => "see its events and its log: \"The system cannot find the file specified\" there means a pipe that \
                     csi-proxy does not offer"
                .to_owned(),
        };
        let finding = finding!(
            DRIVER_POD_NOT_READY,
            format!("Pod/{key}"),
            "pod {key} of {driver} is not ready{}; {advice}",
            in_brackets(trouble(pod))
        )
        .run("kubectl describe pod", &key.words());
        if image.is_some() {
            return finding;
        }
        let words = [&key.words()[..], &["--all-containers"]].concat();
        finding.run("kubectl logs", &words)
    }

    /// Says what to do about an image that cannot be pulled. Images for Windows are for a build of it.
    fn without_image(&self, image: &str) -> String {
        let build = match self.node.windows_build.as_str() {
            "" => "this version of Windows",
            build => build,
        };
        let image = if image.is_empty() {
            String::new()
        } else {
            format!(" {image}")
        };
        format!(
            "check the name and pull secret of the image{image}, and that it has a build for {build}: nodes of another build take a \
             DaemonSet of their own, by the label {BUILD_LABEL}"
        )
    }

    fn not_registered(&self, key: &ObjectKey, pod: &Pod) -> Option<Finding> {
        let driver = self.driver;
        let kubelet = &self.node.kubelet_version;
        let version = versions::parse(kubelet);
        let known = |version| advisories::on(advisories::KUBELET, version).next();
        if let Some(advisory) = version.as_ref().and_then(known) {
            let what = format!("pod {key} of {driver} is ready, but kubelet {kubelet}");
            return Some(advisory.finding(format!("Node/{}", self.name), &what));
        }
        // Without a CSINode, CSI_NODE_MISSING is reported instead.
        self.cluster.csi_node(self.name)?;
        let is_recreated = pod.controller.is_some();
        let again = if is_recreated {
            "Delete the pod, which is then recreated"
        } else {
            "Start it again; nothing recreates it"
        };
        let finding = finding!(
            DRIVER_NOT_REGISTERED,
            format!("Pod/{key}"),
            "pod {key} is ready, but {driver} is not registered, as when its registrar gave up (it waits for one \
             second). If a restart does not help, compare the paths in its spec with the kubelet's --root-dir. {again}"
        );
        if is_recreated {
            return Some(finding.run("kubectl delete pod", &key.words()));
        }
        Some(finding)
    }

    /// Reports mounted pipes that no csi-proxy has, whatever its state.
    fn pipes_not_offered(&self) -> Vec<Finding> {
        let sets = self.sets_for_node().into_iter().take(NAMED);
        let of_set = |set: &DaemonSet<'_>| {
            let mounted = set.node_side.csi_proxy_pipes.iter();
            let unknown = mounted.filter(|pipe| !CSI_PROXY_PIPES.contains(&pipe.as_str()));
            let unknown = some_of(unknown.map(|pipe| format!(r"\\.\pipe\{pipe}")), NAMED);
            (!unknown.is_empty()).then(|| {
                finding!(
                    PIPE_NOT_OFFERED,
                    set.object(),
                    "DaemonSet {} of {} mounts {unknown}, which no csi-proxy that this operator knows offers; deploy a version of \
                     the driver that goes with csi-proxy 1.x, or one that runs as HostProcess",
                    set.key,
                    self.driver
                )
            })
        };
        sets.filter_map(of_set).collect()
    }
}
