//! When a template is reported, and as whose.

use super::{
    Case, asking, azure_disk, case, claim, class, controlled_by, linux, node, object, owner, pod,
    pod_on, windows,
};
use crate::oracle::cluster::{
    CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, Kind, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET,
};
use serde_json::{Value, json};

/// One row of each of these, in this order.
fn reported(workloads: &[(Kind, &str)]) -> Value {
    let rows: Vec<_> = workloads
        .iter()
        .map(|((_, kind), name)| json!({"workload": {"kind": kind, "namespace": "shop", "name": name}}))
        .collect();
    json!({"volumes": rows})
}

fn asking_owner(kind: Kind, name: &str) -> Value {
    owner(kind, name, asking(azure_disk()))
}

fn cron_job() -> Value {
    let template = json!({"spec": {"template": {"spec": asking(azure_disk())}}});
    object(
        CRON_JOB,
        true,
        "cron",
        json!({"metadata": {"uid": "cron"}, "spec": {"jobTemplate": template}}),
    )
}

/// A pod of `deploy` by way of `rs`.
fn pod_of_replica_set(spec: Value) -> Value {
    controlled_by(pod("web-0", spec), "rs")
}

fn deployment_and(mut others: Vec<Value>) -> Vec<Value> {
    let replica_set = controlled_by(asking_owner(REPLICA_SET, "rs"), "deploy");
    others.extend([
        windows("win-1"),
        linux("n-1"),
        asking_owner(DEPLOYMENT, "deploy"),
        replica_set,
    ]);
    others
}

pub fn cases() -> Vec<Case> {
    let mut cases = templates();
    cases.extend(standing());
    cases.extend(circles());
    cases.extend(stateful());
    cases
}

