//! The cluster is upgraded although upgrades are held.

use serde_json::{Value, json};

use crate::cluster::harness::{Harness, SETTINGS};

const METRIC: &str = "\nwinstorage_upgraded_while_held ";

impl Harness {
    /// Changes the version in the status, as if upgrades had been held since that version.
    fn rewind(&self, version: &str) {
        let status = json!({"status": {"heldSinceVersion": version}});
        self.patch_status(SETTINGS, &status);
    }

    fn upgraded_events(&self) -> Vec<Value> {
        let events = self.list("events");
        let events = events["items"].as_array().unwrap().iter();
        let ours = events.filter(|event| event["reason"] == "UpgradedWhileHeld");
        ours.cloned().collect()
    }
}

#[test]
fn an_upgrade_that_did_not_wait_is_told_until_the_drivers_have_come() {
    let harness = Harness::held();
    let version = harness.kubectl("get --raw /version");
    let version: Value = serde_json::from_str(&version).unwrap();
    let version = version["gitVersion"].as_str().unwrap();
    let begin = || harness.start_with_arguments(&["--serve-address=127.0.0.1:0"]);
    let shows = |value: &str| {
        harness
            .get_http("metrics")
            .contains(&format!("{METRIC}{value}\n"))
    };

    let operator = begin();
    harness.expect(SETTINGS, "Upgradeable", "False", "DriversMissing");
    harness.eventually("the status has the version of the API server", || {
        harness.get(SETTINGS)["status"]["heldSinceVersion"] == version
    });
    harness.eventually("the metric is there", || shows("0"));
    operator.terminate().unwrap();
    harness.rewind("v1.22.17");
    let operator = begin();
    let note = harness.expect_event("WindowsStorage/cluster", "UpgradedWhileHeld");
    assert!(
        note.contains(&format!("from v1.22.17 to {version}")),
        "{note}"
    );
    let expected = json!({"from": "v1.22.17", "to": version});
    let upgraded = || harness.get(SETTINGS)["status"]["upgradedWhileHeld"].clone();
    assert_eq!(upgraded(), expected);
    harness.eventually("the metric says so", || shows("1"));
    let events = harness.upgraded_events();
    assert_eq!(events[0]["type"], "Warning");

    // The next process still knows this and does not report it again.
    operator.terminate().unwrap();
    let _operator = begin();
    harness.eventually("the metric says so again", || shows("1"));
    assert_eq!(upgraded(), expected);
    let events = harness.upgraded_events();
    assert_eq!(events.len(), 1);
    assert!(events[0]["series"].is_null(), "{events:?}");

    harness.register("win-1", true);
    harness.expect_open();
    harness.eventually("the metric is 0 again", || shows("0"));
    harness.eventually("the status has forgotten it", || upgraded().is_null());
    harness.assert_nothing_was_forbidden();
}
