//! All policies together.

use super::*;

#[test]
fn as_they_come_the_policies_only_warn_and_their_types_are_right() {
    let Some(control_plane) = with_policies(WARN) else {
        return;
    };
    let new = |object: &Value| to_new(&control_plane, object);
    for (object, words) in [
        (
            pod("shop", &host_path(REACHING[0])),
            "mounts csi-proxy's pipes",
        ),
        (pod("shop", &host_process()), "HostProcess containers"),
        (
            pod("shop", &windows(&in_tree("azureDisk"))),
            "CSI driver: disk.csi.azure.com",
        ),
        (class("kubernetes.io/azure-disk"), "in-tree provisioners"),
    ] {
        let warned = new(&object);
        assert!(warned.is_warned(words), "{warned:?}");
    }
    types_are_right(&control_plane, 4);
}

#[test]
fn the_operator_works_under_policies_that_refuse() {
    let sandbox = Sandbox::start().unwrap();
    if !apply(&sandbox.control_plane, DENY) {
        return;
    }
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/payload");
    let binary = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    let harness = Harness::with(sandbox, binary, &payload);
    let sandbox = &harness.sandbox;
    let class = class("kubernetes.io/azure-disk");
    eventually("the policies are enforced", || {
        to_new(&sandbox.control_plane, &class).is_refused("in-tree provisioners")
    });
    let _host = sandbox.add_windows_node("win-1").unwrap();
    sandbox.give_access().unwrap();
    let _operator = harness.start();
    harness.expect_csi_proxy("win-1");
    for map in ["windows-services", "windows-storage-host-keys"] {
        assert!(
            !harness.get(&format!("configmap/{map}"))["data"].is_null(),
            "{map}"
        );
    }
    harness.assert_nothing_was_forbidden();
    // The operator's manifests are accepted, including its pods.
    let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests");
    let installed = said_of(
        &sandbox.control_plane,
        &format!("apply --server-side --force-conflicts -k {manifests}"),
    );
    assert!(installed.is_silent(), "{installed:?}");
    let line = format!("get deployment windows-storage-operator -n {NAMESPACE} -o json");
    let deployment = harness.kubectl(&line);
    let deployment: Value = serde_json::from_str(&deployment).unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator", "namespace": NAMESPACE},
        "spec": deployment["spec"]["template"]["spec"]});
    let taken = to_new(&sandbox.control_plane, &pod);
    assert!(taken.is_silent(), "{taken:?}");
}
