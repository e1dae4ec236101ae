//! An update goes from node to node, stops if it fails, and continues when it is resumed.

use std::time::Duration;

use serde_json::json;

use super::Simulation;

/// A request of an update after the node was checked and before the end.
const IN_THE_MIDDLE: u64 = 8;
const RIGHTS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/rbac.yaml"));
const CSI_PROXY: &str = r"C:\k\csi-proxy.exe";

#[test]
fn an_update_goes_node_by_node_stops_at_a_failure_and_is_resumed() {
    let simulation = Simulation::new(4);
    let harness = &simulation.harness;
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    harness.eventually("all nodes have the old csi-proxy", || {
        simulation.ready().len() == 4
    });
    harness.expect(
        "windowsstorage/cluster",
        "RolloutProgressing",
        "False",
        "Complete",
    );
    assert!(operator.terminate().unwrap().success());

    // The first node loses power in the middle of the update, and boots with the old version.
    let first = simulation.host("win-000");
    first.set_faults(|faults| faults.reboot_in_apply = true);
    let operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.eventually("the first node is in the middle of its update", || {
        std::net::TcpStream::connect((first.address(), first.port())).is_err()
    });
    for node in ["win-001", "win-002", "win-003"] {
        harness.expect(
            &format!("windowsnodestorage/{node}"),
            "CSIProxyReady",
            "True",
            "UpdatePending",
        );
    }
    harness.expect_gate("False", "NodeOperationInProgress", &["win-000"]);
    // One power loss is not counted as a failure; two are.
    first.set_faults(|faults| faults.reboot_in_apply = true);
    simulation.wait(first.boot()).unwrap();
    harness.eventually("it has lost its power again", || {
        std::net::TcpStream::connect((first.address(), first.port())).is_err()
    });
    simulation.wait(first.boot()).unwrap();
    harness.expect(
        "windowsnodestorage/win-000",
        "CSIProxyReady",
        "False",
        "RolledBack",
    );
    let message = harness.expect(
        "windowsstorage/cluster",
        "RolloutProgressing",
        "False",
        "Stopped",
    );
    assert!(
        message.contains("win-000") && message.contains("kubectl patch windowsstorage cluster"),
        "{message}"
    );
    harness.expect_event("WindowsStorage/cluster", "Stopped");
    let status = &harness.get("windowsstorage/cluster")["status"]["rollout"];
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
        let logins = || simulation.hosts.iter().map(|host| host.counters().logins);
        let before: Vec<u64> = logins().collect();
        operator = harness.start_with(&payload);
        harness.eventually("every node was looked at twice", || {
            logins().zip(&before).all(|(now, before)| now >= before + 2)
        });
        for host in &simulation.hosts {
            let content =
                host.with_disk(|disk| disk.file(CSI_PROXY).map(|it| it.content().to_vec()));
            assert_eq!(
                content.as_deref(),
                Some(&b"MZ csiProxy v1.1.3"[..]),
                "{}",
                host.name()
            );
        }
        harness.expect(
            "windowsstorage/cluster",
            "RolloutProgressing",
            "False",
            "Stopped",
        );
    }

    simulation.want(&json!({"rollout": {"resume": "the power supply was replaced"}}));
    harness.eventually("all nodes have the new csi-proxy", || {
        (0..4).all(|number| simulation.version(&format!("win-{number:03}")) == "v1.4.0")
    });
    harness.expect(
        "windowsstorage/cluster",
        "RolloutProgressing",
        "False",
        "Complete",
    );
    assert!(harness.get("windowsnodestorage/win-000")["status"]["failedUpdate"].is_null());
    harness.expect_gate("True", "NoInTreeVolumes", &[]);
    harness.assert_nothing_was_forbidden();
}

#[test]
fn no_update_begins_before_the_status_of_the_rollout_is_stored() {
    let simulation = Simulation::new(2);
    let harness = &simulation.harness;
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    harness.eventually("all nodes have the old csi-proxy", || {
        simulation.ready().len() == 2
    });
    assert!(operator.terminate().unwrap().success());

    let without = RIGHTS.replace("[windowsstorages/status, ", "[");
    assert_ne!(RIGHTS, without);
    harness.apply(&without);
    let logins = || simulation.hosts.iter().map(|host| host.counters().logins);
    let before: Vec<u64> = logins().collect();
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.eventually("every node was checked twice", || {
        logins().zip(&before).all(|(now, before)| now >= before + 2)
    });
    for host in &simulation.hosts {
        let content = host.with_disk(|disk| disk.file(CSI_PROXY).map(|it| it.content().to_vec()));
        let expected = Some(&b"MZ csiProxy v1.1.3"[..]);
        assert_eq!(content.as_deref(), expected, "{}", harness.log());
    }

    harness.apply(RIGHTS);
    harness.eventually("all nodes have the new csi-proxy", || {
        ["win-000", "win-001"].map(|node| simulation.version(node)) == ["v1.3.0"; 2]
    });
}

