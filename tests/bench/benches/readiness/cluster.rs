//! Generates a large, deterministic cluster.

use readiness::objects::Loader;
use serde_json::{Value, json};

/// The size of the cluster.
#[derive(Clone, Copy)]
pub struct Size {
    pub nodes: usize,
    pub pods: usize,
    pub claims: usize,
}

/// Drivers with the field and name of the in-tree plugin whose volumes they take over.
const DRIVERS: [(&str, &str, &str); 4] = [
    ("disk.csi.azure.com", "azureDisk", "azure-disk"),
    ("file.csi.azure.com", "azureFile", "azure-file"),
    ("pd.csi.storage.gke.io", "gcePersistentDisk", "gce-pd"),
    ("ebs.csi.aws.com", "awsElasticBlockStore", "aws-ebs"),
];

/// Every second pair of nodes are Windows nodes.
fn is_windows(node: usize) -> bool {
    node % 4 < 2
}

fn node(number: usize) -> Value {
    let os = if is_windows(number) {
        "windows"
    } else {
        "linux"
    };
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{number:05}"), "uid": format!("node-{number}"), "labels": {"kubernetes.io/os": os}},
        "status": {"nodeInfo": {"operatingSystem": os, "kubeletVersion": "v1.33.4"}}})
}

/// Registers the first `drivers` drivers. [`loader`] leaves out the last one on every tenth Windows node.
fn csi_node(number: usize, drivers: usize) -> Value {
    let entries: Vec<Value> = DRIVERS[..drivers]
        .iter()
        .map(|(driver, ..)| json!({"name": driver, "nodeID": "n", "topologyKeys": null}))
        .collect();
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": format!("node-{number:05}")}, "spec": {"drivers": entries}})
}

/// Every pod is bound and belongs to a ReplicaSet. The first pods have one claim each.
fn pod(number: usize, size: Size) -> Value {
    let volumes = if number < size.claims {
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{number:05}")}}])
    } else {
        json!([{"name": "tmp", "emptyDir": {}}])
    };
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number:05}"), "namespace": namespace(number),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": format!("rs-{}", number / 10), "controller": true}]},
        "spec": {"nodeName": format!("node-{:05}", number % size.nodes), "volumes": volumes,
            "containers": [{"name": "c", "image": "example.com/app:1"}]},
        "status": {"phase": "Running"}})
}

fn replica_set(number: usize) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("rs-{number:05}"), "namespace": namespace(number * 10), "uid": format!("rs-{number}")},
        "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": []}}}})
}

/// Nine of ten claims are bound. Windows workloads use half of the others.
fn claim(number: usize) -> Value {
    let spec = if number % 10 == 9 {
        json!({"storageClassName": format!("class-{}", number % DRIVERS.len())})
    } else {
        json!({"storageClassName": "gone", "volumeName": format!("pv-{number:05}")})
    };
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{number:05}"), "namespace": namespace(number)}, "spec": spec})
}

/// Half of the volumes are in-tree.
fn volume(number: usize) -> Value {
    let (driver, field, _) = DRIVERS[number / 4 % DRIVERS.len()];
    let mut spec = json!({"persistentVolumeReclaimPolicy": "Delete"});
    if number % 32 < 16 {
        spec[field] = json!({});
    } else {
        spec["csi"] = json!({"driver": driver, "volumeHandle": "h"});
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("pv-{number:05}")}, "spec": spec})
}

fn class(number: usize) -> Value {
    let (_, _, plugin) = DRIVERS[number];
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": format!("class-{number}")}, "provisioner": format!("kubernetes.io/{plugin}")})
}

fn namespace(number: usize) -> String {
    format!("team-{:03}", number / 10 % 200)
}

/// Loads the whole cluster.
pub fn loader(size: Size) -> Loader {
    let mut loader = Loader::default();
    let mut put = |object: Value| {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        loader
            .put(&api_version, &kind, &object)
            .expect("the object is well-formed");
    };
    for number in 0..size.nodes {
        put(node(number));
        let all = DRIVERS.len();
        put(csi_node(
            number,
            if number % 20 == 0 { all - 1 } else { all },
        ));
    }
    (0..DRIVERS.len()).for_each(|number| put(class(number)));
    (0..size.claims).for_each(|number| {
        put(volume(number));
        put(claim(number));
    });
    (0..size.pods / 10).for_each(|number| put(replica_set(number)));
    (0..size.pods).for_each(|number| put(pod(number, size)));
    loader
}
