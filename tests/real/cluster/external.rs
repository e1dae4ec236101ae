//! Nodes that are managed by another owner are assessed but never touched.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::node_agent::{csi_proxy_answers, csi_proxy_process};
use testbed::objects;

use crate::cluster::harness::{Harness, logins};

const PREFIX: &str = "windowsmachineconfig.openshift.io";

/// What happens to the Node of a host that WMCO 11.0.0 configures, upgrades and removes, in order: as recorded beside the
/// real one. Each is a change of the Node: its spec, labels and annotations, or whether it is Ready.
fn life() -> Vec<(&'static str, Value)> {
    let meta = |kind: &str, entries: &[(&str, Value)]| {
        let entries = entries.iter();
        let entries = entries.map(|(name, value)| (format!("{PREFIX}/{name}"), value.clone()));
        json!({"metadata": {kind: entries.collect::<serde_json::Map<_, _>>()}})
    };
    let cordoned = |is: bool| json!({"spec": {"unschedulable": is.then_some(true)}});
    let username = |text: &str| meta("annotations", &[("username", json!(text))]);
    let found = json!({"metadata": {
        "labels": {format!("{PREFIX}/byoh"): "true", "node-role.kubernetes.io/worker": ""},
        "annotations": {
            format!("{PREFIX}/pub-key-hash"): "5f2c", format!("{PREFIX}/username"): "one",
            format!("{PREFIX}/ssh-host-key"): "AAAA", format!("{PREFIX}/ssh-host-key-type"): "ssh-ed25519",
        },
    }});
    let desired = |version: &str| meta("annotations", &[("desired-version", json!(version))]);
    let version = |version: Value| meta("annotations", &[("version", version)]);
    let upgrading = |is: Value| meta("labels", &[("upgrading", is)]);
    vec![
        ("it is cordoned", cordoned(true)),
        ("WMCO has found it", found.clone()),
        ("its daemon is told what to run", desired("11.0.0")),
        ("configuring it fails, and is tried again", username("two")),
        ("and once more", username("three")),
        ("it is ready", ready(true)),
        ("it is configured", version(json!("11.0.0"))),
        ("it is uncordoned", cordoned(false)),
        ("an upgrade begins", upgrading(json!("true"))),
        ("it is drained", cordoned(true)),
        ("all is cleaned up", version(Value::Null)),
        ("it is configured again", username("four")),
        ("its kubelet restarts", ready(false)),
        ("it follows the new version", desired("11.1.0")),
        ("and is up again", ready(true)),
        ("it has the new version", version(json!("11.1.0"))),
        ("it takes pods again", cordoned(false)),
        ("the upgrade ends", upgrading(Value::Null)),
    ]
}

/// Returns a patch of a Node's status.
fn ready(is: bool) -> Value {
    let status = if is { "True" } else { "False" };
    let condition = json!({"type": "Ready", "status": status, "reason": "Test", "message": ""});
    json!({"status": {"conditions": [condition]}})
}

#[test]
fn in_no_phase_of_wmcos_work_is_its_node_connected_to() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let theirs = sandbox.add_windows_node("theirs").unwrap();
    let address = harness.get("node/theirs")["status"]["addresses"].clone();
    harness.delete("node/theirs");
    sandbox.give_access().unwrap();
    harness.apply(&objects::azure_disk_workload("theirs"));
    let _operator = harness.start();
    let begun = harness.list("windowsnodestorages")["metadata"]["resourceVersion"].clone();
    let change = |patch: &Value| {
        if patch["status"].is_object() {
            harness.patch_status("node/theirs", patch);
        } else {
            harness.patch("node/theirs", patch);
        }
    };
    // The kubelet registers it with its label and WMCO's taint.
    let registered = objects::windows_node("theirs").replace(
        "  labels:\n",
        "  labels:\n    node.openshift.io/os_id: Windows\n",
    );
    for round in ["the first", "the one that comes back"] {
        harness.apply(&registered);
        let status = json!({"status": {"addresses": address}});
        change(&status);
        change(&ready(false));
        for (phase, patch) in life() {
            change(&patch);
            let said = harness.expect_node("theirs", "Unknown", "External");
            assert!(said.contains("WMCO by "), "{round}, {phase}: {said}");
            // If the operator were to connect, it would do so within milliseconds.
            thread::sleep(Duration::from_millis(300));
            assert_eq!(theirs.relay().bytes_to_server(), 0, "{round}, {phase}");
        }
        // A permanent removal.
        harness.delete("node/theirs");
    }
    // Every status that the operator has ever written for the node. A new object has none yet.
    let written = harness.written_since("windowsnodestorages", begun.as_str().unwrap());
    let managed = |object: &Value| object["status"]["management"].as_str().map(str::to_owned);
    let managed: BTreeSet<String> = written.iter().filter_map(managed).collect();
    assert_eq!(managed, BTreeSet::from(["External".to_owned()]));

    // What is left when WMCO itself is removed, and an administrator takes the label away.
    harness.apply(&registered);
    change(&json!({"status": {"addresses": address}}));
    harness.expect_node("theirs", "Unknown", "External");
    // The operator reads its own status back by another watch than the Node: it has to have seen it, also on a busy machine.
    thread::sleep(Duration::from_secs(10));
    harness.kubectl("label node theirs node.openshift.io/os_id-");
    harness.expect_node("theirs", "Unknown", "External");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(theirs.relay().bytes_to_server(), 0);
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
