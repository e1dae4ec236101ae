//! csi-proxy is removed: next to services of others, in the middle of an update, and despite a changed host key.

use serde_json::json;
use testbed::simulated_host::KeyKind;

use super::Simulation;
use crate::system::removal::DRIVER;

#[test]
fn the_services_of_others_are_kept_without_csi_proxy() {
    let mut simulation = Simulation::new(2);
    let clock = simulation.harness.with_clock();
    let harness = &simulation.harness;
    let logs = json!({"name": "logs", "path": r"C:\k\logs.exe", "bootstrap": false, "priority": 3});
    let services = json!([logs]).to_string();
    simulation.write_config_map(
        "windows-services",
        &json!({"services": services, "files": "[]"}),
    );
    simulation.want(&json!({"csiProxy": {"install": "WhereNeeded"}}));
    harness.apply(DRIVER);
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    for node in ["win-000", "win-001"] {
        harness.expect_csi_proxy(node);
    }
    harness.kubectl("delete daemonset csi-driver-win -n kube-system");
    harness.age(&clock, &["win-000", "win-001"]);
    // One node after the other: a node without csi-proxy does not hold up the next.
    for node in ["win-000", "win-001"] {
        let object = format!("windowsnodestorage/{node}");
        harness.expect(&object, "CSIProxyReady", "Unknown", "NotNeeded");
        assert_eq!(harness.management(node), "Managed");
        let host = simulation.host(node);
        assert_eq!(host.command_of("csi-proxy"), None);
        assert!(host.command_of("logs").is_some());
    }
    let settings = "windowsstorage/cluster";
    harness.expect(settings, "RolloutProgressing", "False", "Complete");
    harness.apply(DRIVER);
    for node in ["win-000", "win-001"] {
        harness.expect_csi_proxy(node);
    }
    harness.assert_nothing_was_forbidden();
}

/// A request during an update of a node.
const IN_THE_MIDDLE: u64 = 4;

#[test]
fn all_is_removed_in_the_middle_of_a_rollout_and_a_changed_key_is_named() {
    let mut simulation = Simulation::new(3);
    let clock = simulation.harness.with_clock();
    let harness = &simulation.harness;
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    harness.eventually("all have the old csi-proxy", || {
        simulation.ready().len() == 3
    });
    drop(operator);
    let first = simulation.host("win-000");
    first.hold_at(IN_THE_MIDDLE);
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.eventually("it is in the middle", || first.counters().held > 0);
    let other = simulation.host("win-002");
    other.change_host_keys(&[KeyKind::Ed25519]).unwrap();
    simulation.want(&json!({
        "csiProxy": {"management": "Removed"}, "rollout": {"maxUnavailable": 2},
    }));
    harness.age(&clock, &["win-000", "win-001", "win-002"]);
    first.release();
    for node in ["win-000", "win-001"] {
        harness.expect_management(node, "Removed");
        let files = simulation.host(node).with_disk(|disk| disk.files());
        assert_eq!(files, [""; 0], "{node}");
    }
    let object = "windowsnodestorage/win-002";
    harness.expect(object, "CSIProxyReady", "Unknown", "HostKeyChanged");
    let settings = "windowsstorage/cluster";
    harness.expect(settings, "RolloutProgressing", "True", "Removing");
    harness.eventually("only the third is left, with the reason", || {
        let (_, _, said) = harness.condition(settings, "RolloutProgressing");
        said.contains("2 of 3 node(s); to be removed: win-002 (")
    });
    // The pin is kept, so that an administrator can compare the new key with it.
    let pins = &harness.get("configmap/windows-storage-host-keys")["data"];
    assert!(pins["win-002"].is_string(), "{pins}");

    // A node that was deleted does not block the removal.
    harness.kubectl("delete node win-002");
    harness.kubectl("delete windowsnodestorage win-002 --ignore-not-found");
    harness.expect(settings, "RolloutProgressing", "False", "Removed");
    harness.assert_nothing_was_forbidden();
}
