//! Workloads that are easy to miss: their node is gone, their pool is scaled to zero, or nothing names their OS.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::system::harness::Harness;

/// Returns an object of group `apps` in `shop` whose pods have an in-tree volume.
fn owner(kind: &str, name: &str, replicas: u32, spec: &Value, owner: &Value) -> Value {
    let mut pod = json!({"containers": [{"name": "web", "image": "web"}]});
    for (field, value) in spec.as_object().unwrap() {
        pod[field] = value.clone();
    }
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": owner},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

fn volumes() -> Value {
    json!([{"name": "data", "azureFile": {"secretName": "files", "shareName": "data"}}])
}

/// Returns an owner reference to the object.
fn as_owner(harness: &Harness, kind: &str, name: &str) -> Value {
    let object = harness.kubectl(&format!("get {kind} {name} -n shop -o json"));
    let object: Value = serde_json::from_str(&object).unwrap();
    json!([{
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "name": name,
        "uid": object["metadata"]["uid"],
        "controller": true,
    }])
}

fn apply(harness: &Harness, object: &Value) {
    let control_plane = &harness.sandbox.control_plane;
    control_plane.apply(&object.to_string()).unwrap();
}

#[test]
fn a_pod_outlives_its_node_and_a_template_its_pods() {
    let harness = Harness::new();
    for node in ["win-1", "win-2"] {
        harness.sandbox.add_node(node, None).unwrap();
        harness.sandbox.register(node, &[]).unwrap();
    }
    harness.kubectl("create namespace shop");
    let spec = json!({"os": {"name": "windows"}, "volumes": volumes()});
    apply(&harness, &owner("Deployment", "web", 1, &spec, &json!([])));
    let deployment = as_owner(&harness, "deployment", "web");
    apply(&harness, &owner("ReplicaSet", "web", 1, &spec, &deployment));
    let replica_set = as_owner(&harness, "replicaset", "web");
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "ownerReferences": replica_set},
        "spec": {"nodeName": "win-1", "containers": [{"name": "web", "image": "web"}]},
    });
    pod["spec"]["volumes"] = volumes();
    apply(&harness, &pod);
    let _operator = harness.start();
    harness.expect_gate(
        "False",
        "DriversMissing",
        &["pod shop/web-0", "win-1, win-2"],
    );

    harness.kubectl("delete node win-1");
    harness.expect_gate(
        "False",
        "DriversMissing",
        &["pod shop/web-0", "missing on win-2"],
    );
    harness.kubectl("delete pod web-0 -n shop --force");
    harness.expect_gate("False", "DriversMissing", &["deployment shop/web"]);
    assert_eq!(harness.openings(), 0);
}

#[test]
fn a_selector_that_only_windows_nodes_match_asks_for_windows_also_when_none_is_left() {
    let harness = Harness::new();
    harness.sandbox.add_node("win-1", None).unwrap();
    harness.sandbox.register("win-1", &[]).unwrap();
    harness.sandbox.add_node("lin-1", None).unwrap();
    harness.kubectl("label node lin-1 kubernetes.io/os=linux --overwrite");
    harness.kubectl("label node win-1 agentpool=win");
    harness.kubectl("create namespace shop");
    let spec = json!({"nodeSelector": {"agentpool": "win"}, "volumes": volumes()});
    apply(&harness, &owner("Deployment", "web", 0, &spec, &json!([])));
    let _operator = harness.start();
    harness.expect_gate(
        "False",
        "DriversMissing",
        &["deployment shop/web", "missing on win-1"],
    );

    harness.kubectl("delete node win-1");
    let waits = "and no DaemonSet for Windows nodes brings it";
    harness.expect_gate("False", "DriversMissing", &["deployment shop/web", waits]);
    assert_eq!(harness.openings(), 0);
}

#[test]
fn old_revisions_of_a_controller_that_is_not_read_do_not_count() {
    let harness = Harness::new();
    harness.sandbox.add_node("win-1", None).unwrap();
    harness.sandbox.register("win-1", &[]).unwrap();
    harness.kubectl("create namespace shop");
    let rollout = json!([{
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "name": "web",
        "uid": "9b2f8b4e-5f0c-4f7e-8d35-0d3a3c1f6a11",
        "controller": true,
    }]);
    let windows = json!({"os": {"name": "windows"}, "volumes": volumes()});
    apply(
        &harness,
        &owner("ReplicaSet", "web-1", 0, &windows, &rollout),
    );
    // Timestamps have whole seconds, so the second revision must be created in a later second than the first.
    thread::sleep(Duration::from_millis(1100));
    let without = json!({"os": {"name": "windows"}});
    apply(
        &harness,
        &owner("ReplicaSet", "web-2", 0, &without, &rollout),
    );
    let _operator = harness.start();
    harness.expect_gate("True", "NoInTreeVolumes", &[]);
    harness.kubectl("scale replicaset web-1 -n shop --replicas=1");
    harness.expect_gate("False", "DriversMissing", &["replicaset shop/web-1"]);
}
