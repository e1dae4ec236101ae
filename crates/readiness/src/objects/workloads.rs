//! Decodes the objects that create pods.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::index::{NodeSide, Owner, Placement, PodVolume, Revision, intern};
use crate::objects::metadata::Object;
use crate::objects::node_side::node_side;
use crate::objects::placement::placement;
use crate::objects::pod::Condition;
use crate::objects::pod_spec::PodSpec;
use crate::objects::storage::ClaimTemplateObject;

object_only!(OwnerSpec, Template, OwnerStatus);

/// An object of any kind that creates pods: each kind has some of the fields.
type OwnerObject = Object<OwnerSpec, OwnerStatus>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub(super) struct OwnerSpec {
    replicas: Option<i64>,
    template: Option<Template>,
    job_template: Option<Box<JobTemplate>>,
    volume_claim_templates: Option<Vec<ClaimTemplateObject>>,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct Template {
    spec: Option<PodSpec>,
}

#[derive(Deserialize)]
struct JobTemplate {
    spec: Option<OwnerSpec>,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
pub(super) struct OwnerStatus {
    conditions: Option<Vec<Condition>>,
}

/// Shows that an operator of OpenShift's applies an object. Source: `specHashAnnotation` in
/// `pkg/operator/resource/resourceapply/apps.go` of openshift/library-go, with which its operators of CSI drivers apply
/// their DaemonSets.
const APPLIED_BY_OPENSHIFT: &str = "operator.openshift.io/spec-hash";

pub(super) fn owner(object: OwnerObject) -> Owner {
    of_template(object).0
}

/// Decodes a ReplicaSet or `ReplicationController`, which may be one of several revisions.
pub(super) fn revision(object: OwnerObject) -> Owner {
    let replicas = object.spec.as_ref().and_then(|spec| spec.replicas);
    let revision = Revision {
        has_replicas: replicas.is_none_or(|replicas| replicas > 0),
        created: object.metadata.created(),
    };
    Owner {
        revision: Some(revision),
        ..owner(object)
    }
}

/// Decodes a DaemonSet, which may install a CSI driver on nodes.
pub(super) fn daemon_set(object: OwnerObject) -> Owner {
    let is_openshifts = object.metadata.annotation(APPLIED_BY_OPENSHIFT).is_some();
    let is_deleted = object.metadata.deletion_timestamp.is_some();
    let (owner, pod) = of_template(object);
    let node_side = node_side(&pod).map(|side| NodeSide {
        is_openshifts,
        registers: if is_deleted {
            BTreeSet::new()
        } else {
            side.registers
        },
        ..side
    });
    Owner {
        node_side: node_side.map(Box::new),
        ..owner
    }
}

pub(super) fn job(object: OwnerObject) -> Owner {
    let status = object.status.as_ref();
    let mut conditions = status
        .and_then(|it| it.conditions.as_ref())
        .into_iter()
        .flatten();
    let finished = conditions.any(|it| it.is_true("Complete") || it.is_true("Failed"));
    Owner {
        finished,
        ..owner(object)
    }
}

fn of_template(object: OwnerObject) -> (Owner, PodSpec) {
    let (meta, spec) = (object.metadata, object.spec.unwrap_or_default());
    let job_template = || spec.job_template?.spec?.template;
    let template = spec.template.or_else(job_template);
    let pod = template.and_then(|template| template.spec);
    let pod = pod.unwrap_or_default();
    let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty());
    let mut owner = Owner {
        uid: uid.map(intern),
        controller: meta.controller(),
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
        // No pod has two volumes of one name, and a template stands for all claims of its name.
        let mut seen = BTreeSet::new();
        let single = named.filter(|template| seen.insert(template.name.clone()));
        owner.claim_templates = single.collect();
        let is_replaced = |volume: &PodVolume| {
            let mut templates = owner.claim_templates.iter();
            templates.any(|template| template.name == volume.name)
        };
        let volumes = pod.volumes().filter(|volume| !is_replaced(volume));
        owner.volumes = volumes.collect();
    }
    (owner, pod)
}
