//! Nodes that are managed by another owner are assessed but never touched.

use std::process::Command;
use std::thread;
use std::time::Duration;

use testbed::node_agent::{csi_proxy_answers, csi_proxy_process};
use testbed::objects;

use crate::system::harness::{Harness, logins};

#[test]
fn a_node_of_the_windows_machine_config_operator_is_never_connected_to() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let ours = sandbox.add_windows_node("ours").unwrap();
    let theirs = sandbox.add_windows_node("theirs").unwrap();
    harness.kubectl("annotate node theirs windowsmachineconfig.openshift.io/version=11.0.0");
    // Next to externally managed nodes, the operator would wait until this one has been Ready for ten minutes.
    harness.kubectl("annotate node ours windowsstorage.dev/management=Managed");
    sandbox.give_access().unwrap();
    sandbox
        .control_plane
        .apply(&objects::azure_disk_workload("ours"))
        .unwrap();
    let _operator = harness.start();

    harness.expect_csi_proxy("ours");
    harness.expect(
        "windowsnodestorage/theirs",
        "CSIProxyReady",
        "Unknown",
        "External",
    );
    harness.expect_gate("False", "DriversMissing", &["missing on ours, theirs"]);
    assert_eq!(
        theirs.relay().bytes_to_server(),
        0,
        "{}",
        theirs.sshd_log().unwrap()
    );
    assert!(
        ours.relay().bytes_to_server() > 0,
        "the check above can fail"
    );
    assert!(!theirs.drive_c().join("k/windows-storage").exists());

    // An ignored node is not treated as a Windows node: its status is removed, and it no longer holds the gate.
    harness.kubectl("label node theirs windowsstorage.dev/ignore=true");
    harness.eventually("the status of the ignored node is gone", || {
        harness.get("windowsnodestorage/theirs").is_null()
    });
    harness.expect_gate("False", "DriversMissing", &["missing on ours"]);
    harness.eventually("theirs is not named any more", || {
        !harness.gate().2.contains("theirs")
    });
}

/// What the Windows Machine Config Operator does to a Node while it configures, upgrades and deconfigures it, in order:
/// pkg/nodeconfig/nodeconfig.go and pkg/daemon/cleanup/cleanup.go of its releases 4.12 to 4.20.
const LIFE: [(&str, &str); 12] = [
    (
        "it registers",
        "label node theirs node.openshift.io/os_id=Windows",
    ),
    ("it is cordoned", "cordon theirs"),
    (
        "WMCO has found it",
        "annotate node theirs windowsmachineconfig.openshift.io/pub-key-hash=5f2c windowsmachineconfig.openshift.io/username=x",
    ),
    (
        "its service runs",
        "annotate node theirs windowsmachineconfig.openshift.io/desired-version=11.0.0",
    ),
    (
        "it is configured",
        "annotate node theirs windowsmachineconfig.openshift.io/version=11.0.0",
    ),
    (
        "an upgrade begins",
        "label node theirs windowsmachineconfig.openshift.io/upgrading=true",
    ),
    (
        "all is cleaned up",
        "annotate node theirs windowsmachineconfig.openshift.io/version-",
    ),
    (
        "it is configured again",
        "annotate --overwrite node theirs windowsmachineconfig.openshift.io/desired-version=11.1.0 windowsmachineconfig.openshift.io/version=11.1.0",
    ),
    (
        "the upgrade ends",
        "label node theirs windowsmachineconfig.openshift.io/upgrading-",
    ),
    (
        "WMCO is removed, and takes its annotations along",
        "annotate node theirs windowsmachineconfig.openshift.io/pub-key-hash- windowsmachineconfig.openshift.io/username- \
         windowsmachineconfig.openshift.io/version- windowsmachineconfig.openshift.io/desired-version-",
    ),
    (
        "an administrator takes the label away",
        "label node theirs node.openshift.io/os_id-",
    ),
    ("it is uncordoned", "uncordon theirs"),
];

#[test]
fn in_no_phase_of_wmcos_work_is_its_node_connected_to() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let theirs = sandbox.add_windows_node("theirs").unwrap();
    sandbox.give_access().unwrap();
    sandbox
        .control_plane
        .apply(&objects::azure_disk_workload("theirs"))
        .unwrap();
    let mut operator = None;
    for (phase, change) in LIFE {
        harness.kubectl(change);
        operator.get_or_insert_with(|| harness.start());
        let said = harness.expect(
            "windowsnodestorage/theirs",
            "CSIProxyReady",
            "Unknown",
            "External",
        );
        assert!(said.contains("WMCO by "), "{phase}: {said}");
        harness.expect_gate("False", "DriversMissing", &["missing on theirs"]);
        // If the operator were to connect, it would do so within milliseconds.
        thread::sleep(Duration::from_secs(1));
        let status = &harness.get("windowsnodestorage/theirs")["status"];
        assert_eq!(status["management"], "External", "{phase}");
        assert_eq!(theirs.relay().bytes_to_server(), 0, "{phase}");
    }
    assert!(!theirs.drive_c().join("k/windows-storage").exists());
    // The administrator's annotation makes it a managed node.
    harness.kubectl("annotate node theirs windowsstorage.dev/management=Managed");
    harness.expect_csi_proxy("theirs");
    let status = &harness.get("windowsnodestorage/theirs")["status"];
    assert_eq!(status["managedBy"], "windows-storage-operator");
}

