//! csi-proxy is installed and removed together with what uses it, and everything installed can be removed.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::node_agent::csi_proxy_answers;
use testbed::windows_host::WindowsHost;

use crate::cluster::clock::Clock;
use crate::cluster::harness::{Harness, SETTINGS, assert_has};

/// A driver's DaemonSet for Windows nodes that mounts a pipe of csi-proxy.
pub const DRIVER: &str = r"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-driver-win, namespace: kube-system}
spec:
  selector: {matchLabels: {app: driver}}
  template:
    metadata: {labels: {app: driver}}
    spec:
      nodeSelector: {kubernetes.io/os: windows}
      tolerations: [{operator: Exists}]
      containers:
      - name: driver
        image: example.org/driver:v1.0.0
        volumeMounts: [{name: pipe, mountPath: '\\.\pipe\csi-proxy-disk-v1'}]
      volumes:
      - name: pipe
        hostPath: {path: '\\.\pipe\csi-proxy-disk-v1'}
";

impl Harness {
    /// Makes the operators that are started from now on use clocks that the test can shift.
    pub fn with_clock(&mut self) -> Clock {
        let clock = Clock::new(self, "clock");
        self.command = self.command.with_variables(&clock.variables(true));
        clock
    }

    /// Lets the ten minutes pass in which the operator must have seen that nothing uses csi-proxy on these nodes.
    pub fn age(&self, clock: &Clock, nodes: &[&str]) {
        for node in nodes {
            let object = format!("windowsnodestorage/{node}");
            self.expect(&object, "CSIProxyUsed", "False", "NotUsed");
        }
        clock.shift("+601s");
        // Something must happen for the operator to look at its clock.
        self.kubectl(&format!("annotate node {} clock=shifted", nodes[0]));
    }

    pub fn management(&self, node: &str) -> String {
        let status = &self.get(&format!("windowsnodestorage/{node}"))["status"];
        status["management"].as_str().unwrap_or_default().to_owned()
    }

    pub fn expect_management(&self, node: &str, expected: &str) {
        self.eventually(&format!("{node} is {expected}"), || {
            self.management(node) == expected
        });
    }

    fn uninstall(&self, arguments: &[&str]) -> Uninstall {
        let child = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
            .args(["uninstall", "--yes"])
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.sandbox.control_plane.kubeconfig())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Uninstall(child)
    }
}

/// The running command, which is killed when the test ends.
struct Uninstall(Child);

impl Uninstall {
    /// Waits for its end, and returns the exit status and standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        let stderr = self.0.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap(), said)
    }
}

impl Drop for Uninstall {
    fn drop(&mut self) {
        // Killing fails if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the files below `C:\k`, in the log folders, and in the operator's upload folder.
fn left_over(host: &WindowsHost) -> Vec<String> {
    let folders = [
        "k",
        "var/log/csi-proxy",
        "var/log/windows-storage-agent",
        "windows/windows-storage",
    ];
    let folders = folders.map(|folder| host.drive_c().join(folder));
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<Vec<_>>()
    };
    folders.iter().flat_map(|folder| names(folder)).collect()
}

fn has_service(host: &WindowsHost, name: &str) -> bool {
    let key = format!(r"reg query HKLM\SYSTEM\CurrentControlSet\Services\{name} /v ImagePath");
    let output = host.run(&key).unwrap();
    String::from_utf8_lossy(&output.stdout).contains("REG_")
}

#[test]
fn what_is_to_be_removed_is_named_and_nothing_happens_without_a_yes() {
    let harness = Harness::new();
    for (node, management) in [("win-1", "Managed"), ("win-2", "External")] {
        let object = json!({"apiVersion": "windowsstorage.dev/v1alpha1", "kind": "WindowsNodeStorage", "metadata": {"name": node}});
        harness.apply(&object.to_string());
        let status = json!({"status": {"management": management}});
        harness.patch_status(&format!("windowsnodestorage/{node}"), &status);
    }
    // A terminal of its own.
    let program = env!("CARGO_BIN_EXE_windows-storage-operator");
    let kubeconfig = harness.control_plane().kubeconfig().display();
    let line = format!("{program} uninstall --kubeconfig {kubeconfig}");
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"n\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("from 1 managed node(s): win-1. "), "{said}");
    assert!(said.contains("Go on? [y/N]"), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    assert_eq!(harness.get(SETTINGS), Value::Null);
}

#[test]
fn a_removal_that_no_operator_notices_is_an_error_that_says_so() {
    let harness = Harness::new();
    let (status, said) = harness.uninstall(&["--timeout", "1s"]).end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("not done within 1s: the operator has not"),
        "{said}"
    );
    assert!(said.contains("yet. kubectl get deployment"), "{said}");
    // Who asked for it can be seen.
    let settings = harness.kubectl("get windowsstorage cluster --show-managed-fields -o json");
    let settings: Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings["spec"]["csiProxy"]["management"], "Removed");
    let manager = &settings["metadata"]["managedFields"][0]["manager"];
    assert_eq!(manager, "kubectl-windows-storage");
}

