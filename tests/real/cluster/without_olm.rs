//! Without OLM, the verdict is in `WindowsStorage` alone.

use testbed::objects;

use crate::cluster::harness::{Harness, SETTINGS};

#[test]
fn the_verdict_is_in_the_settings_and_nobodys_operator_condition_is_touched() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    // A node without an address needs no host: it cannot be reconciled, and the rest continues.
    sandbox.add_node("win-1", None).unwrap();
    sandbox.register("win-1", &[]).unwrap();
    sandbox.give_access().unwrap();
    harness.apply(&objects::azure_disk_workload("win-1"));

    let _operator = harness.start_without_olm();
    harness.expect(SETTINGS, "Upgradeable", "False", "DriversMissing");
    let status = &harness.get(SETTINGS)["status"];
    assert_eq!(status["counts"]["blockingVolumes"], 1);
    harness.register("win-1", true);
    harness.expect(SETTINGS, "Upgradeable", "True", "DriversRegistered");
    assert_eq!(harness.gate().0, "");
    harness.assert_nothing_was_forbidden();
}
