//! The role `windows-storage-operator-viewer` is enough for read-only users, and grants nothing else.

use std::fs;
use std::path::Path;

use testbed::objects::NAMESPACE;

use crate::cluster::harness::{Harness, run};
use crate::cluster::must_gather::kubelet::Kubelet;
use crate::cluster::must_gather::{check, gather};
use crate::cluster::rights::assert_just;

const MANIFEST: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/manifests/viewer.yaml"
));
const VIEWER: &str = "viewer";

fn not_had(dest: &Path) -> Vec<String> {
    let summary = fs::read_to_string(dest.join("summary.txt")).unwrap();
    let lines = summary
        .lines()
        .filter(|line| line.contains("could not be collected"));
    lines.map(str::to_owned).collect()
}

#[test]
fn those_who_only_look_need_the_viewers_rights_and_no_others() {
    let harness = Harness::held();
    let control_plane = harness.control_plane();
    control_plane.apply(MANIFEST).unwrap();
    let _kubelet = Kubelet::start(&harness);
    let account = format!("{NAMESPACE}:{VIEWER}");
    harness.kubectl(&format!("create serviceaccount {VIEWER} -n {NAMESPACE}"));
    let bind = |kind: &str, name: &str, role: &str| {
        let account = format!("--serviceaccount={account}");
        harness.kubectl(&format!(
            "create {kind} {name} {role} {account} -n {NAMESPACE}"
        ));
    };
    bind(
        "clusterrolebinding",
        "windows-storage-operator-viewer",
        "--clusterrole=windows-storage-operator-viewer",
    );
    let kubeconfig = control_plane
        .kubeconfig_for_service_account(NAMESPACE, VIEWER)
        .unwrap();

    let (code, report) = check(&["--kubeconfig".as_ref(), &kubeconfig]);
    assert_eq!(code, Some(3));
    assert_eq!(report["verdict"]["reason"], "DriversMissing");
    let output = run(&kubeconfig, &["why", "node/win-1"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(!told.contains("forbidden"), "{told}");
    for (arguments, said) in [
        (&["why", "node/typo"][..], "there is no node typo"),
        (&["why", "pod/typo"], "there is no pod typo"),
        (
            &["why", "pvc/typo"],
            "there is no persistentvolumeclaim typo",
        ),
        (&["rollout", "status"], "there is no WindowsStorage cluster"),
    ] {
        let output = run(&kubeconfig, arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(said), "{arguments:?}: {told}");
    }
    let path = "/apis/windowsstorage.dev/v1alpha1/windowsnodestorages/win-1";
    let mut kubectl = control_plane.kubectl_command();
    kubectl.arg("--kubeconfig").arg(&kubeconfig);
    // No operator runs that would have created it.
    let output = kubectl.args(["get", "--raw", path]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("NotFound"), "{told}");
    let dest = control_plane.dir().join("gathered");
    gather(&kubeconfig, &dest);
    let lines = not_had(&dest);
    assert!(!lines.is_empty());
    assert!(
        lines
            .iter()
            .all(|line| line.contains("Secret cloud-private-key")
                || line.contains(".log of pod windows-storage-operator-0")),
        "{lines:#?}"
    );

    let requests = control_plane.requests_of(NAMESPACE, VIEWER).unwrap();
    assert_just(MANIFEST, &requests, |request| {
        let further = ["secrets", "pods/log"].contains(&&*request.resource);
        further || request.resource.starts_with("/version")
    });

    // The two permissions that are granted separately, as the page describes.
    harness.kubectl(&format!(
        "create role windows-storage-operator-logs -n {NAMESPACE} --verb=get --resource=pods/log"
    ));
    let key = "--verb=get --resource=secrets --resource-name=cloud-private-key";
    let role = "windows-storage-operator-nodes";
    harness.kubectl(&format!("create role {role} -n {NAMESPACE} {key}"));
    for role in [
        "windows-storage-operator-logs",
        "windows-storage-operator-nodes",
    ] {
        bind("rolebinding", role, &format!("--role={role}"));
    }
    let dest = control_plane.dir().join("gathered-all");
    gather(&kubeconfig, &dest);
    assert_eq!(not_had(&dest), [""; 0]);
}
