//! Tests of what is reported where someone makes many objects.

use serde_json::{Value, json};

use crate::assess::causes::DaemonSets;
use crate::assess::report::{Finding, NodeReadiness};
use crate::assess::{Report, codes};
use crate::index::{Cluster, ObjectKey};
use crate::objects::{Received, cluster_kinds, kind};

/// How many DaemonSets there are, and how many drivers that a pod's CSI volumes need.
const MANY: usize = 30;

/// Returns a list of this many items.
fn many(item: impl Fn(usize) -> Value) -> Value {
    (0..MANY).map(item).collect()
}

fn driver(number: usize) -> String {
    format!("d{number}.example.com")
}

/// A cluster with one Windows node and a pod that uses volumes of many drivers and an Azure disk, and with DaemonSets and
/// their pods of these specs.
fn cluster(set: impl Fn(usize) -> Value) -> Cluster {
    let meta = |name: &str| json!({"namespace": "shop", "name": name, "uid": name});
    let mut cluster = Cluster::default();
    let mut add = |api_version: &str, name: &str, object: Value| {
        let object: Received = serde_json::from_str(&object.to_string()).unwrap();
        kind(api_version, name)
            .unwrap()
            .absorb(&mut cluster, &object);
    };
    let labels = json!({"kubernetes.io/os": "windows"});
    let node = json!({"metadata": {"name": "win-1", "labels": labels}});
    add("v1", "Node", node);
    let csi_node = json!({"metadata": {"name": "win-1"}, "spec": {"drivers": []}});
    add("storage.k8s.io/v1", "CSINode", csi_node);
    let mut volumes = many(|number| json!({"name": "v", "csi": {"driver": driver(number)}}));
    let disk = json!({"name": "disk", "azureDisk": {}});
    volumes.as_array_mut().unwrap().push(disk);
    let spec = json!({"nodeName": "win-1", "volumes": volumes});
    add(
        "v1",
        "Pod",
        json!({"metadata": meta("web-0"), "spec": spec}),
    );
    for number in 0..MANY {
        let (name, mut spec) = (format!("set-{number}"), set(number));
        spec["os"] = json!({"name": "windows"});
        let set = json!({"metadata": meta(&name), "spec": {"template": {"spec": spec}}});
        add("apps/v1", "DaemonSet", set);
        spec["nodeName"] = "win-1".into();
        let owner = json!([{"kind": "DaemonSet", "name": name, "uid": name, "controller": true}]);
        let mut meta = meta(&format!("{name}-x"));
        meta["ownerReferences"] = owner;
        add("v1", "Pod", json!({"metadata": meta, "spec": spec}));
    }
    for kind in cluster_kinds() {
        kind.table_mut(&mut cluster).finish();
    }
    cluster
}

fn node(cluster: &Cluster) -> NodeReadiness {
    let report = Report::once(cluster, None);
    let node = report.nodes(cluster, |_, node| node).pop().unwrap();
    assert_eq!(report.to_json(cluster).nodes[0].findings, node.findings);
    node
}

fn count(node: &NodeReadiness, code: &str) -> usize {
    let findings = node.findings.iter();
    findings.filter(|finding| finding.code == code).count()
}

#[test]
fn of_many_drivers_that_lack_many_daemon_sets_few_are_explained_and_those_of_in_tree_volumes_all() {
    let sockets = |driver: usize| {
        let path = format!("/plugins/{}/csi.sock", self::driver(driver));
        json!({"image": "csi-node-driver-registrar", "args": ["--kubelet-registration-path", path]})
    };
    let pipes = |number: usize| json!({"name": "v", "hostPath": {"path": format!(r"\\.\pipe\csi-proxy-{number}")}});
    let cluster = cluster(
        |_| json!({"containers": (0..20).map(sockets).collect::<Value>(), "volumes": many(pipes)}),
    );
    let node = node(&cluster);
    assert_eq!(node.missing_drivers.len(), MANY + 1);
    assert_eq!(count(&node, codes::DRIVER_PATH_WRONG), 10 * 5 * 5);
    assert_eq!(count(&node, codes::PIPE_NOT_OFFERED), 10 * 5);
    let is_of_disk = |object: &str| object == "CSIDriver/disk.csi.azure.com";
    assert!(node.findings.iter().any(|it| is_of_disk(&it.object)));
    let mut pipes = node
        .findings
        .iter()
        .filter(|it| it.code == codes::PIPE_NOT_OFFERED);
    assert!(pipes.all(|it| {
        it.message
            .contains(r"\\.\pipe\csi-proxy-12 and 25 more, which")
    }));
}

#[test]
fn of_many_daemon_sets_that_may_bring_a_driver_few_are_explained_and_kept_once() {
    let of_folder = |number: usize| {
        let path = format!(r"C:\k\plugins\folder-{number}");
        json!({"containers": [{"image": "csi-node-driver-registrar"}], "volumes": [{"name": "v", "hostPath": {"path": path}}]})
    };
    let cluster = cluster(of_folder);
    let node = node(&cluster);
    // Of each of the drivers that are explained, and each time the same pods.
    assert_eq!(count(&node, codes::DRIVER_POD_NOT_READY), 5);
    let report = Report::once(&cluster, None);
    let sets = DaemonSets::of_drivers(&report, &cluster, report.needs.drivers.keys());
    let [one, other] = [0, 1].map(|number| sets[&*driver(number)].perhaps.as_ptr());
    assert_eq!(one, other);
}

#[test]
fn a_selector_is_parsed_when_its_daemon_set_comes_and_not_for_each_node_and_driver() {
    let values = vec!["x"; 1_000];
    let term =
        json!({"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": values}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    let folders: Vec<_> = (0..20)
        .map(|number| json!({"name": "v", "hostPath": {"path": format!("/plugins/{}", driver(number))}}))
        .collect();
    let cluster = cluster(|_| json!({"volumes": folders, "affinity": affinity}));
    let report = Report::once(&cluster, None);
    let done =
        allocation_counter::measure(|| assert_eq!(report.nodes(&cluster, |_, _| ()).len(), 1));
    assert!(done.count_total < 100_000, "{done:?}");
}

#[test]
fn drivers_that_anyone_can_make_up_come_last() {
    let mut cluster = cluster(|_| json!({}));
    let object: Received =
        serde_json::from_value(json!({"metadata": {"name": driver(7)}})).unwrap();
    let csi_driver = kind("storage.k8s.io/v1", "CSIDriver").unwrap();
    csi_driver.absorb(&mut cluster, &object);
    let node = node(&cluster);
    let first = ["disk.csi.azure.com", "d7.example.com", "d0.example.com"];
    assert_eq!(node.missing_drivers[..3], first);
}

#[test]
fn the_daemon_set_whose_pod_is_there_is_explained_among_others_of_the_driver() {
    let mut cluster = cluster(|number| {
        let path = format!("/plugins/{number}/disk.csi.azure.com/csi.sock");
        json!({"containers": [{"image": "csi-node-driver-registrar", "args": ["--kubelet-registration-path", path]}]})
    });
    // Only the last has a pod there.
    for number in 0..MANY - 1 {
        let pod = ObjectKey::new("shop", format!("set-{number}-x"));
        cluster.pods.delete(&pod);
    }
    let node = node(&cluster);
    let last = format!("DaemonSet/shop/set-{}", MANY - 1);
    let is_of_it = |it: &Finding| it.code == codes::DRIVER_PATH_WRONG && it.object == last;
    assert!(node.findings.iter().any(is_of_it), "{:?}", node.findings);
}