#[test]
fn nothing_is_installed_beside_a_csi_proxy_that_is_there_until_it_is_gone() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let theirs = sandbox.add_windows_node("theirs").unwrap();
    // Registered but stopped, as an image may contain it.
    let command = r"C:\etc\csi-proxy.exe";
    let made = theirs.run(&format!("sc create csiproxy binPath= {command}"));
    assert!(made.unwrap().status.success());
    sandbox.give_access().unwrap();
    let operator = harness.start();
    let object = "windowsnodestorage/theirs";
    harness.expect(object, "CSIProxyReady", "Unknown", "External");
    let status = &harness.get(object)["status"];
    assert_eq!(status["management"], "External");
    let by = format!("unknown owner by service csiproxy ({command})");
    assert_eq!(status["managedBy"], by);
    let files = std::fs::read_dir(theirs.drive_c().join("k")).unwrap();
    assert_eq!(files.count(), 0);
    drop(operator);

    // Until the next check, the result of the last one stays.
    theirs.stop_sshd().unwrap();
    let _operator = harness.start();
    harness.eventually("the node is tried", || {
        harness.log().contains("Unreachable")
    });
    assert_eq!(harness.get(object)["status"]["managedBy"], by);
    let gone = theirs.run("sc delete csiproxy").unwrap();
    assert!(gone.status.success(), "{gone:?}");
    theirs.start_sshd().unwrap();
    harness.expect_csi_proxy("theirs");
    let status = &harness.get(object)["status"];
    assert_eq!(status["managedBy"], "windows-storage-operator");
}

#[test]
fn a_node_that_becomes_another_owners_is_given_up_and_can_be_taken_back() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let host = sandbox.add_windows_node("win-1").unwrap();
    sandbox.give_access().unwrap();
    let _operator = harness.start();
    harness.expect_csi_proxy("win-1");
    let process = csi_proxy_process(&host).unwrap();
    assert!(process.is_some());

    harness.kubectl("label node win-1 node.openshift.io/os_id=Windows");
    let object = "windowsnodestorage/win-1";
    harness.expect(object, "CSIProxyReady", "Unknown", "External");
    harness.eventually("the agent is removed", || {
        harness.get(object)["status"]["csiProxy"].is_null()
    });
    let files = std::fs::read_dir(host.drive_c().join("k")).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["csi-proxy.exe"]);
    assert!(!host.drive_c().join("windows/windows-storage").exists());
    csi_proxy_answers(&host).unwrap();
    // It connects only once to give up a node.
    let before = logins(&host);
    harness.kubectl("annotate node win-1 windowsmachineconfig.openshift.io/version=11.0.0");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(logins(&host), before);

    harness.kubectl("annotate node win-1 windowsstorage.dev/management=Managed");
    harness.expect_csi_proxy("win-1");
    assert_eq!(csi_proxy_process(&host).unwrap(), process, "it has run on");
}

/// What a tenant may make: a DaemonSet whose image is called csi-proxy.
const OF_A_TENANT: &str = "apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-proxy, namespace: shop}
spec:
  selector: {matchLabels: {app: csi-proxy}}
  template:
    metadata: {labels: {app: csi-proxy}}
    spec:
      nodeSelector: {kubernetes.io/os: windows}
      tolerations: [{key: os, operator: Exists}]
      containers: [{name: c, image: 'example.org/csi-proxy:v1.1.3'}]
";

#[test]
fn a_tenants_daemon_set_holds_a_node_that_joins_and_changes_no_other() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let old = sandbox.add_windows_node("old").unwrap();
    sandbox.give_access().unwrap();
    let operator = harness.start();
    harness.expect_csi_proxy("old");
    let process = csi_proxy_process(&old).unwrap();
    harness.apply(OF_A_TENANT);

    let new = sandbox.add_windows_node("new").unwrap();
    let taints = harness.get("node/new")["spec"]["taints"].to_string();
    assert!(taints.contains("node.kubernetes.io/not-ready"), "{taints}");
    let held = |node: &str| {
        let object = format!("windowsnodestorage/{node}");
        let said = harness.expect(&object, "CSIProxyReady", "Unknown", "Held");
        assert!(said.contains("DaemonSet shop/csi-proxy"), "{said}");
    };
    held("new");
    let is_unchanged = || {
        let status = &harness.get("windowsnodestorage/old")["status"];
        assert_eq!(status["management"], "Managed");
        assert_eq!(status["managedBy"], "windows-storage-operator");
        assert_eq!(csi_proxy_process(&old).unwrap(), process);
    };
    is_unchanged();
    let report = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(["check", "--kubeconfig"])
        .arg(sandbox.control_plane.kubeconfig())
        .output()
        .unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(
        report.contains("CSIProxyDaemonSet: DaemonSet/shop/csi-proxy"),
        "{report}"
    );
    // An operator that starts while it is there sees nodes as the one before did.
    drop(operator);
    let _operator = harness.start();
    let newer = sandbox.add_windows_node("newer").unwrap();
    held("newer");
    held("new");
    is_unchanged();
    for host in [&new, &newer] {
        assert_eq!(host.relay().bytes_to_server(), 0);
    }

    harness.kubectl("delete daemonset csi-proxy -n shop");
    harness.expect_csi_proxy("new");
    harness.expect_csi_proxy("newer");
    is_unchanged();
}
