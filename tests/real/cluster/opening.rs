//! When the gate opens: at once if what was missing appears, and after a minute if what held upgrades disappears.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::objects;

use crate::cluster::harness::{DRIVER, Harness, SETTINGS};

/// A minute, minus the time until the deletion is reported.
const NOT_BEFORE: Duration = Duration::from_secs(55);

impl Harness {
    fn delete_pod(&self) {
        self.kubectl("delete pod web-0 --namespace shop --force --grace-period=0");
    }

    /// Deletes the object at a path, and recreates it after `meanwhile`.
    fn replace(&self, path: &str, meanwhile: impl FnOnce()) {
        // The controllers that would remove the finalizers do not run.
        let free = json!({"metadata": {"finalizers": null}});
        let object = self.control_plane().patch(path, &free).unwrap();
        let old = &object["metadata"];
        let fresh = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"], "spec": object["spec"],
            "metadata": {"name": old["name"], "namespace": old["namespace"], "labels": old["labels"]},
        });
        let now = format!("{path}?gracePeriodSeconds=0");
        self.control_plane().delete(&now).unwrap();
        meanwhile();
        let (folder, _) = path.rsplit_once('/').unwrap();
        self.control_plane().post(folder, &fresh).unwrap();
    }

    /// Waits until the gate reports that the pod holds upgrades, not that it did.
    fn expect_held(&self) {
        self.eventually("the pod holds upgrades", || {
            let (status, _, message) = self.gate();
            status == "False" && message.starts_with("1 volume cannot be mounted already today")
        });
    }

    /// Waits until the gate reports that what held upgrades has disappeared.
    fn expect_waiting(&self) {
        let parts = ["what held upgrades is gone", "pod shop/web-0"];
        self.expect_gate("False", "DriversMissing", &parts);
    }
}

#[test]
fn what_is_deleted_opens_it_after_a_minute_and_what_comes_back_within_it_never() {
    let harness = Harness::held();
    let _operator = harness.start();
    harness.expect_held();
    let deleted = Instant::now();
    harness.delete_pod();
    harness.expect_waiting();
    waits_where_people_look(&harness);
    // It is recreated within the minute.
    sleep(Duration::from_secs(40).saturating_sub(deleted.elapsed()));
    harness.apply(&objects::azure_disk_workload("win-1"));
    harness.expect_held();
    sleep(Duration::from_secs(25));
    assert_eq!(harness.openings(), 0);

    harness.expect_held();
    let deleted = Instant::now();
    harness.delete_pod();
    harness.expect_waiting();
    sleep(NOT_BEFORE.saturating_sub(deleted.elapsed()));
    assert_eq!(harness.gate().0, "False");
    assert_eq!(harness.openings(), 0);
    harness.expect_gate("True", "NoInTreeVolumes", &[]);
    harness.expect(SETTINGS, "Upgradeable", "True", "NoInTreeVolumes");
    assert_eq!(harness.openings(), 1);
}

/// Paths of the objects that the verdict is based on.
const COMES_AND_GOES: [&str; 5] = [
    "/apis/storage.k8s.io/v1/csinodes/win-2",
    "/api/v1/nodes/win-2",
    "/api/v1/namespaces/shop/pods/web-0",
    "/api/v1/namespaces/shop/persistentvolumeclaims/orders",
    "/api/v1/persistentvolumes/pv-orders",
];

/// Without the node that lacks the driver, or without what needs it, the verdict would be True, but not for long enough
/// to open the gate.
#[test]
fn what_is_away_for_a_moment_opens_it_neither_with_watches_nor_while_they_are_broken() {
    let harness = Harness::held();
    harness.sandbox.add_node("win-2", None).unwrap();
    harness.sandbox.register("win-2", &[]).unwrap();
    harness.register("win-1", true);
    let _operator = harness.start();
    harness.expect_missing("win-2");
    // A node without a CSINode never leads to True.
    for path in &COMES_AND_GOES[1..] {
        harness.replace(path, || {
            harness.expect_gate("False", "DriversMissing", &["what held upgrades is gone"]);
            // Without the minute, the gate opens within two seconds.
            sleep(Duration::from_secs(4));
        });
        assert_eq!(harness.openings(), 0);
        harness.eventually("it holds again", || {
            !harness.gate().2.starts_with("what held upgrades")
        });
    }

    harness.control_plane().restart_api_server().unwrap();
    for _ in 0..3 {
        for path in COMES_AND_GOES {
            harness.replace(path, || {});
        }
    }
    // A message that names a new pod shows that all earlier events have been read.
    let workload = objects::azure_disk_workload("win-1").replace("web-0", "web-1");
    harness.apply(&workload);
    harness.expect_gate("False", "DriversMissing", &["pod shop/web-1"]);
    assert_eq!(harness.openings(), 0);
}

/// Asserts that the condition agrees with the gate, that verdict and `check` report the current state, and that `check`
/// notes the difference.
fn waits_where_people_look(harness: &Harness) {
    harness.eventually("the verdict is told", || {
        let log = harness.log();
        log.contains("verdict: no Windows workload uses an in-tree volume")
    });
    let message = harness.expect(SETTINGS, "Upgradeable", "False", "DriversMissing");
    assert!(message.contains(DRIVER), "{message}");
    let output = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(["check", "--kubeconfig"])
        .arg(harness.control_plane().kubeconfig())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let noted = String::from_utf8_lossy(&output.stderr);
    let expected =
        "note: the operator says Upgradeable False (DriversMissing): What held upgrades is gone";
    assert!(noted.contains(expected), "{noted}");
}
