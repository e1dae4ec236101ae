//! An API server that accepts requests but never answers.

use std::time::{Duration, Instant};

use testbed::api_proxy::{End, Fault, On, Verb};

use super::Rig;

#[test]
fn a_write_of_the_gate_without_an_answer_is_tried_again_whether_it_was_carried_out_or_not() {
    let rig = Rig::new();
    let running = rig.start();
    let write = || On::to(Verb::Patch, "operatorconditions");
    let lost = rig.proxy.order_times(1, write(), Fault::Hang);
    rig.register("win-2", true);
    rig.expect_missing("win-1");
    assert_eq!(lost.hits(), 1);

    // The write succeeds but its answer is lost: the operator has to close a gate that it does not know to be open.
    let carried_out = rig.proxy.order_times(1, write(), Fault::HangAfter);
    rig.register("win-1", true);
    rig.expect_open();
    assert_eq!(carried_out.hits(), 1);
    rig.register("win-1", false);
    rig.expect_missing("win-1");
    assert_eq!(rig.openings(), 1);
    running.assert_well();
}

#[test]
fn lists_and_watches_that_never_answer_are_given_up_and_nothing_opens_meanwhile() {
    let rig = Rig::new();
    let running = rig.start();
    // One list is never answered, one is too slow to ever finish, and a watch falls silent.
    let hung = rig
        .proxy
        .order_times(1, On::to(Verb::List, "persistentvolumes"), Fault::Hang);
    let slow = rig.proxy.order_times(
        1,
        On::to(Verb::List, "pods"),
        Fault::Slow(1, Duration::from_millis(100)),
    );
    rig.proxy.end_watches(Some("persistentvolumes"), End::Gone);
    rig.proxy.end_watches(Some("pods"), End::Gone);
    rig.proxy.end_watches(Some("csinodes"), End::Silent);
    rig.register("win-2", true);
    rig.expect_missing("win-1");
    rig.eventually("the lists are given up", || {
        rig.proxy.count(Verb::List, "pods") >= 3
            && rig.proxy.count(Verb::List, "persistentvolumes") >= 3
    });
    assert_eq!((hung.hits(), slow.hits()), (1, 1));

    // Then everything hangs.
    let all = rig.proxy.order(On::any(), Fault::Hang);
    rig.proxy.end_watches(None, End::Silent);
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    let told = rig.log().len();
    rig.eventually("every watch is found out", || {
        let log = rig.log();
        log[told..].matches("watch interrupted: no answer").count() > 10
    });
    assert_eq!(rig.openings(), 0);
    all.lift();
    rig.expect_open();
    running.assert_well();
}

#[test]
fn events_that_are_never_answered_hold_up_neither_the_gate_nor_statuses() {
    let rig = Rig::new();
    let running = rig.start();
    rig.register("win-1", true);
    rig.register("win-2", true);
    rig.expect_open();
    let events = rig.proxy.order(On::to(Verb::Create, "events"), Fault::Hang);
    // These conditions cause events before the one that counts.
    let wrong = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: windows-storage-operator}\ndata: DATA\n";
    let wrong = [
        ("windows-services", "{services: '['}"),
        ("windows-instances", "{10.0.0.1: 'username'}"),
        ("windows-storage-host-keys", "{known_hosts: 'x'}"),
    ]
    .map(|(name, data)| wrong.replace("NAME", name).replace("DATA", data));
    let control_plane = rig.control_plane();
    control_plane.apply(&wrong.join("---\n")).unwrap();
    rig.eventually("an event is on its way", || events.hits() > 0);
    rig.register("win-2", false);
    let begin = Instant::now();
    rig.expect_missing("win-2");
    rig.expect_registered("win-2", false);
    // An event times out after 15 s, so waiting for even one would exceed the limit.
    assert!(
        begin.elapsed() < Duration::from_secs(12),
        "{:?}",
        begin.elapsed()
    );
    let held_up = events.hits();
    events.lift();
    rig.expect_event("Node/win-2", "DriversMissing");
    assert!(held_up > 0);
    running.assert_well();
}
