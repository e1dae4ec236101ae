//! Tests of pods that are not kept when read from the API server.

use serde_json::{Value, json};

use crate::index::{AnyTable, Cluster};
use crate::objects::{Received, kind};

fn take(cluster: &mut Cluster, name: &str, object: &Value) {
    let received: Received = serde_json::from_str(&object.to_string()).unwrap();
    kind("v1", name).unwrap().absorb(cluster, &received);
}

fn node(cluster: &mut Cluster, name: &str, system: Option<&str>) {
    let labels = system.map(|system| json!({"kubernetes.io/os": system}));
    take(
        cluster,
        "Node",
        &json!({"metadata": {"name": name, "labels": labels}}),
    );
}

fn pod(cluster: &mut Cluster, name: &str, mut spec: Value) {
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    take(
        cluster,
        "Pod",
        &json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec}),
    );
}

fn kept(cluster: &Cluster) -> Vec<&str> {
    cluster.pods.iter().map(|(key, _)| &*key.name).collect()
}

/// Returns a cluster with a Windows node, a Linux node, and a node of unknown operating system.
fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    node(&mut cluster, "lin", Some("linux"));
    node(&mut cluster, "win", Some("windows"));
    node(&mut cluster, "new", None);
    cluster.pods.begin();
    cluster.pods.finish();
    cluster
}

#[test]
fn only_pods_on_nodes_of_another_system_are_left_out() {
    let mut cluster = cluster();
    pod(&mut cluster, "on-linux", json!({"nodeName": "lin"}));
    let asks = json!({"nodeName": "lin", "os": {"name": "windows"}});
    pod(&mut cluster, "asks", asks);
    for (name, spec) in [
        ("on-windows", json!({"nodeName": "win"})),
        ("on-new", json!({"nodeName": "new"})),
        ("on-unknown", json!({"nodeName": "away"})),
        ("unbound", json!({})),
    ] {
        pod(&mut cluster, name, spec);
        assert!(kept(&cluster).contains(&name), "{name}");
    }
    let is_kept = |cluster: &Cluster, name| kept(cluster).contains(&name);
    assert!(!is_kept(&cluster, "on-linux") && !is_kept(&cluster, "asks"));
    // A pod can outlive its node.
    cluster.nodes.delete(&"lin".into());
    pod(&mut cluster, "on-linux", json!({"nodeName": "lin"}));
    assert!(!is_kept(&cluster, "on-linux"));
    node(&mut cluster, "lin", Some("linux"));
    // A pod that is later bound to the Linux node is dropped.
    pod(&mut cluster, "unbound", json!({"nodeName": "lin"}));
    assert!(!kept(&cluster).contains(&"unbound"));
}

#[test]
fn the_pods_are_listed_again_when_a_node_without_its_pods_may_run_windows() {
    for system in [Some("windows"), None] {
        let mut cluster = cluster();
        pod(&mut cluster, "web", json!({"nodeName": "lin"}));
        node(&mut cluster, "lin", Some("linux"));
        node(&mut cluster, "new", Some("windows"));
        assert!(!cluster.pods.needs_relist());
        node(&mut cluster, "lin", system);
        assert!(cluster.pods.needs_relist());
        let stale: Vec<String> = cluster.stale().iter().map(ToString::to_string).collect();
        assert!(
            stale.iter().any(|kind| kind.starts_with("Pod (Node lin")),
            "until then the gate does not open: {stale:?}"
        );
    }
    // The same if the node was deleted in between.
    let mut cluster = cluster();
    pod(&mut cluster, "web", json!({"nodeName": "lin"}));
    cluster.nodes.delete(&"lin".into());
    node(&mut cluster, "lin", Some("windows"));
    assert!(cluster.pods.needs_relist());
}

#[test]
fn names_of_nodes_that_have_left_do_not_pile_up() {
    let mut cluster = cluster();
    for number in 0..5_000 {
        let name = format!("lin-{number}");
        node(&mut cluster, &name, Some("linux"));
        pod(&mut cluster, "web", json!({"nodeName": name}));
        cluster.nodes.delete(&name.as_str().into());
        if cluster.pods.take_relist() {
            cluster.pods.begin();
            cluster.pods.finish();
        }
        assert!(cluster.without_pods.len() < 1_100);
    }
}

#[test]
fn of_a_node_of_another_system_nothing_is_kept_that_nobody_looks_at() {
    let mut cluster = Cluster::default();
    take(
        &mut cluster,
        "Node",
        &json!({"metadata": {"name": "lin", "uid": "u", "labels": {"kubernetes.io/os": "linux"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"bootID": "b", "kubeletVersion": "v1.33.1"}}}),
    );
    let kept = cluster.nodes.get("lin").unwrap();
    let expected = crate::index::Node {
        operating_system: "linux".to_owned(),
        kubelet_version: "v1.33.1".to_owned(),
        labels: [("kubernetes.io/os".into(), "linux".into())].into(),
        ..crate::index::Node::default()
    };
    assert_eq!(*kept, expected);
}
