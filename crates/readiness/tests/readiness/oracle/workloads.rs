//! Which objects are reported as Windows workloads.

use super::cluster::{
    CRON_JOB, Cluster, DAEMON_SET, DEPLOYMENT, JOB, Kind, NODE, POD, REPLICA_SET,
    REPLICATION_CONTROLLER, RUNTIME_CLASS, STATEFUL_SET, field, is, list, name, namespace,
    nonempty, text,
};
use serde_json::Value;

const OWNERS: [Kind; 7] = [
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    CRON_JOB,
    REPLICATION_CONTROLLER,
];
const OS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
const BUILD: &str = "node.kubernetes.io/windows-build";

/// A pod, or an owner none of whose pods stands for it.
pub struct Workload<'a> {
    pub object: &'a Value,
    /// The pod's spec, or that of the template.
    pub spec: &'a Value,
    /// The Windows node that a pod is bound to.
    pub node: Option<&'a str>,
}

pub fn all(cluster: Cluster<'_>) -> Vec<Workload<'_>> {
    let mut workloads = Vec::new();
    for pod in cluster.of(POD) {
        if is_live(pod) && judge(cluster, pod).workload {
            workloads.push(Workload {
                object: pod,
                spec: &pod["spec"],
                node: bound_to(pod),
            });
        }
    }
    for kind in OWNERS {
        for owner in cluster.of(kind) {
            if let Some(spec) = template_spec(owner)
                && asks_for_windows(cluster, spec)
                && !is_finished(owner)
                && !is_controlled(cluster, owner)
                && !has_standing_pod(cluster, owner)
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

fn os(node: &Value) -> Option<&str> {
    text(node, &["metadata", "labels", "kubernetes.io/os"])
        .or_else(|| text(node, &["status", "nodeInfo", "operatingSystem"]))
}

fn is_ignored(node: &Value) -> bool {
    text(node, &["metadata", "labels", "windowsstorage.dev/ignore"]) == Some("true")
}

fn is_being_deleted(node: &Value) -> bool {
    field(node, &["metadata", "deletionTimestamp"]).is_some()
}

pub fn is_windows_node(node: &Value) -> bool {
    os(node) == Some("windows") && !is_ignored(node) && !is_being_deleted(node)
}

fn is_live(pod: &Value) -> bool {
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
    /// Where it does, its owner's template is not reported.
    stands_for_owner: bool,
}

fn judge(cluster: Cluster<'_>, pod: &Value) -> Judgement {
    let (workload, stands_for_owner) = match bound_to(pod).map(|node| cluster.get(NODE, "", node)) {
        None => {
            let asks = asks_for_windows(cluster, &pod["spec"]);
            (asks, asks)
        }
        Some(None) => (false, true),
        Some(Some(node)) if os(node) != Some("windows") => (false, false),
        // Its pods go with it, and where they come back nobody knows: the template speaks for them.
        Some(Some(node)) if is_being_deleted(node) => (false, false),
        Some(Some(node)) if is_ignored(node) => (false, true),
        Some(Some(_)) => (true, true),
    };
    Judgement {
        workload,
        stands_for_owner,
    }
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

fn controller(object: &Value) -> Option<&str> {
    list(object, &["metadata", "ownerReferences"])
        .iter()
        .find(|reference| reference["controller"] == true)
        .and_then(|reference| nonempty(reference, &["uid"]))
}

fn owner_of_uid<'a>(cluster: Cluster<'a>, uid: &str) -> Option<&'a Value> {
    OWNERS
        .into_iter()
        .flat_map(|kind| cluster.of(kind))
        .find(|owner| nonempty(owner, &["metadata", "uid"]) == Some(uid))
}

/// The uids of the controller, of its controller and so on, and whether they go round in a circle.
fn controllers<'a>(cluster: Cluster<'a>, object: &'a Value) -> (Vec<&'a str>, bool) {
    let mut chain = Vec::new();
    let mut next = controller(object);
    while let Some(uid) = next {
        if chain.contains(&uid) {
            return (chain, true);
        }
        chain.push(uid);
        next = owner_of_uid(cluster, uid).and_then(controller);
    }
    (chain, false)
}

/// A circle of controllers has nobody at its top who would be reported, so its members are.
fn is_controlled(cluster: Cluster<'_>, owner: &Value) -> bool {
    let (chain, circle) = controllers(cluster, owner);
    [REPLICA_SET, JOB, REPLICATION_CONTROLLER]
        .into_iter()
        .any(|kind| is(owner, kind))
        && !circle
        && chain
            .first()
            .is_some_and(|uid| owner_of_uid(cluster, uid).is_some())
}

fn has_standing_pod(cluster: Cluster<'_>, owner: &Value) -> bool {
    let uid = nonempty(owner, &["metadata", "uid"]);
    cluster
        .of(POD)
        .filter(|pod| is_live(pod))
        .filter(|pod| uid.is_some_and(|uid| controllers(cluster, pod).0.contains(&uid)))
        .any(|pod| judge(cluster, pod).stands_for_owner)
}

pub fn asks_for_windows(cluster: Cluster<'_>, spec: &Value) -> bool {
    text(spec, &["os", "name"]) == Some("windows")
        || field(spec, &["nodeSelector"]).is_some_and(selects_windows)
        || affinity_asks(spec)
        || nonempty(spec, &["runtimeClassName"])
            .and_then(|class| cluster.get(RUNTIME_CLASS, "", class))
            .and_then(|class| field(class, &["scheduling", "nodeSelector"]))
            .is_some_and(selects_windows)
}

fn selects_windows(selector: &Value) -> bool {
    OS.iter()
        .any(|label| text(selector, &[label]) == Some("windows"))
        || field(selector, &[BUILD]).is_some()
}

fn affinity_asks(spec: &Value) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = list(
        spec,
        &["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"],
    );
    !terms.is_empty()
        && terms.iter().all(|term| {
            list(term, &["matchExpressions"])
                .iter()
                .any(expression_asks)
        })
}

fn expression_asks(expression: &Value) -> bool {
    let key = text(expression, &["key"]).unwrap_or_default();
    let operator = text(expression, &["operator"]).unwrap_or_default();
    let values = list(expression, &["values"]);
    if OS.contains(&key) {
        match operator {
            "In" => !values.is_empty() && values.iter().all(|value| value == "windows"),
            "NotIn" => {
                values.iter().any(|value| value == "linux")
                    && values.iter().all(|value| value != "windows")
            }
            _ => false,
        }
    } else {
        key == BUILD && ["In", "Exists", "Gt", "Lt"].contains(&operator)
    }
}

/// `Kind/namespace/name`, as findings name objects.
pub fn address(object: &Value) -> String {
    format!(
        "{}/{}/{}",
        object["kind"].as_str().unwrap_or_default(),
        namespace(object),
        name(object)
    )
}
