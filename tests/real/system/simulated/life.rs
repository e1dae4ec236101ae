//! Events in the life of a node: it is rebooted, ignored, handed over to another owner, and deleted.

use serde_json::json;
use testbed::simulated_host::File;

use super::Simulation;

#[test]
fn a_node_is_looked_at_after_a_boot_and_let_alone_when_it_is_no_longer_ours() {
    let simulation = Simulation::new(3);
    let harness = &simulation.harness;
    // A long interval, so that only events cause a reconcile during the test.
    simulation.want(&json!({"probeIntervalSeconds": 86400}));
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.eventually("all nodes are ready", || simulation.ready().len() == 3);

    let logins = |name: &str| simulation.host(name).counters().logins;
    let before = logins("win-000");
    simulation.write_statuses("boot-2", 3);
    harness.eventually("every node was looked at after its boot", || {
        logins("win-000") > before
    });

    harness.kubectl("label node win-001 windowsstorage.dev/ignore=true");
    harness.eventually("the status of the ignored node is gone", || {
        harness.get("windowsnodestorage/win-001").is_null()
    });
    let pins = || harness.get("configmap/windows-storage-host-keys")["data"].clone();
    assert!(
        !pins()["win-001"].is_null(),
        "an ignored node keeps its pin"
    );

    let disk = |name: &str| {
        simulation.host(name).with_disk(|disk| {
            let hash = |path: &String| disk.file(path).map(File::sha256);
            let files = disk.files();
            let hashes: Vec<Option<String>> = files.iter().map(hash).collect();
            (files, hashes)
        })
    };
    let left = disk("win-002");
    harness.kubectl("delete node win-002");
    harness.eventually("the pin of the node that left is gone", || {
        pins()["win-002"].is_null()
    });
    harness.eventually("its status is gone", || {
        harness.get("windowsnodestorage/win-002").is_null()
    });
    assert_eq!(disk("win-002"), left, "the host that left is as it was");
    assert!(!pins()["win-001"].is_null() && !pins()["win-000"].is_null());

    simulation
        .want(&json!({"probeIntervalSeconds": 86400, "csiProxy": {"management": "External"}}));
    harness.expect(
        "windowsnodestorage/win-000",
        "CSIProxyReady",
        "Unknown",
        "External",
    );
    // The condition is reported while the agent is still being removed.
    harness.expect_management("win-000", "External");
    let (seen, there) = (logins("win-000"), disk("win-000"));
    assert!(!there.0.is_empty());
    simulation.write_statuses("boot-3", 2);
    // Events are processed in order: once this change is reported, the boot before it has been processed.
    simulation.want(
        &json!({"probeIntervalSeconds": 86400, "csiProxy": {"management": "External"}, "upgradeGate": "Ignore"}),
    );
    harness.kubectl("label node win-001 windowsstorage.dev/ignore-");
    harness.expect(
        "windowsnodestorage/win-001",
        "CSIProxyReady",
        "Unknown",
        "External",
    );
    assert_eq!(logins("win-000"), seen, "an external node is connected to");
    assert_eq!(disk("win-000"), there);
    harness.assert_nothing_was_forbidden();
}
