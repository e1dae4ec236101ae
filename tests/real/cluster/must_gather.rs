//! `must-gather` with various outputs and interruptions, on a real Windows host, and with a kubelet that has logs.

pub mod kubelet;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use testbed::objects::{self, NAMESPACE};

use crate::cluster::harness::{Harness, assert_has};
use kubelet::Kubelet;

const BINARY: &str = env!("CARGO_BIN_EXE_windows-storage-operator");

/// Returns the command as an administrator or another user would run it.
pub fn command(kubeconfig: &Path, dest: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command
        .arg("must-gather")
        .args(["--kubeconfig".as_ref(), kubeconfig.as_os_str()])
        .args(["--dest".as_ref(), dest.as_os_str()])
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null());
    command
}

/// Runs the command to completion.
pub fn gather(kubeconfig: &Path, dest: &Path) -> Output {
    let output = command(kubeconfig, dest).output().unwrap();
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Returns the exit status and the report of `check`.
pub fn check(arguments: &[&Path]) -> (Option<i32>, Value) {
    let output = Command::new(BINARY)
        .args(["check", "-o", "json"])
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(report.is_ok(), "{errors}");
    (output.status.code(), judgement(report.unwrap()))
}

/// Returns a report less what it is about, which differs where the judgement is the same.
pub fn judgement(mut report: Value) -> Value {
    let about = report.as_object_mut().unwrap().remove("about").unwrap();
    let is_known = about["server"].is_string() || about["files"][0].is_string();
    assert!(is_known && about["time"].is_string(), "{about}");
    report
}

/// Returns all files below a folder, with their content.
pub fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let content = fs::read(&path).unwrap();
            found.push((path, content));
        }
    }
    found
}

/// Sends a signal to a process that this test has started.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_real_host_gives_its_state_and_its_logs() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let host = sandbox.add_windows_node("win-1").unwrap();
    sandbox.give_access().unwrap();
    harness.apply(&objects::azure_disk_workload("win-1"));
    let operator = harness.start();
    harness.expect_csi_proxy("win-1");
    harness.expect_gate("False", "DriversMissing", &[]);
    operator.terminate().unwrap();
    let before = host.relay().bytes_to_server();
    let dest = sandbox.control_plane.dir().join("gathered");
    let output = gather(sandbox.control_plane.kubeconfig(), &dest);
    assert!(host.relay().bytes_to_server() > before);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        dest.to_str().unwrap()
    );
    let summary = fs::read_to_string(dest.join("summary.txt")).unwrap();
    let node = dest.join("nodes/win-1");
    let state: Value = serde_json::from_slice(&fs::read(node.join("state.json")).unwrap()).unwrap();
    assert_eq!(state["agentService"], "Running", "{summary}");
    assert_eq!(state["csiProxy"]["state"], "Running", "{summary}");
    let log = fs::read_to_string(node.join("windows-storage-agent/agent.log")).unwrap();
    let there = host
        .drive_c()
        .join("var/log/windows-storage-agent/agent.log");
    let there = fs::read_to_string(there).unwrap();
    assert!(!log.is_empty() && there.starts_with(&log), "{log}");
    let log = fs::read_to_string(node.join("csi-proxy/csi-proxy.log")).unwrap();
    assert!(!log.is_empty(), "{summary}");
    assert_has(&summary, &["win-1: agent", "23 of 23 pipe(s) answer"]);

    let live = check(&["--kubeconfig".as_ref(), sandbox.control_plane.kubeconfig()]);
    assert_eq!(live.0, Some(3));
    assert_eq!(check(&["-f".as_ref(), &dest]), live);
}

#[test]
fn the_logs_of_the_operator_come_from_its_kubelet() {
    let harness = Harness::new();
    let control_plane = harness.control_plane();
    let kubelet = Kubelet::start(&harness);
    let dest = control_plane.dir().join("gathered");
    gather(control_plane.kubeconfig(), &dest);
    let summary = fs::read_to_string(dest.join("summary.txt")).unwrap();
    let logs = dest.join("operator/windows-storage-operator-0/operator");
    let log = fs::read_to_string(logs.join("current.log")).unwrap_or_default();
    assert_eq!(log, "of then, token=(left out)\nof now\n", "{summary}");
    let log = fs::read_to_string(logs.join("previous.log")).unwrap();
    assert_eq!(log, "of before\n", "{summary}");
    assert!(summary.contains("logs of the operator: 2"), "{summary}");
    drop(kubelet);

    // If the kubelet is unreachable, a line in the summary says so, and the rest is gathered.
    let dest = control_plane.dir().join("without");
    gather(control_plane.kubeconfig(), &dest);
    let summary = fs::read_to_string(dest.join("summary.txt")).unwrap();
    assert_has(
        &summary,
        &["could not be collected: current.log of pod windows-storage-operator-0"],
    );
    assert!(!dest.join("operator").exists());
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    let harness = Harness::held();
    let control_plane = harness.control_plane();
    // Accepts connections but never answers, so that checking the node takes long.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let status = serde_json::from_str(&objects::node_status("127.0.0.1")).unwrap();
    harness.patch_status("node/win-1", &status);
    let port = silent.local_addr().unwrap().port();
    control_plane
        .apply(&objects::settings(port, "nobody"))
        .unwrap();
    let key = openssl::rsa::Rsa::generate(2048).unwrap();
    let key = String::from_utf8(key.private_key_to_pem().unwrap()).unwrap();
    control_plane.apply(&objects::ssh_secret(&key)).unwrap();

    let outer = control_plane.dir().join("outer");
    let mounted = outer.join("mounted");
    fs::create_dir_all(&mounted).unwrap();
    // The same exit status as a shell reports for a process that was ended by the signal.
    for (name, ends_with, dest) in [
        ("INT", 130, outer.join("made")),
        ("TERM", 143, outer.join("made")),
        ("HUP", 129, outer.join("made")),
        ("INT", 130, mounted.clone()),
    ] {
        let mut child = command(control_plane.kubeconfig(), &dest)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It is checking the node, so much has been written by now.
        let _connection = silent.accept().unwrap();
        let begun = fs::read_dir(&outer).unwrap().count() > 1 || !is_empty(&mounted);
        assert!(begun, "nothing is there to be left behind");
        signal(&child, name);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(ends_with), "{name}: {status}");
        let output = child.wait_with_output().unwrap();
        assert!(output.stdout.is_empty());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("interrupted; nothing was kept"), "{errors}");
        assert!(is_empty(&mounted), "{name}");
        assert_eq!(fs::read_dir(&outer).unwrap().count(), 1, "{name}");
    }
    let namespace = format!("namespaces/{NAMESPACE}");
    assert!(!outer.join(namespace).exists());
}
