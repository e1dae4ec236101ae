//! Watches that end, and watches that are dead but stay open.

use std::thread::sleep;
use std::time::Duration;

use testbed::api_proxy::{End, Fault, On, Verb};

use super::{Rig, pod_that_needs_another_driver};

/// After this long without an event, a watch counts as stale.
const QUIET: Duration = Duration::from_secs(6);

#[test]
fn a_watch_whose_connection_is_dead_but_open_does_not_open_the_gate() {
    let rig = Rig::new();
    let running = rig.start();
    rig.proxy.end_watches(Some("pods"), End::Silent);
    sleep(QUIET);
    let control_plane = rig.control_plane();
    control_plane
        .apply(&pod_that_needs_another_driver())
        .unwrap();
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    rig.expect_gate("False", "DriversMissing", &["pod shop/late"]);
    assert_eq!(rig.openings(), 0);
    let log = rig.log();
    let told = "watch interrupted: it missed changes that a second watch received";
    assert!(log.contains(told), "{log}");
    let drivers = ["disk.csi.azure.com", "file.csi.azure.com"];
    for node in ["win-1", "win-2"] {
        rig.sandbox.register(node, &drivers).unwrap();
    }
    rig.expect_open();
    running.assert_well();
}

#[test]
fn where_no_second_watch_answers_the_gate_stays_as_it_is() {
    let rig = Rig::new();
    let running = rig.start();
    sleep(QUIET);
    let hung = rig
        .proxy
        .order(On::to(Verb::Watch, "persistentvolumes"), Fault::Hang);
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    rig.eventually("the proof is missed", || {
        let log = rig.log();
        let mut lines = log.lines();
        lines.any(|line| line.contains("upgrades stay held") && line.contains("PersistentVolume"))
    });
    assert_eq!(rig.openings(), 0);
    hung.lift();
    rig.expect_open();
    assert!(hung.hits() > 0);
    running.assert_well();
}
