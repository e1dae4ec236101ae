//! Workloads of OpenShift's own kinds, which are assessed by the Kubernetes objects that they create.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::system::check::{check, report};
use crate::system::harness::Harness;

/// Stands in, as a CRD, for a kind of OpenShift's API server. It is installed after the operator was started.
const KIND: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: deploymentconfigs.apps.openshift.io}
spec:
  group: apps.openshift.io
  scope: Namespaced
  names: {kind: DeploymentConfig, plural: deploymentconfigs, singular: deploymentconfig}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
/// The `DeploymentConfig`'s uid in owner references, which exist before the kind is served.
const UID: &str = "5b0c3f6e-0000-4000-8000-000000000002";

/// Returns a pod template for Windows with an in-tree volume.
fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/os": "windows"},
            "containers": [{"name": "web", "image": "example.com/web:1"}],
            "volumes": [{"name": "data", "azureDisk": {"diskName": "d", "diskURI": "https://d.blob.core.windows.net/d/d.vhd"}}],
        },
    })
}

/// Returns one rollout of the `DeploymentConfig`.
fn rollout(number: u32, replicas: u32) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {
            "name": format!("web-{number}"),
            "namespace": "shop",
            "ownerReferences": [{
                "apiVersion": "apps.openshift.io/v1", "kind": "DeploymentConfig", "name": "web", "uid": UID,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"replicas": replicas, "selector": {"app": "web"}, "template": template()},
    })
    .to_string()
}

/// Returns a pod of the second rollout.
fn pod(controller: &str) -> String {
    let template = template();
    let mut spec = template["spec"].clone();
    spec["nodeName"] = "win-1".into();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-2-x7k2p",
            "namespace": "shop",
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ReplicationController", "name": "web-2", "uid": controller,
                "controller": true,
            }],
        },
        "spec": spec,
    })
    .to_string()
}

#[test]
fn a_deployment_config_is_judged_by_its_rollouts_whenever_its_kind_comes() {
    let harness = Harness::new();
    harness.sandbox.add_node("win-1", None).unwrap();
    harness.register("win-1", false);
    harness.kubectl("create namespace shop");
    harness.apply(&rollout(1, 0));
    // Creation times have whole seconds, so the second rollout must be created in a later second.
    thread::sleep(Duration::from_millis(1100));
    harness.apply(&rollout(2, 0));
    let operator = harness.start();
    // Both are scaled to zero: the newest is the one that would run.
    harness.expect_gate("False", "DriversMissing", &["shop/web-2"]);
    let rows = || {
        let kubeconfig = harness.sandbox.control_plane.kubeconfig();
        let asked = check(&["--kubeconfig", kubeconfig.to_str().unwrap(), "-o", "json"]);
        let report = report(&asked);
        let rows = report["volumes"].as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", row["workload"]["kind"], row["workload"]["name"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(), [r#""ReplicationController" "web-2""#]);

    harness.apply(KIND);
    harness.kubectl("wait --for=condition=Established crd/deploymentconfigs.apps.openshift.io");
    let config = json!({
        "apiVersion": "apps.openshift.io/v1",
        "kind": "DeploymentConfig",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 1, "selector": {"app": "web"}, "template": template()},
    });
    harness.apply(&config.to_string());
    harness.apply(&rollout(2, 1));
    let controller = "get rc web-2 -n shop -o jsonpath={.metadata.uid}";
    harness.apply(&pod(&harness.kubectl(controller)));
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-2-x7k2p"]);
    // Neither the DeploymentConfig nor its old rollout adds a row.
    assert_eq!(rows(), [r#""Pod" "web-2-x7k2p""#]);
    harness.register("win-1", true);
    harness.expect_open();
    harness.assert_nothing_was_forbidden();
    drop(operator);
}
