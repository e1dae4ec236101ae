//! Other scenarios for the gate. Each has its own cluster, because an operator waits if another is already installed.

use std::sync::Arc;

use serde_json::{Value, json};
use testbed::objects::NAMESPACE;

use crate::olm::cluster::{CONDITION, CSV, Cluster, DRIVER, upgradeable};
use crate::olm::install::{csv_name, install};
use crate::olm::kubelet::Kubelet;
use crate::olm::page;
use crate::olm::record::{phases, written};
use crate::olm::refusal::Refused;

/// Part of the gate's message when no node has the driver.
const MISSING: &str = "missing on win-1, win-2";

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_overrides_the_gate() {
    let cluster = &held_cluster().await;
    let (_kubelet, v1) = install_first(cluster, NAMESPACE, "0.1.0").await;
    cluster
        .wait_for_gate(NAMESPACE, &v1, "False", MISSING)
        .await;
    page::follow(cluster, "Override it");
    page::follow(cluster, "Take the override back");
    let v2 = hold_next(cluster, NAMESPACE, "0.1.0", "0.2.0").await;

    page::follow(cluster, "Override it");
    cluster.wait_for_phase(NAMESPACE, &v2, "Succeeded").await;
    let written = written(cluster, NAMESPACE, &v1);
    assert!(
        !written.is_empty() && written.iter().all(|status| status == "False"),
        "the operator did not change its mind: {written:?}"
    );
    // An override applies to one version only.
    cluster
        .wait_for_gate(NAMESPACE, &v2, "False", MISSING)
        .await;
}