fn templates() -> Vec<Case> {
    let each = |name, kind| {
        case(
            name,
            vec![windows("win-1"), asking_owner(kind, "a")],
            reported(&[(kind, "a")]),
        )
    };
    let mut none_wanted = asking_owner(DEPLOYMENT, "a");
    none_wanted["spec"]["replicas"] = json!(0);
    let mut suspended = asking_owner(JOB, "a");
    suspended["spec"]["suspend"] = json!(true);
    suspended["status"]["conditions"] = json!([{"type": "Suspended", "status": "True"}]);
    let mut finished = asking_owner(JOB, "a");
    finished["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    let mut unfinished = asking_owner(JOB, "a");
    unfinished["status"]["conditions"] = json!([{"type": "Failed", "status": "False"}]);
    vec![
        each("a Deployment's template", DEPLOYMENT),
        each("a ReplicaSet's template", REPLICA_SET),
        each("a StatefulSet's template", STATEFUL_SET),
        each("a DaemonSet's template", DAEMON_SET),
        each("a Job's template", JOB),
        each("a ReplicationController's template", REPLICATION_CONTROLLER),
        case!("a CronJob's template": [windows("win-1"), cron_job()] => reported(&[(CRON_JOB, "cron")])),
        case!("a template that does not ask":
            [windows("win-1"), owner(DEPLOYMENT, "a", json!({"volumes": [azure_disk()]}))]
            => reported(&[])),
        case!("zero replicas count": [windows("win-1"), none_wanted] => reported(&[(DEPLOYMENT, "a")])),
        case!("a suspended Job is unfinished": [windows("win-1"), suspended] => reported(&[(JOB, "a")])),
        case!("a finished Job uses nothing": [windows("win-1"), finished] => reported(&[])),
        case!("a condition that is not True": [windows("win-1"), unfinished] => reported(&[(JOB, "a")])),
        case!("a controlled ReplicaSet is not reported": deployment_and(vec![])
            => reported(&[(DEPLOYMENT, "deploy")])),
        case!("a ReplicaSet whose Deployment is gone is reported":
            [windows("win-1"), controlled_by(asking_owner(REPLICA_SET, "rs"), "gone")]
            => reported(&[(REPLICA_SET, "rs")])),
        case!("a controlled ReplicationController is not reported":
            [windows("win-1"), asking_owner(DEPLOYMENT, "a"),
                controlled_by(asking_owner(REPLICATION_CONTROLLER, "rc"), "a")]
            => reported(&[(DEPLOYMENT, "a")])),
        case!("a Deployment is reported whoever controls it":
            [windows("win-1"), asking_owner(DEPLOYMENT, "a"),
                controlled_by(asking_owner(DEPLOYMENT, "b"), "a")]
            => reported(&[(DEPLOYMENT, "a"), (DEPLOYMENT, "b")])),
        case!("a Job of a CronJob is not reported":
            [windows("win-1"), cron_job(), controlled_by(asking_owner(JOB, "job"), "cron")]
            => reported(&[(CRON_JOB, "cron")])),
    ]
}

fn standing() -> Vec<Case> {
    let on = |node: &str| json!({"nodeName": node, "volumes": [azure_disk()]});
    let stands = |name, pod: Value| case(name, deployment_and(vec![pod]), reported(&[]));
    let does_not = |name, pod: Value| {
        case(
            name,
            deployment_and(vec![pod]),
            reported(&[(DEPLOYMENT, "deploy")]),
        )
    };
    let mut ended = pod_of_replica_set(on("win-1"));
    ended["status"]["phase"] = json!("Succeeded");
    let mut owned = pod_of_replica_set(on("n-1"));
    owned["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    owned["spec"]["nodeName"] = json!("gone");
    let mut ignored = stands(
        "a pod on an ignored Windows node stands, unreported",
        pod_of_replica_set(on("win-2")),
    );
    ignored.objects.push(node(
        "win-2",
        json!({"labels": {"kubernetes.io/os": "windows", "windowsstorage.dev/ignore": "true"}}),
    ));
    let mut leaving = does_not(
        "a pod on a node that is being deleted does not stand",
        pod_of_replica_set(on("win-2")),
    );
    leaving.objects.push(node(
        "win-2",
        json!({"labels": {"kubernetes.io/os": "windows"}, "deletionTimestamp": "2026-01-02T03:04:05Z"}),
    ));
    let mut nameless = does_not(
        "a pod on a node of unknown system does not stand",
        pod_of_replica_set(on("win-2")),
    );
    nameless.objects.push(node(
        "win-2",
        json!({"labels": {"windowsstorage.dev/ignore": "true"}}),
    ));
    vec![
        case!("a live pod is reported in place of its owners":
            deployment_and(vec![pod_of_replica_set(on("win-1"))])
            => json!({"volumes": [{"workload": {"kind": "Pod", "name": "web-0"}}]})),
        case!("an unbound pod that asks is reported in place of its owners":
            deployment_and(vec![pod_of_replica_set(asking(azure_disk()))])
            => json!({"volumes": [{"workload": {"kind": "Pod", "name": "web-0"}}]})),
        does_not("an ended pod does not stand", ended),
        does_not(
            "a live pod on Linux does not stand",
            pod_of_replica_set(on("n-1")),
        ),
        does_not(
            "an unbound pod without a sign does not stand",
            pod_of_replica_set(json!({"volumes": [azure_disk()]})),
        ),
        does_not("an owner that is not the controller has no pod", owned),
        stands(
            "a pod on an unknown node stands, unreported",
            pod_of_replica_set(on("gone")),
        ),
        ignored,
        leaving,
        nameless,
    ]
}

fn circles() -> Vec<Case> {
    let round = || {
        vec![
            windows("win-1"),
            controlled_by(asking_owner(REPLICA_SET, "a"), "b"),
            controlled_by(asking_owner(REPLICA_SET, "b"), "a"),
            controlled_by(asking_owner(REPLICA_SET, "c"), "a"),
        ]
    };
    let mut with_pod = round();
    with_pod.push(controlled_by(pod_on("gone", "web-0", azure_disk()), "a"));
    vec![
        case!("a circle of controllers hides nobody, nor who hangs on it": round()
            => reported(&[(REPLICA_SET, "a"), (REPLICA_SET, "b"), (REPLICA_SET, "c")])),
        case!("a live pod stands for a whole circle": with_pod => reported(&[(REPLICA_SET, "c")])),
        case!("its own controller": [windows("win-1"), controlled_by(asking_owner(JOB, "a"), "a")]
            => reported(&[(JOB, "a")])),
    ]
}

fn stateful() -> Vec<Case> {
    let set = || {
        let mut set = asking_owner(STATEFUL_SET, "db");
        set["spec"]["volumeClaimTemplates"] =
            json!([{"metadata": {"name": "data"}, "spec": {"storageClassName": "std"}}]);
        set
    };
    let std = || class("std", "kubernetes.io/aws-ebs");
    let row = |claim: Value| {
        json!({"workload": {"kind": "StatefulSet", "name": "db"}, "volume": "data", "source": "StorageClass",
            "persistentVolumeClaim": claim, "storageClass": "std", "plugin": "kubernetes.io/aws-ebs"})
    };
    let mut elsewhere = claim("data-db-0", json!({"storageClassName": ""}));
    elsewhere["metadata"]["namespace"] = json!("shop2");
    let mut bound_to_nothing = set();
    bound_to_nothing["spec"]["volumeClaimTemplates"][0]["spec"]["volumeName"] = json!("pv-1");
    let of_class = |name: &str| claim(name, json!({"storageClassName": "std"}));
    vec![
        case!("a claim template shadows the volume of its name":
            [windows("win-1"), set(), std(), of_class("data-db-x"), of_class("data-db-00"),
                of_class("data-dbs-0"), of_class("data-other-0")]
            => json!({"volumes": [row(Value::Null)]})),
        case!("a claim of another namespace is another's": [windows("win-1"), set(), std(), elsewhere]
            => json!({"volumes": [row(Value::Null)]})),
        case!("a claim template that names a volume which is not there":
            [windows("win-1"), bound_to_nothing, std()]
            => json!({"volumes": [], "findings": [["PersistentVolumeNotFound", "StatefulSet/shop/db"]]})),
        case!("every claim that exists stands in for the template":
            [windows("win-1"), set(), std(), of_class("data-db-2"), of_class("data-db-10")]
            => json!({"volumes": [row(json!("data-db-10")), row(json!("data-db-2"))]})),
        case!("claims of a StatefulSet with pods are the pods'":
            [windows("win-1"), set(), std(), of_class("data-db-1"),
                controlled_by(pod("db-0", asking(json!({"name": "data", "emptyDir": {}}))), "db")]
            => json!({"volumes": []})),
    ]
}
