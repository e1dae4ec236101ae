//! Decodes pods.

use k8s_openapi::api::core::v1::ContainerState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::index::{Cluster, DriverPod, Moving, ObjectKey, Pod, PodVolume, System, to_text};
use crate::objects::metadata::Object;
use crate::objects::node_side::node_side;
use crate::objects::placement::{placement, selection};
use crate::objects::pod_spec::PodSpec;

object_only!(PodStatus);

/// The reasons of a container that waits for its image.
const WITHOUT_IMAGE: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub(super) struct PodStatus {
    phase: Option<String>,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

/// A condition of a pod, a Job or a Node.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    r#type: Option<String>,
    status: Option<String>,
    pub(super) last_transition_time: Option<Time>,
}

impl Condition {
    pub(super) fn is_true(&self, kind: &str) -> bool {
        self.r#type.as_deref() == Some(kind) && self.status.as_deref() == Some("True")
    }
}

#[derive(Deserialize)]
struct ContainerStatus {
    state: Option<ContainerState>,
    image: Option<String>,
}

pub(super) fn row(object: Object<PodSpec, PodStatus>) -> Option<Pod> {
    let meta = object.metadata;
    let status = object.status.unwrap_or_default();
    if let Some("Succeeded" | "Failed") = status.phase.as_deref() {
        return None;
    }
    let spec = object.spec.unwrap_or_default();
    let node_side = node_side(&spec).unwrap_or_default();
    let driver = (!node_side.names.is_empty()).then(|| {
        let (trouble, image) = status.trouble().unzip();
        Box::new(DriverPod {
            may_reach_csi_proxy: node_side.may_reach_csi_proxy,
            names: node_side.names,
            ready: status.is_ready() && meta.deletion_timestamp.is_none(),
            trouble,
            image: image.flatten(),
        })
    });
    let volumes: Box<[PodVolume]> = spec.volumes().collect();
    let moving = || Moving {
        selection: selection(&spec),
        tolerations: spec.tolerations.clone().unwrap_or_default(),
    };
    let pod = Pod {
        placement: placement(&spec),
        moving: (!volumes.is_empty() && !meta.stays()).then(|| to_text(&moving())),
        volumes,
        node_name: spec.node_name(),
        controller: meta.controller(),
        csi_proxy_pipes: node_side.csi_proxy_pipes.into(),
        driver,
    };
    // A pod without storage still shows that its controller creates pods, and where.
    let matters = !pod.volumes.is_empty()
        || !pod.csi_proxy_pipes.is_empty()
        || pod.driver.is_some()
        || (pod.controller.is_some() && pod.node_name.is_some());
    matters.then_some(pod)
}

/// Stores a pod. What changes of a pod on a node of another system is nobody's news: most pods of a large cluster run there.
pub(super) fn store(cluster: &mut Cluster, key: ObjectKey, pod: Pod) -> bool {
    let is_elsewhere = |pod: &Pod| {
        let node = pod.node_name.as_ref();
        let node = node.and_then(|node| cluster.nodes.get(node));
        node.is_some_and(|node| node.system() == Some(System::Other))
    };
    let stays_elsewhere = is_elsewhere(&pod) && cluster.pods.get(&key).is_none_or(is_elsewhere);
    cluster.pods.apply(key, pod) && !stays_elsewhere
}

impl PodStatus {
    fn is_ready(&self) -> bool {
        let mut conditions = self.conditions.iter().flatten();
        conditions.any(|condition| condition.is_true("Ready"))
    }

    /// Returns why a container waits or terminated, and the image that it waits for. Containers without an image come
    /// first: others may only wait for them.
    fn trouble(&self) -> Option<(String, Option<String>)> {
        let containers = self.init_container_statuses.iter().flatten();
        let containers = containers.chain(self.container_statuses.iter().flatten());
        let troubles = containers.filter_map(ContainerStatus::trouble);
        troubles.min_by_key(|(_, image)| image.is_none())
    }
}

impl ContainerStatus {
    fn trouble(&self) -> Option<(String, Option<String>)> {
        let state = self.state.as_ref()?;
        let reason = match (&state.waiting, &state.terminated) {
            (Some(waiting), _) => &waiting.reason,
            (None, terminated) => &terminated.as_ref()?.reason,
        };
        let reason = reason.clone().filter(|it| it != "Completed")?;
        let is_pull = WITHOUT_IMAGE.contains(&reason.as_str());
        let image = is_pull.then(|| self.image.clone().unwrap_or_default());
        Some((reason, image))
    }
}
