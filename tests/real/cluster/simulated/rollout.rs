//! An update goes from node to node, stops if it fails, and continues when it is resumed.

use serde_json::json;

use super::Simulation;
use crate::cluster::harness::{SETTINGS, assert_has};

#[test]
fn an_update_goes_node_by_node_stops_at_a_failure_and_is_resumed() {
    let simulation = Simulation::installed(4);
    let harness = &simulation.harness;

    // The first node loses power in the middle of the update, and boots with the old version.
    let first = simulation.host("win-000");
    first.set_faults(|faults| faults.reboot_in_apply = true);
    let operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.eventually("the first node is in the middle of its update", || {
        std::net::TcpStream::connect((first.address(), first.port())).is_err()
    });
    for node in ["win-001", "win-002", "win-003"] {
        harness.expect_node(node, "True", "UpdatePending");
    }
    harness.expect_gate("False", "NodeOperationInProgress", &["win-000"]);
    // One power loss is not counted as a failure; two are.
    first.set_faults(|faults| faults.reboot_in_apply = true);
    simulation.wait(first.boot()).unwrap();
    harness.eventually("it has lost its power again", || {
        std::net::TcpStream::connect((first.address(), first.port())).is_err()
    });
    simulation.wait(first.boot()).unwrap();
    harness.expect_node("win-000", "False", "RolledBack");
    let message = harness.expect(SETTINGS, "RolloutProgressing", "False", "Stopped");
    assert_has(
        &message,
        &["win-000", "kubectl patch windowsstorage cluster"],
    );
    harness.expect_event("WindowsStorage/cluster", "Stopped");
    let status = &harness.get(SETTINGS)["status"]["rollout"];
    assert_eq!(status["failedNodes"], 1);
    assert_eq!(status["waitingNodes"], 3, "{status}\n{}", harness.log());

    // A new process still knows this, and so does another operator version with another agent and another csi-proxy: no
    // node is updated, however often it is checked.
    let mut operator = operator;
    for payload in [
        simulation.payload("v1.3.0"),
        simulation.payload_of("v1.4.0", "99.0.0"),
    ] {
        assert!(operator.terminate().unwrap().success());
        operator = simulation.look_twice(&payload, &simulation.hosts);
        assert_eq!(simulation.nodes_with("v1.1.3").len(), 4);
        harness.expect(SETTINGS, "RolloutProgressing", "False", "Stopped");
    }

    simulation.want(&json!({"rollout": {"resume": "the power supply was replaced"}}));
    simulation.expect_all_have("v1.4.0");
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
    assert!(harness.get("windowsnodestorage/win-000")["status"]["failedUpdate"].is_null());
    harness.expect_gate("True", "NoInTreeVolumes", &[]);
    harness.assert_nothing_was_forbidden();
}

#[test]
fn a_restart_does_not_forget_a_node_that_was_lost_in_the_middle_of_its_update() {
    let simulation = Simulation::installed(3);
    let harness = &simulation.harness;
    let first = simulation.host("win-000");
    first.set_faults(|faults| faults.reboot_in_apply = true);
    let new = simulation.payload("v1.3.0");
    let expect_stopped = || {
        let told = harness.expect(SETTINGS, "RolloutProgressing", "False", "Blocked");
        assert!(told.contains("win-000"), "{told}");
        let rollout = &harness.get(SETTINGS)["status"]["rollout"];
        assert_eq!(rollout["inProgress"], json!(["win-000"]), "{rollout}");
    };
    let operator = harness.start_with(&new);
    harness.eventually("the first node is lost in the middle of its update", || {
        std::net::TcpStream::connect((first.address(), first.port())).is_err()
    });
    expect_stopped();
    assert!(operator.terminate().unwrap().success());

    let _operator = simulation.look_twice(&new, &simulation.hosts[1..]);
    expect_stopped();
    let old = simulation.nodes_with("v1.1.3");
    assert!(old.ends_with(&["win-001", "win-002"]), "{old:?}");
    simulation.wait(first.boot()).unwrap();
    simulation.expect_all_have("v1.3.0");
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
    let rollout = &harness.get(SETTINGS)["status"]["rollout"];
    assert_eq!(rollout["inProgress"], json!([]), "{rollout}");
}
