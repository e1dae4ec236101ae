//! Watches that end, and watches that are dead but stay open.

use serde_json::json;
use testbed::api_proxy::{End, Fault, On, Verb};
use testbed::objects::OPERATOR_CONDITION;

use super::{Rig, pod_that_needs_another_driver};
use crate::cluster::harness::find_condition;

#[test]
fn a_watch_whose_connection_is_dead_but_open_does_not_open_the_gate() {
    let rig = Rig::new();
    let running = rig.start();
    rig.proxy.end_watches(Some("pods"), End::Silent);
    let control_plane = rig.control_plane();
    control_plane
        .apply(&pod_that_needs_another_driver())
        .unwrap();
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    rig.expect_gate("False", "DriversMissing", &["pod shop/late"]);
    assert_eq!(rig.openings(), 0);
    let drivers = ["disk.csi.azure.com", "file.csi.azure.com"];
    for node in ["win-1", "win-2"] {
        rig.sandbox.register(node, &drivers).unwrap();
    }
    rig.expect_open();
    running.assert_well();
}

#[test]
fn what_another_client_has_cleared_is_not_written_again_on_a_dead_watch() {
    let rig = Rig::new();
    let running = rig.start();
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    rig.expect_open();
    // Which had to be written once.
    let allowed = || {
        let requests = rig.requests();
        let answers = requests.iter().filter(|it| it.verb == "patch");
        let conditions = answers.map(|it| &it.answer["spec"]["conditions"]);
        conditions
            .filter(|it| find_condition(it, "Upgradeable").0 == "True")
            .count()
    };
    rig.eventually("the log has come to now", || allowed() == 1);
    rig.proxy.end_watches(Some("pods"), End::Silent);
    let control_plane = rig.control_plane();
    control_plane
        .apply(&pod_that_needs_another_driver())
        .unwrap();
    let object = format!("operatorcondition/{OPERATOR_CONDITION}");
    rig.patch(&object, &json!({"spec": {"conditions": []}}));
    rig.expect_gate("False", "DriversMissing", &["pod shop/late"]);
    assert_eq!(allowed(), 1);
    running.assert_well();
}

#[test]
fn while_a_list_does_not_end_the_gate_stays_as_it_is() {
    let rig = Rig::new();
    let running = rig.start();
    let hung = rig
        .proxy
        .order(On::to(Verb::List, "persistentvolumes"), Fault::Hang);
    for node in ["win-1", "win-2"] {
        rig.register(node, true);
    }
    rig.eventually("the list is wanted and missed", || {
        let log = rig.log();
        let mut lines = log.lines();
        lines.any(|line| line.contains("kind=PersistentVolume") && line.contains("no answer"))
    });
    assert!(rig.proxy.count(Verb::List, "pods") >= 2, "listed anew");
    assert_eq!(rig.openings(), 0);
    hung.lift();
    rig.expect_open();
    running.assert_well();
}

#[test]
fn a_failure_after_which_nothing_arrives_lapses_after_a_minute() {
    let rig = Rig::new();
    let running = rig.start();
    let refused =
        rig.proxy
            .order_times(1, On::to(Verb::Watch, "runtimeclasses"), Fault::refuse(500));
    rig.proxy.end_watches(Some("runtimeclasses"), End::Closed);
    // A watch that is resumed says nothing as long as nothing changes.
    let is_unread = || {
        rig.readyz()
            .contains("cannot be read at present: RuntimeClass")
    };
    rig.eventually("the kind counts as unread", is_unread);
    rig.eventually("the kind counts as read again", || !is_unread());
    assert_eq!(refused.hits(), 1);
    rig.expect_missing("win-1, win-2");
    running.assert_well();
}
