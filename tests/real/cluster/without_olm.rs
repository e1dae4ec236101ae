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
    // Policies go by the condition: what is deleted and made again does not open it for a moment.
    harness.kubectl("delete pod web-0 --namespace shop --force --grace-period=0");
    harness.eventually("it waits a minute", || {
        let (status, _, message) = harness.condition(SETTINGS, "Upgradeable");
        assert_eq!(status, "False", "{message}");
        message
            .to_lowercase()
            .starts_with("what held upgrades is gone")
    });
    harness.apply(&objects::azure_disk_workload("win-1"));
    harness.eventually("it is back", || {
        let (status, _, message) = harness.condition(SETTINGS, "Upgradeable");
        assert_eq!(status, "False", "{message}");
        message.starts_with("1 volume cannot be mounted already today")
    });
    harness.register("win-1", true);
    harness.expect(SETTINGS, "Upgradeable", "True", "DriversRegistered");
    assert_eq!(harness.gate().0, "");
    harness.assert_nothing_was_forbidden();
}
