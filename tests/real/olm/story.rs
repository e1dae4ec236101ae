//! An upgrade that is held and then released.

use serde_json::Value;
use testbed::objects::NAMESPACE;

use crate::olm::cluster::{CONDITION, CSV, Cluster, DRIVER, upgradeable};
use crate::olm::install::{csv_name, install};
use crate::olm::kubelet::Kubelet;
use crate::olm::page;
use crate::olm::record::{phases, written};
use crate::olm::refusal::{self, Refused};

const ACCOUNT: &str = "system:serviceaccount:windows-storage-operator:windows-storage-operator";

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_until_every_windows_node_has_the_driver() {
    let cluster = Cluster::start().await;
    cluster.add_namespace(NAMESPACE).await;
    cluster.add_windows_nodes();
    let kubelet = Kubelet::start(&cluster, NAMESPACE);
    let (v1, v2) = (csv_name("0.1.0"), csv_name("0.2.0"));

    olm_installs_the_operator_and_names_its_condition(&cluster, &kubelet, &v1).await;
    install(&cluster, NAMESPACE, "0.2.0", Some("0.1.0"));
    cluster
        .wait_until_held(NAMESPACE, &v2, "missing on win-1, win-2")
        .await;
    page::follow(&cluster, "While an upgrade is held");
    cluster.register("win-1", &[DRIVER]);
    cluster
        .wait_until_held(NAMESPACE, &v2, "missing on win-2")
        .await;
    assert_nothing_was_forbidden(&cluster, &kubelet, &v1);
    assert_never_open(&written(&cluster, NAMESPACE, &v1));
    assert_eq!(
        phases(&cluster.get(CSV, NAMESPACE, &v2).await),
        ["Pending"],
        "the new version never began"
    );

    the_new_operator_is_not_ready_before_it_has_set_its_own_gate(&cluster, &kubelet, &v2).await;
    cluster.wait_until_gone(CSV, NAMESPACE, &v1).await;
    for kind in [CONDITION, "Role", "RoleBinding"] {
        cluster.wait_until_gone(kind, NAMESPACE, &v1).await;
    }
    let deployment = cluster.get("Deployment", NAMESPACE, NAMESPACE).await;
    let owners = &deployment["metadata"]["ownerReferences"];
    assert_eq!(
        (&owners[0]["name"], &owners[1]),
        (&v2.as_str().into(), &Value::Null)
    );
    page::follow(&cluster, "After it");
    assert_nothing_was_forbidden(&cluster, &kubelet, &v2);
}

/// Pods of the Deployment: one leader and one standby.
const REPLICAS: usize = 2;

/// The installation succeeds once the Pods are ready, and they are ready once they have set the gate.
async fn olm_installs_the_operator_and_names_its_condition(
    cluster: &Cluster,
    kubelet: &Kubelet,
    v1: &str,
) {
    kubelet.cut_power();
    install(cluster, NAMESPACE, "0.1.0", None);
    cluster.wait_for_phase(NAMESPACE, v1, "Installing").await;
    // OLM creates the object, without conditions.
    let condition = cluster
        .wait(CONDITION, NAMESPACE, v1, "is there", |object| {
            object.is_some()
        })
        .await;
    assert_eq!(upgradeable(&condition["spec"]["conditions"]), &Value::Null);
    kubelet.restore_power();
    cluster.wait_for_phase(NAMESPACE, v1, "Succeeded").await;
    let ready = kubelet.at_first_readiness();
    assert_eq!(ready.len(), REPLICAS, "{ready:?}");
    for pod in &ready {
        assert_eq!(pod.operator_condition, v1);
        assert_eq!(pod.gate["status"], "False", "{ready:?}");
    }
    cluster
        .wait_for_gate(NAMESPACE, v1, "False", "missing on win-1, win-2")
        .await;
}

fn assert_never_open(written: &[String]) {
    // At least two writes: both nodes lack the driver, then one. A write that not everything is read may come first.
    assert!(written.len() >= 2, "{written:?}");
    let is_held = written.iter().all(|status| status == "False");
    assert!(is_held, "{written:?}");
}

/// OLM takes the empty OperatorCondition of the new version for permission, so the new operator must not be ready yet.
async fn the_new_operator_is_not_ready_before_it_has_set_its_own_gate(
    cluster: &Cluster,
    kubelet: &Kubelet,
    v2: &str,
) {
    let refused = Refused {
        group: "operators.coreos.com",
        resource: "operatorconditions",
        name: v2,
        unless: &format!("request.userInfo.username != '{ACCOUNT}'"),
    };
    let probe = format!(
        "annotate {CONDITION} {v2} -n {NAMESPACE} touched=yes --dry-run=server --as={ACCOUNT}"
    );
    cluster.refuse(&refused, &probe).await;

    cluster.register("win-2", &[DRIVER]);
    cluster.wait_for_phase(NAMESPACE, v2, "Installing").await;
    kubelet.wait_until_gate_fails(v2, refusal::MESSAGE).await;
    assert_eq!(
        kubelet.at_first_readiness().len(),
        REPLICAS,
        "only the old ones were ready"
    );
    let csv = cluster.get(CSV, NAMESPACE, v2).await;
    assert_eq!(csv["status"]["phase"], "Installing");

    cluster.allow(v2);
    cluster.wait_for_phase(NAMESPACE, v2, "Succeeded").await;
    let ready = kubelet.at_first_readiness();
    assert_eq!(ready.len(), 2 * REPLICAS, "{ready:?}");
    for pod in &ready[REPLICAS..] {
        assert_eq!(pod.operator_condition, v2);
        assert_ne!(pod.gate, Value::Null, "{ready:?}");
    }
    cluster
        .wait_for_gate(NAMESPACE, v2, "True", "registered on all 2 Windows node(s)")
        .await;
}

/// The RBAC of the CSV and of OLM must be enough for everything the operator did.
fn assert_nothing_was_forbidden(cluster: &Cluster, kubelet: &Kubelet, operator_condition: &str) {
    let mut ready = kubelet.at_first_readiness();
    ready.retain(|ready| ready.operator_condition == operator_condition);
    let logs = ready.iter().map(|ready| cluster.operator_log(&ready.pod));
    let logs: Vec<String> = logs.collect();
    assert_eq!(logs.len(), REPLICAS);
    let forbidden: Vec<&str> = logs
        .iter()
        .flat_map(|log| log.lines())
        .filter(|line| line.contains("forbidden") && !line.contains(refusal::MESSAGE))
        .collect();
    assert!(forbidden.is_empty(), "{}", forbidden.join("\n"));
}
