//! Without OLM, the verdict is in `WindowsStorage`, and `--once` returns it as an exit status.

use testbed::objects;

use crate::system::harness::{Harness, SETTINGS};

#[test]
fn a_single_pass_says_by_its_exit_status_whether_upgrades_are_held() {
    let harness = Harness::new();
    let sandbox = &harness.sandbox;
    // A node without an address needs no host: it cannot be reconciled, and the rest continues.
    sandbox.add_node("win-1", None).unwrap();
    sandbox.register("win-1", &[]).unwrap();
    sandbox.give_access().unwrap();
    harness.apply(&objects::azure_disk_workload("win-1"));

    let held = harness.start_without_olm(&["--once"]).wait().unwrap();
    assert_eq!(held.code(), Some(3), "{}", harness.log());
    let (upgradeable, reason, _) = harness.condition(SETTINGS, "Upgradeable");
    assert_eq!((&*upgradeable, &*reason), ("False", "DriversMissing"));
    let status = &harness.get(SETTINGS)["status"];
    assert_eq!(status["counts"]["blockingVolumes"], 1);
    assert_eq!(
        harness.gate().0,
        "",
        "without OLM's variable nobody's OperatorCondition is touched"
    );

    sandbox.register("win-1", &["disk.csi.azure.com"]).unwrap();
    let free = harness.start_without_olm(&["--once"]).wait().unwrap();
    assert_eq!(free.code(), Some(0), "{}", harness.log());
    assert_eq!(harness.condition(SETTINGS, "Upgradeable").0, "True");
    harness.assert_nothing_was_forbidden();
}