#[test]
fn a_restart_does_not_forget_a_node_that_was_lost_in_the_middle_of_its_update() {
    let simulation = Simulation::new(3);
    let harness = &simulation.harness;
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    harness.eventually("all nodes have the old csi-proxy", || {
        simulation.ready().len() == 3
    });
    assert!(operator.terminate().unwrap().success());
    let first = simulation.host("win-000");
    first.set_faults(|faults| faults.reboot_in_apply = true);
    let new = simulation.payload("v1.3.0");
    let settings = "windowsstorage/cluster";
    let expect_stopped = || {
        let told = harness.expect(settings, "RolloutProgressing", "False", "Blocked");
        assert!(told.contains("win-000"), "{told}");
        let rollout = &harness.get(settings)["status"]["rollout"];
        assert_eq!(rollout["inProgress"], json!(["win-000"]), "{rollout}");
    };
    let operator = harness.start_with(&new);
    harness.eventually("the first node is lost in the middle of its update", || {
        std::net::TcpStream::connect((first.address(), first.port())).is_err()
    });
    expect_stopped();
    assert!(operator.terminate().unwrap().success());

    let others = &simulation.hosts[1..];
    let logins = || -> Vec<u64> { others.iter().map(|host| host.counters().logins).collect() };
    let before = logins();
    let _operator = harness.start_with(&new);
    harness.eventually("the other nodes were looked at twice", || {
        logins()
            .iter()
            .zip(&before)
            .all(|(now, before)| *now >= before + 2)
    });
    expect_stopped();
    for host in others {
        let content = host.with_disk(|disk| disk.file(CSI_PROXY).map(|it| it.content().to_vec()));
        assert_eq!(content.as_deref(), Some(&b"MZ csiProxy v1.1.3"[..]));
    }
    simulation.wait(first.boot()).unwrap();
    harness.eventually("all nodes have the new csi-proxy", || {
        (0..3).all(|number| simulation.version(&format!("win-{number:03}")) == "v1.3.0")
    });
    harness.expect(settings, "RolloutProgressing", "False", "Complete");
    let rollout = &harness.get(settings)["status"]["rollout"];
    assert_eq!(rollout["inProgress"], json!([]), "{rollout}");
}

#[test]
fn only_one_node_is_worked_on_at_a_time_and_a_pause_is_kept() {
    let simulation = Simulation::new(3);
    let harness = &simulation.harness;
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    harness.eventually("all nodes have the old csi-proxy", || {
        simulation.ready().len() == 3
    });
    assert!(operator.terminate().unwrap().success());
    // A long interval, so that only a free slot causes a reconcile during the test.
    simulation.want(&json!({"probeIntervalSeconds": 86400, "rollout": {"paused": true}}));
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.expect(
        "windowsstorage/cluster",
        "RolloutProgressing",
        "False",
        "Paused",
    );
    harness.eventually("all nodes wait for their turn", || {
        harness.get("windowsstorage/cluster")["status"]["rollout"]["waitingNodes"] == 3
    });
    for host in &simulation.hosts {
        host.hold_at(IN_THE_MIDDLE);
    }
    simulation.want(&json!({"probeIntervalSeconds": 86400}));
    for done in 0..3 {
        harness.eventually("one node is in the middle of its update", || {
            simulation
                .hosts
                .iter()
                .filter(|host| host.counters().held > 0)
                .count()
                == 1
        });
        // The previous node is reported as updated at about the time when the next one starts.
        harness.eventually("just the nodes before it are updated", || {
            let updated =
                |number: &u32| simulation.version(&format!("win-{number:03}")) == "v1.3.0";
            (0..3).filter(updated).count() == done
        });
        for host in simulation
            .hosts
            .iter()
            .filter(|host| host.counters().held > 0)
        {
            host.release();
        }
    }
    harness.eventually("all nodes have the new csi-proxy", || {
        (0..3).all(|number| simulation.version(&format!("win-{number:03}")) == "v1.3.0")
    });
}

#[test]
fn an_agent_goes_from_node_to_node_without_waiting_for_the_next_look() {
    let simulation = Simulation::new(3);
    let harness = &simulation.harness;
    // A long interval, so that only free slots cause a reconcile during the test.
    simulation.want(&json!({"probeIntervalSeconds": 86400}));
    let operator = harness.start_with(&simulation.payload_of("v1.3.0", env!("CARGO_PKG_VERSION")));
    harness.eventually("all nodes are ready", || simulation.ready().len() == 3);
    assert!(operator.terminate().unwrap().success());
    let _operator = harness.start_with(&simulation.payload_of("v1.3.0", "99.0.0"));
    harness.eventually("all nodes have the new agent", || {
        simulation.hosts.iter().all(|host| {
            host.with_disk(|disk| {
                disk.file(r"C:\k\windows-storage-agent.exe")
                    .is_some_and(|file| file.content() == b"MZ agent 99.0.0")
            })
        })
    });
    harness.expect(
        "windowsstorage/cluster",
        "RolloutProgressing",
        "False",
        "Complete",
    );
}

#[test]
fn nodes_that_fail_again_and_again_do_not_keep_the_others_from_a_slot() {
    let simulation = Simulation::new(4);
    let harness = &simulation.harness;
    simulation.want(&json!({"probeIntervalSeconds": 300}));
    let operator = harness.start_with(&simulation.payload("v1.1.3"));
    harness.eventually("all nodes have the old csi-proxy", || {
        simulation.ready().len() == 4
    });
    assert!(operator.terminate().unwrap().success());
    for host in &simulation.hosts[..2] {
        host.with_disk(|disk| disk.free = Some(2));
    }
    for host in &simulation.hosts {
        // A reconcile takes longer than the backoff after the first failure.
        host.set_faults(|faults| faults.latency = Duration::from_millis(300));
    }
    let _operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.eventually("the others have the new csi-proxy", || {
        ["win-002", "win-003"]
            .iter()
            .all(|node| simulation.version(node) == "v1.3.0")
    });
    // The problem is reported even while the node waits for its next slot.
    harness.expect_event("Node/win-000", "DiskFull");
    let told = || {
        harness
            .condition("windowsnodestorage/win-000", "CSIProxyReady")
            .1
    };
    harness.eventually("the full disk is told", || told() == "DiskFull");
}
