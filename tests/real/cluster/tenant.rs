//! A tenant who may create pods and claims in one namespace holds the cluster's upgrades.

use serde_json::{Value, json};

use crate::cluster::harness::{Harness, SETTINGS, run};

/// More volumes than the verdict's message names.
const MANY: usize = 14;

/// Returns a namespace with pods that require Windows and a volume without any CSI driver, so an administrator cannot
/// resolve this by deploying a driver.
fn pods(namespace: &str, names: impl Iterator<Item = String>) -> String {
    let pods = names.map(|name| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "serviceAccountName": "default",
                "automountServiceAccountToken": false,
                "containers": [{"name": "c", "image": "example.com/a:1"}],
                "volumes": [{"name": "data", "rbd": {"monitors": ["192.0.2.1"], "image": "a"}}]}})
    });
    let mut items = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace}}),
    ];
    items.extend(pods);
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn a_tenant_who_holds_upgrades_is_named_and_the_administrator_can_overrule_it() {
    let harness = Harness::new();
    let control_plane = harness.control_plane();
    harness.sandbox.add_node("win-1", None).unwrap();
    harness.register("win-1", false);
    // One pod hides behind the number of the others.
    let crowd = (0..MANY).map(|number| format!("crowd-{number}"));
    control_plane.apply(&pods("crowd", crowd)).unwrap();
    let one = std::iter::once("hidden".to_owned());
    control_plane.apply(&pods("tenant", one)).unwrap();
    let _operator = harness.start();

    let left = format!("{} more", MANY + 1 - 10);
    harness.expect_gate("False", "NoCSIMigration", &["pod crowd/crowd-0", &left]);
    let message = harness.expect(SETTINGS, "Upgradeable", "False", "NoCSIMigration");
    assert!(message.contains("pod crowd/crowd-0"), "{message}");
    // A pod that does not fit into the message still has a row in the report.
    let output = run(control_plane.kubeconfig(), &["check", "-o", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["volumes"].as_array().unwrap();
    assert_eq!(rows.len(), MANY + 1);
    let hidden = json!({"kind": "Pod", "namespace": "tenant", "name": "hidden"});
    let of_tenant = |row: &&Value| row["workload"] == hidden && row["blocking"] == true;
    assert_eq!(rows.iter().filter(of_tenant).count(), 1, "{rows:#?}");

    let decide = |gate: &str| {
        let settings = json!({"apiVersion": "windowsstorage.dev/v1alpha1", "kind": "WindowsStorage",
            "metadata": {"name": "cluster"}, "spec": {"upgradeGate": gate}});
        control_plane.apply(&settings.to_string()).unwrap();
    };
    decide("Ignore");
    harness.expect_gate("True", "Override", &["pod crowd/crowd-0", &left]);
    let message = harness.expect(SETTINGS, "Upgradeable", "True", "Override");
    assert!(message.contains("accepts the risk"), "{message}");

    decide("Enforce");
    harness.expect_gate("False", "NoCSIMigration", &[]);
}
