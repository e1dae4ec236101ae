//! What cannot be read is not taken for what is not there.

use crate::harness::Harness;

#[test]
fn a_forbidden_kind_holds_the_gate_and_is_named_until_it_can_be_read() {
    let harness = Harness::new();
    harness.sandbox.add_node("win-1", None).unwrap();
    harness.sandbox.register("win-1", &[]).unwrap();
    let manifest =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/rbac.yaml"))
            .unwrap();
    let without_pods = manifest.replace("resources: [nodes, pods, ", "resources: [nodes, ");
    assert_ne!(without_pods, manifest);
    harness.sandbox.control_plane.apply(&without_pods).unwrap();
    let _operator = harness.start();
    harness.expect_gate(
        "False",
        "ReadinessUnknown",
        &["Pod (reading it is forbidden"],
    );

    harness.sandbox.control_plane.apply(&manifest).unwrap();
    harness.expect_gate("True", "NoInTreeVolumes", &[]);

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
