//! `check` gives the same verdict for the API server and for files that kubectl has saved from it.

use std::process::{Command, Output};

use serde_json::{Value, json};
use testbed::objects;

use crate::cluster::harness::{self, Harness};

/// A workload that is scaled to zero and requires Windows by its RuntimeClass, and the driver's DaemonSet, which does
/// not tolerate the nodes' taint.
const MORE: &str = r"
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: windows-2022}
handler: runhcs-wcow-process
scheduling: {nodeSelector: {kubernetes.io/os: windows}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: sleeping, namespace: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: sleeping}}
  template:
    metadata: {labels: {app: sleeping}}
    spec:
      runtimeClassName: windows-2022
      containers: [{name: c, image: example.com/app:1}]
      volumes:
        - name: share
          azureFile: {secretName: s, shareName: share}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-azuredisk-node-win, namespace: kube-system}
spec:
  selector: {matchLabels: {app: csi-azuredisk-node-win}}
  template:
    metadata: {labels: {app: csi-azuredisk-node-win}}
    spec:
      nodeSelector: {kubernetes.io/os: windows}
      containers:
        - name: node-driver-registrar
          image: registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.13.0
          args: ['--kubelet-registration-path=$(DRIVER_REG_SOCK_PATH)']
          env: [{name: DRIVER_REG_SOCK_PATH, value: 'C:\\var\\lib\\kubelet\\plugins\\disk.csi.azure.com\\csi.sock'}]
      volumes:
        - name: csi-proxy-disk-pipe-v1
          hostPath: {path: '\\.\pipe\csi-proxy-disk-v1'}
";

const VIEWER: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/manifests/viewer.yaml"
));

/// The kinds that `check` reads, as kubectl names them.
const KINDS: &str = "nodes,namespaces,csinodes,csidrivers,runtimeclasses,storageclasses,persistentvolumes,\
                     persistentvolumeclaims,pods,daemonsets,deployments,replicasets,statefulsets,\
                     replicationcontrollers,jobs,cronjobs";

pub fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .arg("check")
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

pub fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout);
    assert!(report.is_ok(), "{errors}");
    report.unwrap()
}

fn codes(findings: &Value) -> Vec<&str> {
    let findings = findings.as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect()
}

#[test]
fn the_cluster_and_what_kubectl_took_from_it_are_judged_alike() {
    let harness = Harness::new();
    let control_plane = harness.control_plane();
    harness.sandbox.add_node("win-1", None).unwrap();
    harness.register("win-1", false);
    control_plane
        .apply(&objects::azure_disk_workload("win-1"))
        .unwrap();
    control_plane.apply(MORE).unwrap();

    let kubeconfig = control_plane.kubeconfig().to_str().unwrap();
    let output = check(&["--kubeconfig", kubeconfig, "-o", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let live = report(&output);
    let version = live["cluster"]["kubernetesVersion"].as_str().unwrap();
    assert!(version.starts_with("v1."), "{live}");
    assert_eq!(live["verdict"]["reason"], "DriversMissing");
    let workloads: Vec<&Value> = live["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| &volume["workload"])
        .collect();
    let workload =
        |kind: &str, name: &str| json!({"kind": kind, "namespace": "shop", "name": name});
    assert_eq!(
        workloads,
        [
            &workload("Deployment", "sleeping"),
            &workload("Pod", "web-0")
        ]
    );
    let [disk, file] = live["drivers"].as_array().unwrap().as_slice() else {
        panic!("{live}");
    };
    assert_eq!(disk["daemonSet"], "kube-system/csi-azuredisk-node-win");
    assert_eq!(disk["csiProxyPipes"], json!(["csi-proxy-disk-v1"]));
    assert!(
        codes(&disk["findings"]).contains(&"TaintNotTolerated"),
        "{disk}"
    );
    assert!(
        codes(&file["findings"]).contains(&"DaemonSetMissing"),
        "{file}"
    );

    // In 1.23, the Azure File plugin still served its volumes. The API server reports the cluster's version.
    let output = check(&["--kubeconfig", kubeconfig, "-o", "json", "--to", "1.23"]);
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&output.stderr);
    let past = "note: Kubernetes 1.23 is not an upgrade: the cluster already has Kubernetes 1.";
    assert!(errors.contains(past), "{errors}");
    let volumes = &report(&output)["volumes"];
    assert_eq!(volumes[0]["blocking"], false, "{volumes}");
    assert_eq!(volumes[1]["blocking"], true, "{volumes}");

    // Files do not contain the API server's version, but that of kubelets.
    let info = json!({"status": {"nodeInfo": {"kubeletVersion": version}}});
    harness.kubectl(&format!(
        "patch node win-1 --subresource=status --type=merge -p {info}"
    ));
    let file = control_plane.dir().join("cluster.yaml");
    let dump = harness.kubectl(&format!("get {KINDS} --all-namespaces -o yaml"));
    std::fs::write(&file, dump).unwrap();
    let output = check(&["-f", file.to_str().unwrap(), "-o", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let offline = report(&output);
    assert_eq!(offline["cluster"], live["cluster"]);
    assert_eq!(offline["verdict"], live["verdict"]);
    assert_eq!(offline["volumes"], live["volumes"]);
    assert_eq!(offline["nodes"], live["nodes"]);
}

#[test]
fn a_kind_that_may_not_be_read_is_named_and_a_cluster_that_is_away_is_an_error() {
    let harness = Harness::new();
    let control_plane = harness.control_plane();
    harness.kubectl("create clusterrole nodes-only --verb=list --resource=nodes");
    harness.kubectl("create clusterrolebinding nodes-only --clusterrole=nodes-only --user=eve");
    let kubeconfig = control_plane.kubeconfig_for("eve", &[]).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let output = check(&["--kubeconfig", kubeconfig, "-o", "json"]);
    assert_eq!(output.status.code(), Some(4));
    let verdict = report(&output)["verdict"].clone();
    let message = verdict["message"].as_str().unwrap();
    // All in one line, with the command that gives the right.
    let (kinds, fix) = message
        .split_once(" (reading is forbidden to eve; ")
        .unwrap();
    let kinds: Vec<&str> = kinds.split([' ', ',']).collect();
    for kind in ["Pod", "CSINode", "Deployment", "RuntimeClass"] {
        assert!(kinds.contains(&kind), "{message}");
    }
    assert!(!kinds.contains(&"Node"), "{message}");
    let (_, command) = fix.split_once("gives the right: kubectl ").unwrap();
    let (command, _) = command.split_once(" (where").unwrap();
    assert!(!message.contains('\n') && message.matches("kubectl").count() == 2);
    let output = check(&["--kubeconfig", kubeconfig]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    control_plane.apply(VIEWER).unwrap();
    harness.kubectl(command);
    let output = check(&["--kubeconfig", kubeconfig, "-o", "json"]);
    assert!(!report(&output)["verdict"].to_string().contains("forbidden"));
    harness.kubectl("delete clusterrolebinding windows-storage-operator-viewer");

    control_plane.stop_api_server().unwrap();
    let output = check(&["--kubeconfig", kubeconfig]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("cannot reach the cluster at"), "{errors}");
}

#[test]
fn a_user_is_acted_as() {
    let harness = Harness::new();
    harness.apply(&objects::windows_node("win-1"));
    let kubeconfig = harness.control_plane().kubeconfig();
    let line = "check --as eve --request-timeout 20s -o json";
    let eve = harness::run(kubeconfig, &line.split(' ').collect::<Vec<_>>());
    let message = report(&eve)["verdict"]["message"].to_string();
    assert!(message.contains("is forbidden"), "{message}");
}
