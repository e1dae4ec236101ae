//! The main events in a node's life, with each version of Windows' own SSH server and in either shell.

use serde_json::json;
use testbed::simulated_host::{Moment, Profile, Shell};

use super::Simulation;

#[test]
fn a_nodes_life_is_the_same_on_every_version_of_windows_ssh_server() {
    let nodes = Profile::ALL.len() * Shell::ALL.len();
    let simulation = Simulation::new(nodes);
    let harness = &simulation.harness;
    let all_have = |version: &str| {
        let mut hosts = simulation.hosts.iter();
        hosts.all(|host| simulation.version(host.name()) == version)
    };
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    harness.eventually("all nodes have the old csi-proxy", || {
        simulation.ready().len() == nodes
    });
    assert!(operator.terminate().unwrap().success());

    // Each host loses a connection during the update.
    for host in &simulation.hosts {
        host.cut_at(5, Moment::After);
    }
    simulation.want(&json!({"rollout": {"maxUnavailable": 2}}));
    let new = simulation.payload_of("v1.3.0", "99.0.0");
    let _operator = harness.start_with(&new);
    harness.eventually("all nodes have the new csi-proxy", || all_have("v1.3.0"));
    let settings = "windowsstorage/cluster";
    harness.expect(settings, "RolloutProgressing", "False", "Complete");
    for host in &simulation.hosts {
        let left = host.with_disk(|disk| disk.files());
        let content = host.with_disk(|disk| {
            let file = disk.file(r"C:\k\csi-proxy.exe");
            file.map(|file| file.content().to_vec())
        });
        assert_eq!(content.as_deref(), Some(&b"MZ csiProxy v1.3.0"[..]));
        assert_eq!(left.len(), 2, "the two programs alone: {left:?}");
    }

    // A shell that starts to print its own output is reported if that prevents transfers, and other nodes continue.
    let noisy = simulation.host("win-000");
    noisy.set_faults(|faults| faults.shell_prints = b"Transcript started\r\n".to_vec());
    simulation
        .want(&json!({"csiProxy": {"extraArgs": ["-v=9"]}, "rollout": {"maxUnavailable": "50%"}}));
    let object = "windowsnodestorage/win-000";
    let told = harness.expect(object, "CSIProxyReady", "Unknown", "TransferFailed");
    assert!(told.contains("DefaultShell"), "{told}");
    noisy.set_faults(|faults| faults.shell_prints.clear());
    harness.eventually("every node is kept to what is wanted now", || {
        simulation.hosts.iter().all(|host| {
            let command = host.command_of("csi-proxy");
            command.is_some_and(|command| command.ends_with("-v=9"))
        })
    });
    harness.assert_nothing_was_forbidden();
}
