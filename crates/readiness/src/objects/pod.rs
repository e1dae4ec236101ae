//! Decodes pods, and the parts of a pod's spec that templates share with them.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::index::{
    Cluster, DriverPod, Name, ObjectKey, Pod, PodVolume, PodVolumeSource, System, intern,
};
use crate::objects::Object;
use crate::objects::metadata::controller;
use crate::objects::node_side::node_side;
use crate::objects::placement::placement;
use crate::objects::storage::{claim_of, in_tree, volume_type};

/// Returns the node in `spec.nodeName`.
pub(super) fn node_name(spec: &core::PodSpec) -> Option<Name> {
    let name = spec.node_name.as_deref();
    name.filter(|name| !name.is_empty()).map(intern)
}

/// Returns the relevant volumes.
pub(super) fn volumes(spec: &core::PodSpec) -> impl Iterator<Item = PodVolume> {
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|volume| {
        Some(PodVolume {
            name: intern(&volume.name),
            source: source(volume)?,
        })
    })
}

fn source(volume: &core::Volume) -> Option<PodVolumeSource> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(PodVolumeSource::Claim(intern(&claim.claim_name)));
    }
    if let Some(ephemeral) = &volume.ephemeral {
        let template = ephemeral.volume_claim_template.as_ref();
        let meta = template.and_then(|template| template.metadata.as_ref());
        let claim = claim_of(meta, template.map(|template| &template.spec));
        return Some(PodVolumeSource::Ephemeral(claim));
    }
    let driver = volume.csi.as_ref().map(|csi| csi.driver.as_str());
    volume_type(driver, in_tree!(volume)).map(PodVolumeSource::Inline)
}

pub(super) fn row(
    meta: &ObjectMeta,
    object: Object<core::PodSpec, core::PodStatus>,
) -> Option<Pod> {
    let status = object.status.unwrap_or_default();
    if let Some("Succeeded" | "Failed") = status.phase.as_deref() {
        return None;
    }
    let spec = object.spec.unwrap_or_default();
    let node_side = node_side(&spec).unwrap_or_default();
    let driver = (!node_side.names.is_empty()).then(|| {
        Box::new(DriverPod {
            may_reach_csi_proxy: node_side.may_reach_csi_proxy,
            names: node_side.names,
            ready: is_ready(&status) && meta.deletion_timestamp.is_none(),
            trouble: trouble(&status),
        })
    });
    let pod = Pod {
        placement: placement(&spec),
        volumes: volumes(&spec).collect(),
        node_name: node_name(&spec),
        controller: controller(meta),
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

fn is_ready(status: &core::PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn trouble(status: &core::PodStatus) -> Option<String> {
    let containers = status.init_container_statuses.iter().flatten();
    containers
        .chain(status.container_statuses.iter().flatten())
        .filter_map(|container| container.state.as_ref())
        .filter_map(|state| {
            let waiting = state.waiting.as_ref().map(|waiting| &waiting.reason);
            waiting.or(state
                .terminated
                .as_ref()
                .map(|terminated| &terminated.reason))
        })
        .filter_map(Clone::clone)
        .find(|reason| reason != "Completed")
}
