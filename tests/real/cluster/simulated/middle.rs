//! Changes while a node is being reconciled, and concurrent operators.

use serde_json::json;

use super::Simulation;
use crate::cluster::harness::SETTINGS;

/// A request of a first reconcile after the agent was transferred and before the end.
const IN_THE_MIDDLE: u64 = 20;

#[test]
fn what_is_wanted_may_change_in_the_middle() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    let host = simulation.host("win-000");
    host.hold_at(IN_THE_MIDDLE);
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    let held = || host.counters().held > 0;
    harness.eventually("the node is in the middle of its first visit", held);
    simulation.want(&json!({"csiProxy": {"extraArgs": ["-v=9"]}}));
    harness.eventually("the services document says so", || {
        let map = harness.get("configmap/windows-services");
        map["data"]["services"]
            .as_str()
            .is_some_and(|services| services.contains("-v=9"))
    });
    host.release();
    harness.expect_csi_proxy("win-000");
    harness.eventually("the node is kept to what is wanted now", || {
        host.command()
            .is_some_and(|command| command.ends_with("-v=9"))
    });
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
}

#[test]
fn two_operators_at_once_hurt_no_node() {
    let simulation = Simulation::new(4);
    let harness = &simulation.harness;
    let old = simulation.payload("v1.1.3");
    let operators = [harness.start_with(&old), harness.start_with(&old)];
    harness.eventually("all nodes have the old csi-proxy", || {
        simulation.ready().len() == 4
    });
    for operator in operators {
        assert!(operator.terminate().unwrap().success());
    }
    let new = simulation.payload("v1.3.0");
    let _operators = [harness.start_with(&new), harness.start_with(&new)];
    simulation.expect_all_have("v1.3.0");
    harness.expect(SETTINGS, "RolloutProgressing", "False", "Complete");
    assert_eq!(simulation.nodes_with("v1.3.0").len(), 4);
    harness.assert_nothing_was_forbidden();
}
