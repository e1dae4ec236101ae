//! Every finding on drivers, out of objects as Kubernetes writes them.

/// One finding of that code is there, on that object, and its message has those words.
macro_rules! says {
    ($findings:expr => $code:ident, $object:expr $(, $word:expr)*) => {
        says($findings, crate::assess::codes::$code, $object, &[$($word),*])
    };
}

/// No finding of that code is there.
macro_rules! silent {
    ($findings:expr => $code:ident) => {
        silent($findings, crate::assess::codes::$code)
    };
}

mod no_pod;
mod of_driver;
mod on_node;
mod others;

use serde_json::{Value, json};

use crate::assess::assess;
use crate::assess::report::{Finding, ReadinessReport};
use crate::index::{Cluster, ReadFrom};
use crate::objects::Loader;

const AZURE_DISK: &str = "disk.csi.azure.com";
const VSPHERE: &str = "csi.vsphere.vmware.com";
const IMAGE: &str = "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.30.2";

fn cluster(objects: &[Value]) -> Cluster {
    let mut loader = Loader::default();
    for object in objects {
        let text = |field: &str| object[field].as_str().unwrap();
        loader
            .put(text("apiVersion"), text("kind"), object)
            .unwrap();
    }
    loader.finish()
}

fn report(objects: &[Value]) -> ReadinessReport {
    assess(&mut cluster(objects))
}

fn live_report(objects: &[Value]) -> ReadinessReport {
    let mut cluster = cluster(objects);
    cluster.read_from = ReadFrom::Api;
    assess(&mut cluster)
}

/// The report on the start and these.
fn report_with(more: &[Value]) -> ReadinessReport {
    report(&with(start(), more))
}

fn live_report_with(more: &[Value]) -> ReadinessReport {
    live_report(&with(start(), more))
}

fn with(mut objects: Vec<Value>, more: &[Value]) -> Vec<Value> {
    objects.extend_from_slice(more);
    objects
}

/// A Windows node without drivers, and a pod on it whose in-tree volume is redirected to the Azure Disk driver.
fn start() -> Vec<Value> {
    vec![
        node("v1.30.4", &[]),
        csi_node(&[]),
        user("azureDisk", json!({"diskName": "d", "diskURI": "u"})),
    ]
}

fn start_vsphere() -> Vec<Value> {
    vec![
        node("v1.27.4", &[]),
        csi_node(&[]),
        user("vsphereVolume", json!({"volumePath": "p"})),
    ]
}

fn node(kubelet: &str, taints: &[(&str, &str, &str)]) -> Value {
    let taints: Vec<Value> = taints
        .iter()
        .map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "win-1", "labels": {"kubernetes.io/os": "windows"}},
        "spec": {"taints": taints},
        "status": {"nodeInfo": {"operatingSystem": "windows", "kubeletVersion": kubelet}},
    })
}

fn csi_node(drivers: &[&str]) -> Value {
    let drivers: Vec<Value> = drivers
        .iter()
        .map(|driver| json!({"name": driver, "nodeID": "win-1", "topologyKeys": null}))
        .collect();
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": "win-1"}, "spec": {"drivers": drivers},
    })
}

fn user(field: &str, source: Value) -> Value {
    let mut volume = json!({"name": "data"});
    volume[field] = source;
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": "web-0"},
        "spec": {"nodeName": "win-1", "volumes": [volume]},
        "status": {"phase": "Running"},
    })
}

/// A DaemonSet with the uid `uid-NAME` and one container of that image, for Windows and tolerating everything.
fn daemon_set(namespace: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}")},
        "spec": {"template": {"spec": {
            "nodeSelector": {"kubernetes.io/os": "windows"},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "driver", "image": image}],
        }}},
    })
}

fn change(mut object: Value, field: &str, value: Value) -> Value {
    object["spec"]["template"]["spec"][field] = value;
    object
}

fn linux(set: Value) -> Value {
    change(set, "nodeSelector", json!({"kubernetes.io/os": "linux"}))
}

fn driver_set() -> Value {
    daemon_set("kube-system", "azuredisk-win", IMAGE)
}

/// The pod of that DaemonSet on the node.
fn driver_pod(set: &Value, ready: bool, waits_for: Option<&str>) -> Value {
    let state = match waits_for {
        Some(reason) => json!({"waiting": {"reason": reason}}),
        None => json!({"running": {}}),
    };
    let name = set["metadata"]["name"].as_str().unwrap();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": set["metadata"]["namespace"], "name": format!("{name}-x7k2p"),
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": set["metadata"]["uid"],
                "controller": true,
            }],
        },
        "spec": {
            "nodeName": "win-1",
            "containers": set["spec"]["template"]["spec"]["containers"],
            "volumes": set["spec"]["template"]["spec"]["volumes"],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "containerStatuses": [{"name": "driver", "state": state}],
        },
    })
}

fn pipes(names: &[&str]) -> Value {
    let volumes = names.iter().map(
        |name| json!({"name": name, "hostPath": {"path": format!(r"\\.\pipe\{name}"), "type": ""}}),
    );
    Value::Array(volumes.collect())
}

fn on_node(report: &ReadinessReport) -> &[Finding] {
    &report.nodes[0].findings
}

fn of_driver<'a>(report: &'a ReadinessReport, driver: &str) -> &'a [Finding] {
    let mut drivers = report.drivers.iter();
    &drivers.find(|row| row.name == driver).unwrap().findings
}

/// There is one finding of that code, on that object, and its message has those words.
#[track_caller]
fn says(findings: &[Finding], code: &str, object: &str, words: &[&str]) {
    let found: Vec<_> = findings
        .iter()
        .filter(|finding| finding.code == code)
        .collect();
    assert_eq!(found.len(), 1, "{code} in {findings:#?}");
    assert_eq!(found[0].object, object);
    for word in words {
        assert!(
            found[0].message.contains(word),
            "{word:?} in {:?}",
            found[0].message
        );
    }
}

#[track_caller]
fn silent(findings: &[Finding], code: &str) {
    assert!(
        findings.iter().all(|finding| finding.code != code),
        "{code} in {findings:#?}"
    );
}
