//! A control plane that is reused has been restored to its initial state.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use testbed::control_plane::Issuer;
use testbed::objects::{NAMESPACE, OPERATOR_CONDITION, azure_disk_workload};
use testbed::sandbox::Sandbox;

const ACCOUNT: &str = "windows-storage-operator";
const KINDS: &str = "nodes,csinodes,pods,persistentvolumes,persistentvolumeclaims,namespaces,operatorconditions,configmaps";

/// Returns the names and contents of the objects.
fn objects(sandbox: &Sandbox) -> String {
    let kubectl = |arguments: &[&str]| sandbox.control_plane.kubectl(arguments).unwrap();
    let names = kubectl(&["get", KINDS, "-A", "-o", "name"]);
    let condition = format!("operatorcondition/{OPERATOR_CONDITION}");
    let spec = "jsonpath={.metadata.uid} {.spec}";
    names + &kubectl(&["get", &condition, "-n", NAMESPACE, "-o", spec])
}

fn use_it(sandbox: &Sandbox) {
    sandbox.add_node("win-1", Some("127.0.0.1")).unwrap();
    sandbox.register("win-1", &["disk.csi.azure.com"]).unwrap();
    let control_plane = &sandbox.control_plane;
    control_plane.apply(&azure_disk_workload("win-1")).unwrap();
    let condition = format!("operatorcondition/{OPERATOR_CONDITION}");
    let change = r#"{"spec":{"conditions":[{"type":"Upgradeable","status":"False","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    let patch = [
        "patch",
        &condition,
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        change,
    ];
    control_plane.kubectl(&patch).unwrap();
    let account = control_plane.kubeconfig_for_service_account(NAMESPACE, ACCOUNT);
    let mut kubectl = control_plane.kubectl_command();
    kubectl.arg("--kubeconfig").arg(account.unwrap());
    assert!(
        kubectl
            .args(["get", "nodes"])
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(nodes_asked_for(sandbox), 1);
}

fn nodes_asked_for(sandbox: &Sandbox) -> usize {
    let requests = sandbox
        .control_plane
        .requests_of(NAMESPACE, ACCOUNT)
        .unwrap();
    requests
        .iter()
        .filter(|request| request.resource == "nodes")
        .count()
}

#[test]
fn what_was_used_is_as_it_was_and_what_cannot_be_is_not_used_again() {
    let sandbox = Sandbox::reuse().unwrap();
    let (server, dir) = (
        sandbox.control_plane.server().to_owned(),
        sandbox.control_plane.dir().to_owned(),
    );
    let before = objects(&sandbox);
    use_it(&sandbox);
    assert_ne!(objects(&sandbox), before);
    drop(sandbox);

    let sandbox = Sandbox::reuse().unwrap();
    assert_eq!(sandbox.control_plane.server(), server);
    assert_ne!(sandbox.control_plane.dir(), dir);
    assert_eq!(objects(&sandbox), before);
    assert_eq!(nodes_asked_for(&sandbox), 0);
    use_it(&sandbox);

    // A deleted CRD is not restored.
    let crd = ["delete", "crd", "windowsstorages.windowsstorage.dev"];
    sandbox.control_plane.kubectl(&crd).unwrap();
    drop(sandbox);
    let sandbox = Sandbox::reuse().unwrap();
    assert_ne!(sandbox.control_plane.server(), server);
    let server = sandbox.control_plane.server().to_owned();

    // A restarted API server can be reused, but not one with another certificate.
    sandbox.control_plane.restart_api_server().unwrap();
    drop(sandbox);
    let sandbox = Sandbox::reuse().unwrap();
    assert_eq!(sandbox.control_plane.server(), server);
    let control_plane = &sandbox.control_plane;
    control_plane
        .renew_serving_certificate(Issuer::First)
        .unwrap();
    drop(sandbox);
    assert_ne!(Sandbox::reuse().unwrap().control_plane.server(), server);
}
