//! Nodes that somebody else looks after are judged and never touched.

use testbed::objects;

use crate::harness::Harness;

#[test]
fn a_node_of_the_windows_machine_config_operator_is_never_connected_to() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let ours = sandbox.add_windows_node("ours").unwrap();
    let theirs = sandbox.add_windows_node("theirs").unwrap();
    harness.kubectl("annotate node theirs windowsmachineconfig.openshift.io/version=11.0.0");
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

    // An ignored node is no Windows node any more: its status goes, and it no longer holds the gate.
    harness.kubectl("label node theirs windowsstorage.dev/ignore=true");
    harness.eventually("the status of the ignored node is gone", || {
        harness.get("windowsnodestorage/theirs").is_null()
    });
    harness.expect_gate("False", "DriversMissing", &["missing on ours"]);
    harness.eventually("theirs is not named any more", || {
        !harness.gate().2.contains("theirs")
    });
}
