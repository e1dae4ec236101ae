//! An API server that accepts requests but never answers.

use std::time::Duration;

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
