//! When the gate opens: at once where what was missing has come, and a minute after what held upgrades has gone instead.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use testbed::objects;

use crate::harness::{DRIVER, Harness};

/// What a watch has delivered so long ago is no longer fresh.
const QUIET: Duration = Duration::from_secs(6);
/// Of so many attempts on a loaded machine one is as fast as it is on another.
const ATTEMPTS: usize = 3;
/// Far more than it takes, and far less than the minute that it must not wait for.
const AT_ONCE: Duration = Duration::from_secs(10);
/// A minute, but for the time from a deletion to its being told.
const NOT_BEFORE: Duration = Duration::from_secs(55);

impl Harness {
    fn delete_pod(&self) {
        self.kubectl("delete pod web-0 --namespace shop --force --grace-period=0");
    }

    /// Waits until the gate says that the pod holds upgrades, rather than that it did.
    fn expect_held(&self) {
        self.eventually("the pod holds upgrades", || {
            let (status, _, message) = self.gate();
            status == "False" && message.starts_with("pod shop/web-0")
        });
    }

    /// Waits until the gate says that what held upgrades has gone.
    fn expect_waiting(&self) {
        let parts = ["no longer there", "pod shop/web-0"];
        self.expect_gate("False", "DriversMissing", &parts);
    }
}

#[test]
fn it_opens_at_once_when_the_registration_that_was_missing_comes() {
    let harness = Harness::held();
    let _operator = harness.start();
    let mut fastest = Duration::MAX;
    for _ in 0..ATTEMPTS {
        harness.expect_missing("win-1");
        // All that is silent is to be proved alive.
        sleep(QUIET);
        harness.register("win-1", true);
        let begin = Instant::now();
        harness.eventually_soon("the gate opens", || harness.gate().0 == "True");
        fastest = fastest.min(begin.elapsed());
        harness.register("win-1", false);
    }
    println!("opened after {fastest:?}");
    assert!(fastest < AT_ONCE, "{fastest:?}");
    assert_eq!(harness.openings(), ATTEMPTS);
    harness.assert_nothing_was_forbidden();
}

#[test]
fn what_is_deleted_opens_it_after_a_minute_and_what_comes_back_within_it_never() {
    let harness = Harness::held();
    let _operator = harness.start();
    harness.expect_held();
    harness.delete_pod();
    harness.expect_waiting();
    waits_where_people_look(&harness);
    // It comes back within the minute.
    sleep(Duration::from_secs(40));
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
    let cluster = "windowsstorage/cluster";
    harness.expect(cluster, "Upgradeable", "True", "NoInTreeVolumes");
    assert_eq!(harness.openings(), 1);
}

/// The condition says what the gate says; the verdict, and `check`, what there is, and `check` that the two differ.
fn waits_where_people_look(harness: &Harness) {
    let cluster = "windowsstorage/cluster";
    harness.eventually("the verdict is told", || {
        let log = harness.log();
        log.contains("verdict: no Windows workload uses an in-tree volume")
    });
    let message = harness.expect(cluster, "Upgradeable", "False", "DriversMissing");
    assert!(message.contains(DRIVER), "{message}");
    let output = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(["check", "--kubeconfig"])
        .arg(harness.sandbox.control_plane.kubeconfig())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let noted = String::from_utf8_lossy(&output.stderr);
    let expected = "note: the operator says Upgradeable False (DriversMissing): What held upgrades is no longer there";
    assert!(noted.contains(expected), "{noted}");
}
