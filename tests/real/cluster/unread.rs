//! Objects that cannot be read are not treated as absent.

use crate::cluster::check::{check, report};
use crate::cluster::harness::Harness;

/// Uses an API server with `batch` disabled. That a kind is not served does not mean that there are no such objects.
#[test]
fn kinds_that_the_api_server_lacks_hold_the_gate_until_it_serves_them() {
    let harness = Harness::held();
    let control_plane = harness.control_plane();
    control_plane
        .restart_api_server_without("batch/v1")
        .unwrap();
    let _operator = harness.start();
    let missing = ["CronJob, Job (the API server does not serve it"];
    harness.expect_gate("False", "ReadinessUnknown", &missing);
    let log = harness.log();
    assert!(log.contains("kind=CronJob"), "{log}");
    harness.register("win-1", true);

    let kubeconfig = control_plane.kubeconfig().to_str().unwrap();
    let asked = check(&["--kubeconfig", kubeconfig, "-o", "json"]);
    assert_eq!(asked.status.code(), Some(4));
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
