//! The control plane works and cleans up after itself.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use testbed::control_plane::ControlPlane;

/// Returns live processes whose command line contains `text`.
fn processes_with(text: &Path) -> Vec<String> {
    let text = text.to_str().unwrap();
    let lines = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

#[test]
fn serves_the_api_and_leaves_no_process() {
    let control_plane = ControlPlane::start().unwrap();
    let dir = control_plane.dir().to_owned();
    assert_eq!(
        processes_with(&dir).len(),
        3,
        "etcd, kube-apiserver, and the guardian"
    );

    control_plane
        .kubectl(&["create", "namespace", "storage"])
        .unwrap();
    control_plane.install_operator_condition_crd().unwrap();
    control_plane
        .apply("apiVersion: operators.coreos.com/v2\nkind: OperatorCondition\nmetadata: {name: a, namespace: storage}")
        .unwrap();

    control_plane.restart_api_server().unwrap();
    let names = control_plane
        .kubectl(&["get", "operatorconditions", "-n", "storage", "-o", "name"])
        .unwrap();
    assert_eq!(names, "operatorcondition.operators.coreos.com/a\n");

    drop(control_plane);
    assert_eq!(processes_with(&dir), Vec::<String>::new());
    assert!(!dir.exists());
}

#[test]
fn users_have_the_rights_that_rbac_gives_them() {
    let control_plane = ControlPlane::start().unwrap();
    let reader = control_plane.kubeconfig_for("jane", &["readers"]).unwrap();
    control_plane
        .kubectl(&["create", "serviceaccount", "reader"])
        .unwrap();
    let account = control_plane
        .kubeconfig_for_service_account("default", "reader")
        .unwrap();
    let get_nodes = |kubeconfig: &Path| {
        control_plane
            .kubectl_command()
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["get", "nodes"])
            .output()
            .unwrap()
    };
    for (kubeconfig, name) in [
        (&reader, "\"jane\""),
        (&account, "\"system:serviceaccount:default:reader\""),
    ] {
        let refused = get_nodes(kubeconfig);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && errors.contains("forbidden") && errors.contains(name),
            "{errors}"
        );
    }
    control_plane
        .kubectl(&[
            "create",
            "clusterrole",
            "read-nodes",
            "--verb=list",
            "--resource=nodes",
        ])
        .unwrap();
    control_plane
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "readers",
            "--clusterrole=read-nodes",
            "--group=readers",
        ])
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !get_nodes(&reader).status.success() {
        assert!(Instant::now() < deadline, "the role does not take effect");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn controllers_run() {
    let control_plane = ControlPlane::start().unwrap();
    control_plane
        .start_controller_manager("namespace-controller")
        .unwrap();
    control_plane
        .kubectl(&["create", "namespace", "short-lived"])
        .unwrap();
    // Only the controller removes the finalizer.
    control_plane
        .kubectl(&["delete", "namespace", "short-lived", "--timeout=30s"])
        .unwrap();
}

#[test]
fn a_killed_process_leaves_nothing() {
    let mut parent = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "control_plane::stands_in_for_a_killed_process",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let dir = lines
        .find_map(|line| {
            line.unwrap()
                .split_once("DIR=")
                .map(|(_, dir)| PathBuf::from(dir))
        })
        .unwrap();
    assert_eq!(
        processes_with(&dir).len(),
        3,
        "etcd, kube-apiserver, and the guardian"
    );

    parent.kill().unwrap();
    parent.wait().unwrap();

    let deadline = Instant::now() + Duration::from_secs(20);
    while dir.exists() || !processes_with(&dir).is_empty() {
        assert!(
            Instant::now() < deadline,
            "left: {:?}",
            processes_with(&dir)
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "only of use as the process that another test kills"]
fn stands_in_for_a_killed_process() {
    let control_plane = ControlPlane::start().unwrap();
    println!("\nDIR={}", control_plane.dir().display());
    thread::sleep(Duration::from_secs(60));
}
