//! The objects that are reported as Windows workloads.

use super::cluster::{
    CRON_JOB, Cluster, DAEMON_SET, DEPLOYMENT, JOB, Kind, NODE, POD, REPLICA_SET,
    REPLICATION_CONTROLLER, STATEFUL_SET, field, is, list, name, namespace, nonempty, text,
};
use super::memory::on_unknown_node;
use super::placement::{asks, is_nowhere, os};
use serde_json::Value;

pub const OWNERS: [Kind; 7] = [
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    CRON_JOB,
    REPLICATION_CONTROLLER,
];

/// A pod or a template.
pub struct Workload<'a> {
    pub object: &'a Value,
    /// The pod's spec, or that of the template.
    pub spec: &'a Value,
    /// The Windows node that a pod is bound to.
    pub node: Option<&'a str>,
}

impl<'a> Workload<'a> {
    pub fn of_pod(pod: &'a Value) -> Self {
        Self {
            object: pod,
            spec: &pod["spec"],
            node: bound_to(pod),
        }
    }
}

pub fn all(cluster: Cluster<'_>) -> Vec<Workload<'_>> {
    let mut workloads = Vec::new();
    for pod in cluster.of(POD) {
        if is_live(pod) && judge(cluster, pod).workload {
            workloads.push(Workload::of_pod(pod));
        }
    }
    for kind in OWNERS {
        for owner in cluster.of(kind) {
            if let Some(spec) = template_spec(owner)
                && asks(cluster, namespace(owner), spec, true) == Some(true)
                && counts(cluster, owner)
            {
                workloads.push(Workload {
                    object: owner,
                    spec,
                    node: None,
                });
            }
        }
    }
    workloads
}

fn counts(cluster: Cluster<'_>, owner: &Value) -> bool {
    !is_finished(owner) && !is_controlled(cluster, owner) && !is_old_revision(cluster, owner)
}

/// Returns the workloads that select nodes that are not there.
pub fn nowhere(cluster: Cluster<'_>) -> Vec<Workload<'_>> {
    that_wait(cluster, is_nowhere)
}

/// Returns the workloads that select no nodes, and of which nothing says on which operating system they run.
pub fn unplaced(cluster: Cluster<'_>) -> Vec<Workload<'_>> {
    that_wait(cluster, |cluster, of, spec, is_template| {
        asks(cluster, of, spec, is_template).is_none()
            && !is_nowhere(cluster, of, spec, is_template)
    })
}

fn that_wait(
    cluster: Cluster<'_>,
    is_one: impl Fn(Cluster<'_>, &str, &Value, bool) -> bool,
) -> Vec<Workload<'_>> {
    let pods = cluster.of(POD).filter(|pod| {
        let of = namespace(pod);
        let owner = controller(pod).and_then(|uid| owner_of_uid(cluster, of, uid));
        is_live(pod)
            && owner.is_none()
            && bound_to(pod).is_none()
            && is_one(cluster, of, &pod["spec"], false)
    });
    let owners = OWNERS.into_iter().flat_map(|kind| cluster.of(kind));
    let owners = owners.filter_map(|owner| {
        let spec = template_spec(owner)?;
        let is_one = is_one(cluster, namespace(owner), spec, true) && counts(cluster, owner);
        is_one.then_some(Workload {
            object: owner,
            spec,
            node: None,
        })
    });
    pods.map(Workload::of_pod).chain(owners).collect()
}

pub fn is_ignored(node: &Value) -> bool {
    is_virtual(node)
        || text(node, &["metadata", "labels", "windowsstorage.dev/ignore"]) == Some("true")
}

pub fn is_virtual(node: &Value) -> bool {
    let mut of_type = ["type", "liqo.io/type"]
        .into_iter()
        .filter_map(|key| text(node, &["metadata", "labels", key]));
    of_type.any(|of_type| matches!(of_type, "virtual-kubelet" | "virtual-node" | "kwok"))
        || list(node, &["spec", "taints"])
            .iter()
            .any(|taint| taint["key"] == "virtual-kubelet.io/provider")
}

/// Whether the node is left out because it is virtual, and would be a Windows node.
pub fn is_virtual_windows(node: &Value) -> bool {
    is_virtual(node) && os(node) == Some("windows") && !is_being_deleted(node)
}

fn is_being_deleted(node: &Value) -> bool {
    field(node, &["metadata", "deletionTimestamp"]).is_some()
}

pub fn is_windows_node(node: &Value) -> bool {
    os(node) == Some("windows") && !is_ignored(node) && !is_being_deleted(node)
}

pub fn is_live(pod: &Value) -> bool {
    !matches!(
        text(pod, &["status", "phase"]),
        Some("Succeeded" | "Failed")
    )
}

fn bound_to(pod: &Value) -> Option<&str> {
    nonempty(pod, &["spec", "nodeName"])
}

struct Judgement {
    workload: bool,
    /// Whether the pod's volumes are reported instead of those of its owner's template.
    stands_for_owner: bool,
}

fn judge(cluster: Cluster<'_>, pod: &Value) -> Judgement {
    let on = |is_windows: bool, is_ignored: bool| (is_windows && !is_ignored, is_windows);
    let known = |node: &str| {
        let gone = cluster.1.nodes.get(node);
        let gone = gone.map(|gone| (gone.system == Some(true), gone.is_ignored));
        let there = cluster.get(NODE, "", node);
        there.map_or(gone, |node| {
            Some((os(node) == Some("windows"), is_ignored(node)))
        })
    };
    let (workload, stands_for_owner) = match bound_to(pod).map(known) {
        None => on(
            asks(cluster, namespace(pod), &pod["spec"], false) == Some(true),
            false,
        ),
        Some(None) => on(on_unknown_node(cluster, pod), false),
        Some(Some((is_windows, is_ignored))) => on(is_windows, is_ignored),
    };
    Judgement {
        workload,
        stands_for_owner,
    }
}

/// Returns the live pods whose volumes represent those of the owner.
pub fn standing<'a>(cluster: Cluster<'a>, owner: &Value) -> Vec<Workload<'a>> {
    let uid = nonempty(owner, &["metadata", "uid"]);
    cluster
        .of(POD)
        .filter(|pod| is_live(pod) && namespace(pod) == namespace(owner))
        .filter(|pod| uid.is_some_and(|uid| controllers(cluster, pod).contains(&uid)))
        .filter(|pod| judge(cluster, pod).stands_for_owner)
        .map(Workload::of_pod)
        .collect()
}

/// Whether this is not among the current revisions of an unknown controller: those with replicas, or if there are none,
/// the newest, and of equally new ones the last by name.
fn is_old_revision(cluster: Cluster<'_>, owner: &Value) -> bool {
    let revisions = [REPLICA_SET, REPLICATION_CONTROLLER];
    let Some(uid) = controller(owner) else {
        return false;
    };
    let of_namespace = namespace(owner);
    if !revisions.into_iter().any(|kind| is(owner, kind))
        || owner_of_uid(cluster, of_namespace, uid).is_some()
    {
        return false;
    }
    let has_replicas = |revision: &Value| revision["spec"]["replicas"] != 0;
    let is_newer = |other: &Value| {
        let created = ["metadata", "creationTimestamp"];
        (text(other, &created), name(other)) > (text(owner, &created), name(owner))
    };
    let others = revisions.into_iter().flat_map(|kind| cluster.of(kind));
    let mut others = others.filter(|other| namespace(other) == of_namespace);
    !has_replicas(owner)
        && others
            .any(|other| controller(other) == Some(uid) && (has_replicas(other) || is_newer(other)))
}

pub fn template_spec(owner: &Value) -> Option<&Value> {
    if is(owner, CRON_JOB) {
        field(owner, &["spec", "jobTemplate", "spec", "template", "spec"])
    } else {
        field(owner, &["spec", "template", "spec"])
    }
}

fn is_finished(owner: &Value) -> bool {
    is(owner, JOB)
        && list(owner, &["status", "conditions"])
            .iter()
            .any(|condition| {
                matches!(text(condition, &["type"]), Some("Complete" | "Failed"))
                    && text(condition, &["status"]) == Some("True")
            })
}

pub fn controller(object: &Value) -> Option<&str> {
    list(object, &["metadata", "ownerReferences"])
        .iter()
        .find(|reference| reference["controller"] == true)
        .and_then(|reference| nonempty(reference, &["uid"]))
}

fn owner_of_uid<'a>(cluster: Cluster<'a>, of_namespace: &str, uid: &str) -> Option<&'a Value> {
    OWNERS
        .into_iter()
        .flat_map(|kind| cluster.of(kind))
        .filter(|owner| namespace(owner) == of_namespace)
        .find(|owner| nonempty(owner, &["metadata", "uid"]) == Some(uid))
}

/// Returns the uids of the object's controller, the controller's controller and so on, each once.
fn controllers<'a>(cluster: Cluster<'a>, object: &'a Value) -> Vec<&'a str> {
    let mut chain = Vec::new();
    let mut next = controller(object);
    while let Some(uid) = next.filter(|uid| !chain.contains(uid)) {
        chain.push(uid);
        next = owner_of_uid(cluster, namespace(object), uid).and_then(controller);
    }
    chain
}

/// Whether a Deployment or CronJob created the object and is reported in its place.
fn is_controlled(cluster: Cluster<'_>, owner: &Value) -> bool {
    let made_by = |kind, maker| {
        let mut makers = cluster.of(maker);
        let uid = controller(owner);
        is(owner, kind)
            && uid.is_some()
            && makers.any(|maker| {
                nonempty(maker, &["metadata", "uid"]) == uid && namespace(maker) == namespace(owner)
            })
    };
    made_by(REPLICA_SET, DEPLOYMENT) || made_by(JOB, CRON_JOB)
}

/// Returns `Kind/namespace/name`, as in findings.
pub fn address(object: &Value) -> String {
    format!(
        "{}/{}/{}",
        object["kind"].as_str().unwrap_or_default(),
        namespace(object),
        name(object)
    )
}
