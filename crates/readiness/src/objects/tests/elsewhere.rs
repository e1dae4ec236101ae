//! Tests of nodes of another system, and of pods on them.

use serde_json::{Value, json};

use crate::index::Cluster;
use crate::objects::{Received, kind};

fn take(cluster: &mut Cluster, name: &str, object: &Value) -> bool {
    let received: Received = serde_json::from_str(&object.to_string()).unwrap();
    kind("v1", name).unwrap().absorb(cluster, &received)
}

fn node(cluster: &mut Cluster, name: &str, system: &str) {
    let labels = json!({"kubernetes.io/os": system});
    take(
        cluster,
        "Node",
        &json!({"metadata": {"name": name, "labels": labels}}),
    );
}

/// Stores a pod on that node with that claim; returns whether that is news.
fn pod(cluster: &mut Cluster, node: Option<&str>, claim: &str) -> bool {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    take(
        cluster,
        "Pod",
        &json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"nodeName": node, "volumes": volumes}}),
    )
}

#[test]
fn what_changes_of_a_pod_on_another_system_is_kept_and_nobodys_news() {
    let mut cluster = Cluster::default();
    node(&mut cluster, "lin", "linux");
    node(&mut cluster, "win", "windows");
    assert!(!pod(&mut cluster, Some("lin"), "a"), "new on Linux");
    assert!(!pod(&mut cluster, Some("lin"), "b"), "changed on Linux");
    assert_eq!(cluster.pods.iter().count(), 1);
    // The node is a Windows node after all.
    node(&mut cluster, "lin", "windows");
    assert!(pod(&mut cluster, Some("lin"), "c"));
    assert!(!pod(&mut cluster, Some("lin"), "c"), "the same");
    for (before, after) in [
        (None, Some("lin")),
        (Some("win"), Some("lin")),
        (Some("unknown"), Some("lin")),
        (Some("lin"), None),
        (Some("lin"), Some("win")),
    ] {
        let mut cluster = Cluster::default();
        node(&mut cluster, "lin", "linux");
        node(&mut cluster, "win", "windows");
        pod(&mut cluster, before, "a");
        let is_news = pod(&mut cluster, after, "a");
        assert!(is_news, "from {before:?} to {after:?}");
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