#[test]
fn csi_proxy_comes_with_a_driver_that_needs_it_and_goes_when_nothing_does() {
    let mut harness = Harness::new();
    let clock = harness.with_clock();
    let sandbox = &harness.sandbox;
    let host = sandbox.add_windows_node("win-1").unwrap();
    sandbox.give_access().unwrap();
    harness.want(&json!({"csiProxy": {"install": "WhereNeeded"}}));
    let operator = harness.start();
    let object = "windowsnodestorage/win-1";
    harness.expect(object, "CSIProxyReady", "Unknown", "NotNeeded");
    harness.expect(object, "CSIProxyUsed", "False", "NotUsed");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(host.relay().bytes_to_server(), 0, "nobody needs it");

    harness.apply(DRIVER);
    let begin = Instant::now();
    harness.expect_csi_proxy("win-1");
    println!("csi-proxy is there after {:?}", begin.elapsed());
    csi_proxy_answers(&host).unwrap();
    let message = harness.condition(object, "CSIProxyUsed").2;
    assert_has(&message, &["DaemonSet kube-system/csi-driver-win"]);

    harness.kubectl("delete daemonset csi-driver-win -n kube-system");
    harness.expect(object, "CSIProxyUsed", "False", "NotUsed");
    // It stays for ten minutes, in case it is needed again.
    let looks = crate::cluster::harness::logins(&host);
    harness.eventually("another look", || {
        crate::cluster::harness::logins(&host) > looks
    });
    csi_proxy_answers(&host).unwrap();
    assert_eq!(harness.management("win-1"), "Managed");
    drop(operator);

    // An operator that has just started has seen nothing yet, whatever the status says.
    let _operator = harness.start();
    let looks = crate::cluster::harness::logins(&host);
    harness.eventually("another look", || {
        crate::cluster::harness::logins(&host) > looks
    });
    assert_eq!(harness.management("win-1"), "Managed");
    harness.age(&clock, &["win-1"]);
    harness.expect_management("win-1", "NotNeeded");
    assert_eq!(left_over(&host), [""; 0]);
    harness.eventually("both services are deleted", || {
        ["csi-proxy", "windows-storage-agent"]
            .iter()
            .all(|name| !has_service(&host, name))
    });
    harness.expect(object, "Ready", "True", "StorageReady");

    harness.apply(DRIVER);
    harness.expect_csi_proxy("win-1");
    csi_proxy_answers(&host).unwrap();
    harness.assert_nothing_was_forbidden();
}

#[test]
fn all_that_was_installed_is_removed_and_can_be_taken_back_half_way() {
    let mut harness = Harness::new();
    let clock = harness.with_clock();
    let sandbox = &harness.sandbox;
    let (one, two) = (
        sandbox.add_windows_node("win-1").unwrap(),
        sandbox.add_windows_node("win-2").unwrap(),
    );
    sandbox.give_access().unwrap();
    let _operator = harness.start();
    harness.expect_csi_proxy("win-1");
    harness.expect_csi_proxy("win-2");
    // Another service in the document, which the agent also keeps, and one that is not listed.
    let made = one.run(r"sc create theirs binPath= C:\theirs.exe").unwrap();
    assert!(made.status.success());
    harness.apply(DRIVER);
    harness.expect(
        "windowsnodestorage/win-1",
        "CSIProxyUsed",
        "True",
        "PipesMounted",
    );

    // What still uses it blocks the removal, and is named.
    let (status, said) = harness.uninstall(&["--timeout", "4s"]).end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert_has(
        &said,
        &[
            "left on 0 of 2 node(s); to be removed: win-1 (",
            "DaemonSet kube-system/csi-driver-win mounts",
        ],
    );
    harness.expect_management("win-2", "Removing");
    csi_proxy_answers(&two).unwrap();
    // The removal is cancelled before anything was interrupted.
    harness.want(&json!({"csiProxy": {"management": "Auto"}}));
    harness.expect_csi_proxy("win-1");
    harness.expect_management("win-2", "Managed");

    // One node is finished before the removal is cancelled; the other is unreachable and named.
    harness.kubectl("delete daemonset csi-driver-win -n kube-system");
    // With a limit of one, an operator that has just started would wait for the first node before it changes the other.
    harness.want(&json!({"rollout": {"maxUnavailable": 2}}));
    two.stop_sshd().unwrap();
    let uninstall = harness.uninstall(&[]);
    for node in ["win-1", "win-2"] {
        harness.expect_management(node, "Removing");
    }
    harness.age(&clock, &["win-1", "win-2"]);
    harness.expect_management("win-1", "Removed");
    assert_eq!(left_over(&one), [""; 0]);
    let reason = |object: &str| harness.condition(object, "CSIProxyReady").1;
    harness.eventually("the node that is out of reach is named", || {
        reason("windowsnodestorage/win-2") == "Unreachable"
    });
    harness.want(&json!({"csiProxy": {"management": "Auto"}}));
    harness.expect_csi_proxy("win-1");
    csi_proxy_answers(&one).unwrap();

    harness.want(&json!({"csiProxy": {"management": "Removed"}}));
    two.start_sshd().unwrap();
    for node in ["win-1", "win-2"] {
        harness.expect_management(node, "Removed");
    }
    let (status, said) = uninstall.end();
    assert!(status.success(), "{said}");
    for host in [&one, &two] {
        assert_eq!(left_over(host), [""; 0]);
    }
    assert!(has_service(&one, "theirs"), "what is not ours stays");
    harness.eventually("pins and the entry are gone", || {
        let pins = &harness.get("configmap/windows-storage-host-keys")["data"];
        let services = &harness.get("configmap/windows-services")["data"]["services"];
        pins.as_object().is_none_or(serde_json::Map::is_empty) && services == "[]"
    });
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Removed");
    // A second run has nothing to do.
    let (status, said) = harness.uninstall(&["--timeout", "60s"]).end();
    assert!(status.success(), "{said}");
    harness.assert_nothing_was_forbidden();
}
