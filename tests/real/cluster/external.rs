//! Nodes that are managed by another owner are assessed but never touched.

use std::thread;
use std::time::Duration;

use testbed::node_agent::{csi_proxy_answers, csi_proxy_process};
use testbed::objects;

use crate::cluster::harness::{Harness, logins};

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
    harness.apply(&objects::azure_disk_workload("theirs"));
    let mut operator = None;
    for (phase, change) in LIFE {
        harness.kubectl(change);
        operator.get_or_insert_with(|| harness.start());
        let said = harness.expect_node("theirs", "Unknown", "External");
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
