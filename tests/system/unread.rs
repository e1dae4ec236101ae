//! Objects that cannot be read are not treated as absent.

use crate::check::{check, report};
use crate::harness::{Harness, SETTINGS};

const MANIFEST: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/rbac.yaml"));

/// Returns the operator's RBAC without the permission to read pods.
fn without_pods() -> String {
    let rights = MANIFEST.replace("resources: [nodes, pods, ", "resources: [nodes, ");
    assert_ne!(rights, MANIFEST);
    rights
}

#[test]
fn a_forbidden_kind_holds_the_gate_and_is_named_until_it_can_be_read() {
    let harness = Harness::new();
    harness.sandbox.add_node("win-1", None).unwrap();
    harness.register("win-1", false);
    harness.apply(&without_pods());
    let _operator = harness.start_with_arguments(&["--serve-address=127.0.0.1:0"]);
    harness.expect_gate(
        "False",
        "ReadinessUnknown",
        &["Pod (reading it is forbidden"],
    );
    harness.expect_readyz("503", "[-]cluster-read failed: missing Pod");

    harness.apply(MANIFEST);
    harness.expect_gate("True", "NoInTreeVolumes", &[]);
    harness.expect_readyz("200", "[+]cluster-read ok");

    // The operator creates the settings with their defaults if there are none, so that the verdict can be stored.
    harness.expect(SETTINGS, "Upgradeable", "True", "NoInTreeVolumes");
    harness.expect(SETTINGS, "CredentialsValid", "False", "CredentialsMissing");
    assert_eq!(harness.get(SETTINGS)["spec"]["probeIntervalSeconds"], 300);
}

/// Uses an API server with `batch` disabled. That a kind is not served does not mean that there are no such objects.
#[test]
fn kinds_that_the_api_server_lacks_hold_the_gate_until_it_serves_them() {
    let harness = Harness::held();
    let control_plane = harness.control_plane();
    control_plane
        .restart_api_server_without("batch/v1")
        .unwrap();
    let _operator = harness.start();
    let missing = [
        "CronJob (the API server does not serve it",
        "Job (the API server",
    ];
    harness.expect_gate("False", "ReadinessUnknown", &missing);
    let log = harness.log();
    assert!(log.contains("kind=CronJob"), "{log}");
    harness.register("win-1", true);

    let kubeconfig = control_plane.kubeconfig().to_str().unwrap();
    let asked = check(&["--kubeconfig", kubeconfig, "-o", "json"]);
    assert_eq!(asked.status.code(), Some(3));
    let verdict = &report(&asked)["verdict"];
    assert_eq!(verdict["reason"], "ReadinessUnknown");
    let message = verdict["message"].as_str().unwrap();
    assert!(
        missing.iter().all(|kind| message.contains(kind)),
        "{message}"
    );
    assert_eq!(harness.openings(), 0);

    control_plane.restart_api_server().unwrap();
    harness.expect_open();
    let asked = check(&["--kubeconfig", kubeconfig, "-o", "json"]);
    assert_eq!(report(&asked)["verdict"]["reason"], "DriversRegistered");
}

#[test]
fn without_our_definitions_the_defaults_hold_and_the_gate_works() {
    let harness = Harness::held();
    harness.kubectl(
        "delete crd windowsstorages.windowsstorage.dev windowsnodestorages.windowsstorage.dev",
    );
    let _operator = harness.start();
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-0"]);
    // The operator keeps looking for the kinds, and their absence is not an error.
    harness.eventually("the definitions are looked for again", || {
        harness.log().matches("kind=WindowsStorage ").count() >= 3
    });
    harness.register("win-1", true);
    harness.expect_open();
}