/// A version that is not ready gets no say in its own replacement, and the override alone does not replace it.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_version_is_replaced() {
    let cluster = &held_cluster().await;
    let (kubelet, v1) = install_first(cluster, NAMESPACE, "0.1.0").await;
    cluster
        .wait_for_gate(NAMESPACE, &v1, "False", MISSING)
        .await;
    kubelet.cut_power();
    cluster.wait_for_phase(NAMESPACE, &v1, "Installing").await;
    let v2 = hold_next(cluster, NAMESPACE, "0.1.0", "0.2.0").await;

    page::follow(cluster, "Override it");
    after_five_minutes(cluster, &v1, "has failed", |csv| {
        let history = csv["status"]["conditions"].as_array().unwrap();
        history.iter().any(|it| it["message"] == "install timeout")
    })
    .await;
    cluster.wait_for_phase(NAMESPACE, &v1, "Installing").await;
    assert_eq!(phases(&cluster.get(CSV, NAMESPACE, &v2).await), ["Pending"]);

    page::follow(cluster, "The installed version is broken");
    after_five_minutes(cluster, &v1, "is being replaced", |csv| {
        csv["status"]["phase"] == "Replacing"
    })
    .await;
    cluster.wait_for_phase(NAMESPACE, &v2, "Installing").await;
    kubelet.restore_power();
    cluster.wait_for_phase(NAMESPACE, &v2, "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_is_written_again_after_it_was_deleted_and_after_a_client_of_version_1_has_wiped_it()
 {
    let cluster = &held_cluster().await;
    let namespace = "wiped";
    let (_kubelet, v1) = install_first(cluster, namespace, "0.1.0").await;
    cluster
        .wait_for_gate(namespace, &v1, "False", MISSING)
        .await;
    let first = cluster.get(CONDITION, namespace, &v1).await;
    // Before an upgrade is there: OLM recreates it, empty, and takes that for permission.
    cluster.kubectl(&["delete", CONDITION, &v1, "-n", namespace]);
    let is_another = |object: Option<&Value>| {
        object.is_some_and(|object| object["metadata"]["uid"] != first["metadata"]["uid"])
    };
    let what = "is another";
    cluster
        .wait(CONDITION, namespace, &v1, what, is_another)
        .await;

    let v2 = hold_next(cluster, namespace, "0.1.0", "0.2.0").await;
    let before = cluster.get(CONDITION, namespace, &v1).await;

    // Changes only a label. kubectl has to use the older API version, which drops the conditions.
    let old_version = "operatorconditions.v1.operators.coreos.com";
    cluster.kubectl(&["label", old_version, &v1, "-n", namespace, "seen=yes"]);
    let mut was_wiped = false;
    let is_back = |object: Option<&Value>| {
        let object = object.unwrap();
        let is_there = !upgradeable(&object["spec"]["conditions"]).is_null();
        was_wiped |= !is_there;
        is_there && object["metadata"]["labels"]["seen"] == "yes"
    };
    let what = "has our condition again";
    let restored = cluster.wait(CONDITION, namespace, &v1, what, is_back).await;
    assert!(was_wiped, "the label alone was written");
    for field in ["status", "reason", "message"] {
        assert_eq!(
            upgradeable(&restored["spec"]["conditions"])[field],
            upgradeable(&before["spec"]["conditions"])[field]
        );
    }
    cluster.wait_until_held(namespace, &v2, MISSING).await;
    assert_eq!(phases(&cluster.get(CSV, namespace, &v2).await), ["Pending"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_may_not_or_cannot_be_written_holds() {
    let cluster = &held_cluster().await;
    let namespace = "rights";
    // Versions that no other test uses, because the refusal goes by name.
    let (kubelet, v1) = install_first(cluster, namespace, "0.8.0").await;
    let v2 = hold_next(cluster, namespace, "0.8.0", "0.9.0").await;

    // Otherwise OLM would recreate the RoleBinding immediately.
    let refused = Refused {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        name: &v1,
        unless: "false",
    };
    let probe = format!("label rolebinding {v1} -n {namespace} seen=yes --dry-run=server");
    cluster.refuse(&refused, &probe).await;
    kubelet.cut_power();
    wait_for_ready_replicas(cluster, namespace, &Value::Null).await;
    it_is_held_while_the_operator_is_down(cluster, namespace, &v2).await;
    cluster.kubectl(&["delete", "rolebinding", &v1, "-n", namespace]);
    kubelet.restore_power();
    kubelet.wait_until_gate_fails(&v1, "may not be read").await;

    cluster.allow(&v1);
    wait_for_ready_replicas(cluster, namespace, &json!(1)).await;
    cluster
        .wait_until_held(namespace, &v2, "missing on win-2")
        .await;
    assert_eq!(phases(&cluster.get(CSV, namespace, &v2).await), ["Pending"]);
}

/// The gate keeps its last state while the operator is down, whatever OLM and the nodes do.
async fn it_is_held_while_the_operator_is_down(cluster: &Cluster, namespace: &str, v2: &str) {
    cluster.register("win-1", &[DRIVER]);
    cluster.restart_olm();
    // Once OLM has installed something else, it is working again.
    cluster.add_namespace("elsewhere").await;
    install(cluster, "elsewhere", "0.1.0", None);
    cluster
        .wait_for_phase("elsewhere", &csv_name("0.1.0"), "Installing")
        .await;
    cluster.wait_until_held(namespace, v2, MISSING).await;
}

/// Installs a first version in a new namespace. Returns its kubelet and the name of its CSV.
async fn install_first(
    cluster: &Arc<Cluster>,
    namespace: &str,
    version: &str,
) -> (Kubelet, String) {
    cluster.add_namespace(namespace).await;
    let kubelet = Kubelet::start(cluster, namespace);
    install(cluster, namespace, version, None);
    let csv = csv_name(version);
    cluster.wait_for_phase(namespace, &csv, "Succeeded").await;
    (kubelet, csv)
}

/// Installs the next version, which is held. Returns the name of its CSV.
async fn hold_next(cluster: &Cluster, namespace: &str, first: &str, next: &str) -> String {
    let v1 = csv_name(first);
    cluster
        .wait_for_gate(namespace, &v1, "False", MISSING)
        .await;
    install(cluster, namespace, next, Some(first));
    let v2 = csv_name(next);
    cluster.wait_until_held(namespace, &v2, MISSING).await;
    v2
}

/// Lets OLM see that it has waited for the pods of this CSV for five minutes, and waits until it has drawn its conclusion.
async fn after_five_minutes(
    cluster: &Cluster,
    csv: &str,
    what: &str,
    is_done: impl Fn(&Value) -> bool,
) {
    let long_ago = r#"{"status":{"lastTransitionTime":"2026-01-01T00:00:00Z"}}"#;
    let patch = ["patch", CSV, csv, "-n", NAMESPACE, "--subresource=status"];
    cluster.kubectl(&[&patch[..], &["--type=merge", "-p", long_ago]].concat());
    cluster
        .wait(CSV, NAMESPACE, csv, what, |object| {
            object.is_some_and(&is_done)
        })
        .await;
}

async fn wait_for_ready_replicas(cluster: &Cluster, namespace: &str, number: &Value) {
    let what = format!("has {number} ready replicas");
    cluster
        .wait("Deployment", namespace, NAMESPACE, &what, |object| {
            object.is_some_and(|object| &object["status"]["readyReplicas"] == number)
        })
        .await;
}

/// Creates a cluster whose Windows nodes lack the driver.
async fn held_cluster() -> Arc<Cluster> {
    let cluster = Cluster::start().await;
    cluster.add_windows_nodes();
    cluster
}
