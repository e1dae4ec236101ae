//! What cannot be read is not taken for what is not there.

use crate::harness::Harness;

const MANIFEST: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/rbac.yaml"));

/// The operator's rights but for reading pods.
fn without_pods() -> String {
    let rights = MANIFEST.replace("resources: [nodes, pods, ", "resources: [nodes, ");
    assert_ne!(rights, MANIFEST);
    rights
}

#[test]
fn what_can_no_longer_be_read_does_not_open_the_gate() {
    let harness = Harness::held();
    let control_plane = &harness.sandbox.control_plane;
    let _operator = harness.start();
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-0"]);

    // A watch that stands goes on whatever the rights are: the restart ends it.
    control_plane.apply(&without_pods()).unwrap();
    control_plane.restart_api_server().unwrap();
    harness.eventually("pods cannot be read", || {
        harness
            .log()
            .contains("watch interrupted: reading it is forbidden: pods is forbidden")
    });
    harness.register("win-1", true);
    harness.expect_gate(
        "False",
        "ReadinessUnknown",
        &["Pod (reading it is forbidden"],
    );

    control_plane.apply(MANIFEST).unwrap();
    harness.expect_open();
    harness.expect(
        "windowsstorage/cluster",
        "Upgradeable",
        "True",
        "DriversRegistered",
    );
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

    // Nobody has made the settings: the operator has, with their defaults, so that its verdict has a place.
    harness.expect(
        "windowsstorage/cluster",
        "Upgradeable",
        "True",
        "NoInTreeVolumes",
    );
    harness.expect(
        "windowsstorage/cluster",
        "CredentialsValid",
        "False",
        "CredentialsMissing",
    );
    assert_eq!(
        harness.get("windowsstorage/cluster")["spec"]["probeIntervalSeconds"],
        300
    );
}

#[test]
fn without_our_definitions_the_defaults_hold_and_the_gate_works() {
    let harness = Harness::held();
    harness.kubectl(
        "delete crd windowsstorages.windowsstorage.dev windowsnodestorages.windowsstorage.dev",
    );
    let _operator = harness.start();
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-0"]);
    // The kinds are looked for again and again, and their being away is no fault.
    harness.eventually("the definitions are looked for again", || {
        harness.log().matches("kind=WindowsStorage ").count() >= 3
    });
    harness.register("win-1", true);
    harness.expect_open();
}
