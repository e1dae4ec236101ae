//! Watches that end, and watches that are dead but stay open.

use std::collections::BTreeSet;
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

#[test]
fn a_watch_that_ends_is_resumed_without_a_list() {
    let rig = Rig::new();
    let running = rig.start();
    let paths = |verb| {
        let seen = rig.proxy.seen().into_iter();
        // Excludes requests in the workload's namespace, which look up the objects of events.
        let of_watch = |path: &str| !path.starts_with("/api/v1/namespaces/shop/");
        let seen = seen.filter(|seen| seen.call.verb == verb && of_watch(&seen.path));
        seen.map(|seen| seen.path.split('?').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    rig.eventually("every list has led to a watch", || {
        let [listed, watched] =
            [Verb::List, Verb::Watch].map(|verb| BTreeSet::from_iter(paths(verb)));
        listed == watched
    });
    let lists = paths(Verb::List);
    let mut is_registered = false;
    for end in [End::Closed, End::Cut] {
        let before = paths(Verb::Watch);
        let kinds = BTreeSet::from_iter(&before).len();
        rig.proxy.end_watches(None, end);
        is_registered = !is_registered;
        // A change that the operator does not see before its watch is back.
        rig.register("win-2", is_registered);
        rig.eventually("all watches are back", || {
            let back = paths(Verb::Watch).split_off(before.len());
            BTreeSet::from_iter(&back).len() == kinds
        });
        rig.expect_registered("win-2", is_registered);
    }
    // The same applies if the server is too busy for the watch.
    let busy = rig
        .proxy
        .order_times(2, On::to(Verb::Watch, "csinodes"), Fault::refuse(503));
    rig.proxy.end_watches(Some("csinodes"), End::Cut);
    rig.register("win-2", true);
    rig.expect_missing("win-1");
    assert_eq!(busy.hits(), 2);
    assert_eq!(paths(Verb::List), lists);
    rig.register("win-1", true);
    rig.expect_open();
    assert_eq!(paths(Verb::List), lists);
    running.assert_well();
}
