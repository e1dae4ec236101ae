//! The operator's main task from start to finish, and the steady state afterwards.

use serde_json::Value;
use testbed::node_agent::{csi_proxy_answers, csi_proxy_process};
use testbed::objects;

use crate::cluster::harness::{Harness, SETTINGS, logins};

const DRIVER: &str = "disk.csi.azure.com";

#[test]
fn nodes_get_csi_proxy_and_the_gate_opens_when_every_node_has_the_driver() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    let win_1 = sandbox.add_windows_node("win-1").unwrap();
    let win_2 = sandbox.add_windows_node("win-2").unwrap();
    sandbox.give_access().unwrap();
    harness.apply(&objects::azure_disk_workload("win-1"));
    // Other owners' content in the ConfigMap, with their own whitespace.
    let others = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: windows-services, namespace: windows-storage-operator}\ndata:\n  services: '[ ]'\n  files: '[  ]'\n  watchedEnvironmentVars: 'null'\n";
    harness.apply(others);
    let operator = harness.start();

    for (node, host) in [("win-1", &win_1), ("win-2", &win_2)] {
        harness.expect_csi_proxy(node);
        csi_proxy_answers(host).unwrap();
    }
    let status = &harness.get("windowsnodestorage/win-1")["status"];
    assert_eq!(status["csiProxy"]["version"], "v1.3.0");
    assert_eq!(status["csiProxy"]["serviceState"], "Running");
    assert_eq!(
        status["csiProxy"]["missingPipes"].as_array().map(Vec::len),
        Some(0)
    );
    assert_eq!(status["management"], "Managed");
    let config_map = harness.get("configmap/windows-services");
    assert_eq!(config_map["data"]["files"], "[  ]");
    assert_eq!(config_map["data"]["watchedEnvironmentVars"], "null");
    let services: Value =
        serde_json::from_str(config_map["data"]["services"].as_str().unwrap()).unwrap();
    assert_eq!(services[0]["name"], "csi-proxy");
    let pins = harness.get("configmap/windows-storage-host-keys");
    let pin = format!("{} stored-at-first-contact", win_1.host_key().unwrap());
    assert_eq!(pins["data"]["win-1"], pin);

    harness.expect_gate(
        "False",
        "DriversMissing",
        &[
            "pod shop/web-0",
            "PersistentVolume pv-orders",
            DRIVER,
            "win-1, win-2",
        ],
    );
    sandbox.register("win-1", &[DRIVER]).unwrap();
    harness.expect_gate("False", "DriversMissing", &["missing on win-2"]);
    harness.expect("windowsnodestorage/win-1", "Ready", "True", "StorageReady");
    harness.expect(
        "windowsnodestorage/win-2",
        "Ready",
        "False",
        "DriversMissing",
    );
    sandbox.register("win-2", &[DRIVER]).unwrap();
    harness.expect_open();
    harness.expect(SETTINGS, "NodesReady", "True", "AllReady");

    // There is no OLM in this test, which the operator reports after a while.
    harness.expect(
        SETTINGS,
        "OperatorConditionWritten",
        "False",
        "NotConfirmed",
    );

    harness.expect(SETTINGS, "Upgradeable", "True", "DriversRegistered");

    // In the steady state, nodes are checked and nothing is written.
    let before = versions(&harness);
    let seen = logins(&win_1);
    harness.eventually("two more looks at win-1", || logins(&win_1) >= seen + 2);
    assert_eq!(
        versions(&harness),
        before,
        "the steady state writes something"
    );

    // A new process finds everything in order and writes nothing either, except its first, cautious verdict.
    assert!(operator.terminate().unwrap().success());
    let process = csi_proxy_process(&win_1).unwrap();
    let seen = logins(&win_1);
    let operator = harness.start();
    harness.eventually("the new process has looked at win-1", || {
        logins(&win_1) > seen
    });
    harness.expect_open();
    let after = versions(&harness);
    for (object, version) in &before {
        if !object.starts_with("operatorcondition") {
            assert_eq!(
                after
                    .iter()
                    .find(|(name, _)| name == object)
                    .map(|(_, version)| version),
                Some(version),
                "{object}"
            );
        }
    }
    assert_eq!(
        csi_proxy_process(&win_1).unwrap(),
        process,
        "csi-proxy was restarted without need"
    );
    harness.assert_nothing_was_forbidden();
    drop(operator);
}

/// Returns the resource versions of all objects that the operator writes.
pub fn versions(harness: &Harness) -> Vec<(String, String)> {
    [
        "windowsnodestorage/win-1",
        "windowsnodestorage/win-2",
        SETTINGS,
        "configmap/windows-services",
        "configmap/windows-storage-host-keys",
        concat!(
            "operatorcondition/windows-storage-operator.v",
            env!("CARGO_PKG_VERSION")
        ),
    ]
    .into_iter()
    .map(|object| {
        (
            object.to_owned(),
            harness.get(object)["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .to_owned(),
        )
    })
    .collect()
}
