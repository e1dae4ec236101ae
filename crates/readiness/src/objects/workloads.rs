//! The objects that make pods.

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use crate::index::{Cluster, ObjectKey, Owner, PodVolume, Table, shared};
use crate::objects::node_side::node_side;
use crate::objects::placement::windows_request;
use crate::objects::pod::{Condition, PodSpec};
use crate::objects::storage::ClaimTemplateObject;
use crate::objects::{Object, controller, metadata::metadata, object_key};

/// The specs of all kinds that make pods, in one: each kind has some of the fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerSpec {
    template: Option<Template>,
    job_template: Option<JobTemplate>,
    volume_claim_templates: Option<Vec<ClaimTemplateObject>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Template {
    spec: Option<PodSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct JobTemplate {
    spec: Option<JobTemplateSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct JobTemplateSpec {
    template: Option<Template>,
}

#[derive(Clone, Debug, Default, Deserialize)]
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

fn owner(meta: &ObjectMeta, spec: Option<OwnerSpec>, with_node_side: bool) -> Owner {
    let spec = spec.unwrap_or_default();
    let template = spec.template.or_else(|| spec.job_template?.spec?.template);
    let pod = template
        .and_then(|template| template.spec)
        .unwrap_or_default();
    let request = windows_request(&pod);
    let claim_templates = spec.volume_claim_templates.unwrap_or_default();
    let mut owner = Owner {
        uid: meta
            .uid
            .as_deref()
            .filter(|uid| !uid.is_empty())
            .map(shared),
        controller: controller(meta),
        node_side: with_node_side
            .then(|| node_side(&pod))
            .flatten()
            .map(Box::new),
        ..Owner::default()
    };
    // Volumes of a template that cannot ask for Windows are nobody's concern.
    if !request.never_asks() {
        owner.claim_templates = claim_templates
            .iter()
            .map(ClaimTemplateObject::named)
            .collect();
        let is_replaced = |volume: &PodVolume| {
            let mut templates = owner.claim_templates.iter();
            templates.any(|template| template.name == volume.name)
        };
        let volumes = pod.volumes().filter(|volume| !is_replaced(volume));
        owner.volumes = volumes.collect();
    }
    owner.request = request;
    owner
}

macro_rules! owner_kind {
    ($(#[$doc:meta])* $name:ident, $inherit:path, $kind:ident, $with_node_side:literal) => {
        $(#[$doc])*
        #[derive(Resource, Clone, Debug, Default, Deserialize)]
        #[resource(inherit = $inherit)]
        pub struct $name {
            #[serde(deserialize_with = "metadata")]
            metadata: ObjectMeta,
            spec: Option<OwnerSpec>,
        }

        impl Object for $name {
            type Key = ObjectKey;
            type Row = Owner;

            fn key(meta: &ObjectMeta) -> ObjectKey {
                object_key(meta)
            }

            fn row(self) -> Option<Owner> {
                Some(owner(&self.metadata, self.spec, $with_node_side))
            }

            fn table(cluster: &mut Cluster) -> &mut Table<ObjectKey, Owner> {
                &mut cluster.owners.$kind
            }
        }
    };
}

owner_kind!(
    /// A CronJob.
    CronJobObject, batch::CronJob, cron_jobs, false
);
owner_kind!(
    /// A DaemonSet.
    DaemonSetObject, apps::DaemonSet, daemon_sets, true
);
owner_kind!(
    /// A Deployment.
    DeploymentObject, apps::Deployment, deployments, false
);
owner_kind!(
    /// A ReplicaSet.
    ReplicaSetObject, apps::ReplicaSet, replica_sets, false
);
owner_kind!(
    /// A `ReplicationController`.
    ReplicationControllerObject, core::ReplicationController, replication_controllers, false
);
owner_kind!(
    /// A StatefulSet.
    StatefulSetObject, apps::StatefulSet, stateful_sets, false
);

/// A Job.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = batch::Job)]
pub struct JobObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: Option<OwnerSpec>,
    status: Option<JobStatus>,
}

impl Object for JobObject {
    type Key = ObjectKey;
    type Row = Owner;

    fn key(meta: &ObjectMeta) -> ObjectKey {
        object_key(meta)
    }

    fn row(self) -> Option<Owner> {
        Some(Owner {
            finished: self.status.is_some_and(|status| status.is_finished()),
            ..owner(&self.metadata, self.spec, false)
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<ObjectKey, Owner> {
        &mut cluster.owners.jobs
    }
}
