//! Decodes the objects that create pods.

use serde::Deserialize;

use crate::index::{NodeSide, Owner, Placement, PodVolume, Revision, intern};
use crate::objects::lenient::Lenient;
use crate::objects::metadata::{DaemonSetMeta, OwnerMeta, RevisionMeta, controller, created};
use crate::objects::node_side::node_side;
use crate::objects::placement::placement;
use crate::objects::pod::{Condition, PodSpec};
use crate::objects::storage::ClaimTemplateObject;

object_only!(
    OwnerSpec,
    ReplicasSpec,
    Template,
    JobTemplate,
    JobTemplateSpec,
    JobStatus
);

#[derive(Deserialize)]
pub(super) struct OwnerObject {
    metadata: OwnerMeta,
    spec: Option<OwnerSpec>,
}

#[derive(Deserialize)]
pub(super) struct DaemonSetObject {
    metadata: DaemonSetMeta,
    spec: Option<OwnerSpec>,
}

#[derive(Deserialize)]
pub(super) struct JobObject {
    metadata: OwnerMeta,
    spec: Option<OwnerSpec>,
    status: Option<JobStatus>,
}

/// The specs of all kinds that create pods, merged: each kind has some of the fields.
#[derive(Default, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase")]
struct OwnerSpec {
    template: Option<Template>,
    job_template: Option<JobTemplate>,
    volume_claim_templates: Option<Vec<ClaimTemplateObject>>,
}

#[derive(Deserialize)]
pub(super) struct ReplicasObject {
    metadata: RevisionMeta,
    spec: Option<ReplicasSpec>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct ReplicasSpec {
    replicas: Option<i64>,
    template: Option<Template>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct Template {
    spec: Option<PodSpec>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct JobTemplate {
    spec: Option<JobTemplateSpec>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct JobTemplateSpec {
    template: Option<Template>,
}

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct JobStatus {
    conditions: Option<Vec<Condition>>,
}

impl JobStatus {
    fn is_finished(&self) -> bool {
        self.conditions.iter().flatten().any(|condition| {
            matches!(condition.r#type.as_str(), "Complete" | "Failed") && condition.status == "True"
        })
    }
}

impl OwnerSpec {
    fn template(&mut self) -> PodSpec {
        let job_template = || self.job_template.take()?.spec?.template;
        let template = self.template.take().or_else(job_template);
        let spec = template.and_then(|template| template.spec);
        spec.unwrap_or_default()
    }
}

pub(super) fn owner(object: OwnerObject) -> Owner {
    of_template(&object.metadata, object.spec).0
}

/// Decodes a ReplicaSet or `ReplicationController`, which may be one of several revisions.
pub(super) fn revision(object: ReplicasObject) -> Owner {
    let meta = object.metadata;
    let spec = object.spec.unwrap_or_default();
    let revision = Revision {
        has_replicas: spec.replicas.is_none_or(|replicas| replicas > 0),
        created: created(meta.creation_timestamp.as_ref()),
    };
    let meta = OwnerMeta {
        uid: meta.uid,
        owner_references: meta.owner_references,
    };
    let of_template = of_template(
        &meta,
        Some(OwnerSpec {
            template: spec.template,
            ..OwnerSpec::default()
        }),
    );
    Owner {
        revision: Some(revision),
        ..of_template.0
    }
}

/// Decodes a DaemonSet, which may install a CSI driver on nodes.
pub(super) fn daemon_set(object: DaemonSetObject) -> Owner {
    let DaemonSetMeta {
        uid,
        annotations: Lenient(applied),
        owner_references,
    } = object.metadata;
    let meta = OwnerMeta {
        uid,
        owner_references,
    };
    let (owner, pod) = of_template(&meta, object.spec);
    let node_side = node_side(&pod).map(|side| NodeSide {
        is_openshifts: applied.0,
        ..side
    });
    Owner {
        node_side: node_side.map(Box::new),
        ..owner
    }
}

pub(super) fn job(object: JobObject) -> Owner {
    let (owner, _) = of_template(&object.metadata, object.spec);
    let finished = object.status.is_some_and(|status| status.is_finished());
    Owner { finished, ..owner }
}

fn of_template(meta: &OwnerMeta, spec: Option<OwnerSpec>) -> (Owner, PodSpec) {
    let mut spec = spec.unwrap_or_default();
    let pod = spec.template();
    let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty());
    let mut owner = Owner {
        uid: uid.map(intern),
        controller: controller(meta.owner_references.as_deref()),
        placement: Placement {
            node: pod.node_name(),
            ..placement(&pod)
        },
        ..Owner::default()
    };
    // Volumes only matter if the template can select Windows.
    if !owner.placement.never_asks() {
        let claim_templates = spec.volume_claim_templates.unwrap_or_default();
        let named = claim_templates.iter().map(ClaimTemplateObject::named);
        owner.claim_templates = named.collect();
        let is_replaced = |volume: &PodVolume| {
            let mut templates = owner.claim_templates.iter();
            templates.any(|template| template.name == volume.name)
        };
        let volumes = pod.volumes().filter(|volume| !is_replaced(volume));
        owner.volumes = volumes.collect();
    }
    (owner, pod)
}
