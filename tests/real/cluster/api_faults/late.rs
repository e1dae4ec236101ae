//! Late answers to writes.

use std::time::Duration;

use testbed::api_proxy::{Fault, On, Verb};

use super::Rig;
use crate::cluster::harness::SETTINGS;

#[test]
fn a_late_answer_to_a_write_takes_nothing_back_that_was_set_meanwhile() {
    let rig = Rig::new();
    let running = rig.start();
    let harness = &*rig;
    let decide = |gate: &str| {
        harness.apply(&format!(
            "apiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsStorage\nmetadata: {{name: cluster}}\nspec: {{upgradeGate: {gate}}}\n"
        ));
    };
    decide("Ignore");
    harness.expect_gate("True", "Override", &["win-1, win-2"]);
    harness.expect(SETTINGS, "Upgradeable", "True", "Override");
    let piece = Fault::Slow(700, Duration::from_millis(400));
    let slow = rig
        .proxy
        .order_times(1, On::to(Verb::Patch, "windowsstorages"), piece);
    let version = || harness.get(SETTINGS)["metadata"]["resourceVersion"].clone();
    let before = version();
    // Causes a write of the status whose answer takes seconds.
    rig.register("win-2", true);
    harness.eventually("the status is written", || {
        slow.hits() == 1 && version() != before
    });
    decide("Enforce");
    rig.expect_missing("win-1");
    harness.expect(SETTINGS, "Upgradeable", "False", "DriversMissing");
    assert_eq!(harness.openings(), 1);
    running.assert_well();
}
