//! Decodes the objects that create pods.

use k8s_openapi::api::{apps::v1 as apps, batch::v1 as batch, core::v1 as core};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::index::{Owner, Placement, PodVolume, Revision, intern};
use crate::objects::Object;
use crate::objects::metadata::{controller, created};
use crate::objects::node_side::node_side;
use crate::objects::placement::placement;
use crate::objects::pod::{node_name, volumes};
use crate::objects::storage::claim_template;

/// Decodes a CronJob.
pub(super) fn cron_job(meta: &ObjectMeta, object: Object<batch::CronJobSpec>) -> Owner {
    let job = object.spec.and_then(|spec| spec.job_template.spec);
    owner(meta, job.map(|job| job.template), &[])
}

/// Decodes a DaemonSet, which may install a CSI driver on nodes.
pub(super) fn daemon_set(meta: &ObjectMeta, object: Object<apps::DaemonSetSpec>) -> Owner {
    let template = object.spec.map(|spec| spec.template);
    let pod = template
        .as_ref()
        .and_then(|template| template.spec.as_ref());
    let node_side = pod.and_then(node_side).map(Box::new);
    Owner {
        node_side,
        ..owner(meta, template, &[])
    }
}

/// Decodes a Deployment.
pub(super) fn deployment(meta: &ObjectMeta, object: Object<apps::DeploymentSpec>) -> Owner {
    owner(meta, object.spec.map(|spec| spec.template), &[])
}

/// Decodes a Job.
pub(super) fn job(meta: &ObjectMeta, object: Object<batch::JobSpec, batch::JobStatus>) -> Owner {
    let conditions = object.status.and_then(|status| status.conditions);
    let mut conditions = conditions.iter().flatten();
    let finished = conditions.any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    });
    Owner {
        finished,
        ..owner(meta, object.spec.map(|spec| spec.template), &[])
    }
}

/// Decodes a ReplicaSet.
pub(super) fn replica_set(meta: &ObjectMeta, object: Object<apps::ReplicaSetSpec>) -> Owner {
    let spec = object.spec.unwrap_or_default();
    revision(meta, spec.replicas, spec.template)
}

/// Decodes a `ReplicationController`.
pub(super) fn replication_controller(
    meta: &ObjectMeta,
    object: Object<core::ReplicationControllerSpec>,
) -> Owner {
    let spec = object.spec.unwrap_or_default();
    revision(meta, spec.replicas, spec.template)
}

/// Decodes a StatefulSet.
pub(super) fn stateful_set(meta: &ObjectMeta, object: Object<apps::StatefulSetSpec>) -> Owner {
    let spec = object.spec.unwrap_or_default();
    let claims = spec.volume_claim_templates.unwrap_or_default();
    owner(meta, Some(spec.template), &claims)
}

/// Decodes what may be one of several revisions.
fn revision(
    meta: &ObjectMeta,
    replicas: Option<i32>,
    template: Option<core::PodTemplateSpec>,
) -> Owner {
    let revision = Revision {
        has_replicas: replicas.is_none_or(|replicas| replicas > 0),
        created: created(meta),
    };
    Owner {
        revision: Some(revision),
        ..owner(meta, template, &[])
    }
}

fn owner(
    meta: &ObjectMeta,
    template: Option<core::PodTemplateSpec>,
    claims: &[core::PersistentVolumeClaim],
) -> Owner {
    let pod = template.and_then(|template| template.spec);
    let pod = pod.unwrap_or_default();
    let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty());
    let mut owner = Owner {
        uid: uid.map(intern),
        controller: controller(meta),
        placement: Placement {
            node: node_name(&pod),
            ..placement(&pod)
        },
        ..Owner::default()
    };
    // Volumes only matter if the template can select Windows.
    if !owner.placement.never_asks() {
        owner.claim_templates = claims.iter().map(claim_template).collect();
        let is_replaced = |volume: &PodVolume| {
            let mut templates = owner.claim_templates.iter();
            templates.any(|template| template.name == volume.name)
        };
        let volumes = volumes(&pod).filter(|volume| !is_replaced(volume));
        owner.volumes = volumes.collect();
    }
    owner
}
