//! Edge cases of removals: stale data, lost statuses, other owners, and interruptions.

use super::removal::{all_removed, pod_with_pipe, where_needed, with_pipes};
use super::*;
use crate::node::{Absence, Hold, Look, Purpose};

/// Nodes that were managed for hours when this came to be wanted.
fn rig(names: &[&str], spec: &Value) -> Rig {
    let mut rig = Rig::with_labels(names);
    rig.act();
    rig.later(10_000);
    rig.want(spec);
    rig.act();
    rig
}

/// Asserts that the node is rid of csi-proxy after ten minutes more, and not before.
fn goes_after_ten_minutes(rig: &mut Rig) {
    for (seconds, is_due) in [(599, false), (1, true)] {
        rig.later(seconds);
        rig.act();
        let plan = rig.plan("win-1");
        assert_eq!(plan.removes_csi_proxy(), is_due, "{plan:?}");
    }
}

/// Released by management External, csi-proxy keeps running; then everything is to be removed.
#[test]
fn a_released_node_is_not_said_to_be_rid_of_csi_proxy() {
    let mut rig = rig(&["win-1"], &json!({"csiProxy": {"management": "External"}}));
    assert_eq!(rig.management("win-1"), "Releasing");
    rig.saw("win-1", Purpose::Release, Standing::Current);
    rig.act();
    assert_eq!(rig.management("win-1"), "External");
    rig.later(10_000);
    rig.want(&all_removed());
    rig.act();
    let (_, _, said) = rig.condition("win-1", "CSIProxyReady");
    assert!(
        !said.contains("csi-proxy and the agent are removed"),
        "{said}"
    );
}

/// A check on the node has found an unknown owner's csi-proxy.
#[test]
fn a_node_of_an_unknown_owner_is_not_said_to_be_rid_of_csi_proxy() {
    for want in [all_removed(), where_needed()] {
        let mut rig = rig(&["win-1"], &json!({}));
        let found = Observation {
            look: Look::Owner("unknown owner by service csi-proxy".to_owned()),
            ..Observation::default()
        };
        rig.observations.insert("win-1".to_owned(), found);
        rig.act();
        assert_eq!(rig.management("win-1"), "External");
        rig.later(10_000);
        rig.want(&want);
        rig.act();
        let by = &rig.cluster.node_statuses.get("win-1").unwrap().managed_by;
        assert!(by.starts_with("unknown owner"), "{want}: by {by}");
    }
}

/// The removal is planned and waits for a slot for an hour. Meanwhile, the data is no longer proven to be current.
#[test]
fn no_removal_begins_on_data_that_may_be_old() {
    let nodes = ["win-1", "win-2"];
    let mut rig = rig(&nodes, &where_needed());
    for node in nodes {
        assert!(matches!(rig.plan(node), NodePlan::Remove(..)));
        rig.saw(node, Purpose::Remove, Standing::Waiting);
    }
    assert_eq!(rig.slots(), ["win-1"]);
    rig.removed("win-1");
    rig.later(3_600);
    rig.is_fresh = false;
    rig.act();
    let slots = rig.slots();
    assert_eq!(slots, [""; 0], "nothing has begun, and nothing is proved");
}

/// The operator restarts during a removal of an unused csi-proxy.
#[test]
fn a_restart_in_the_middle_does_not_install_again() {
    let mut rig = rig(&["win-1"], &where_needed());
    assert_eq!(rig.management("win-1"), "Removing");
    rig.restart();
    rig.is_fresh = false;
    rig.pass();
    rig.pass();
    let plan = rig.plan("win-1");
    assert!(!matches!(plan, NodePlan::Reconcile(_)), "{plan:?}");
}

/// The status is lost, and the key was not pinned by the operator.
#[test]
fn a_lost_status_is_no_removal() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.pin(&[("win-1", "by-hand")]);
    rig.act();
    rig.want(&all_removed());
    rig.act();
    assert_eq!(rig.management("win-1"), "Removing");
    rig.cluster.node_statuses.delete(&"win-1".to_owned());
    rig.act();
    let progress = rig.progress();
    assert_ne!(progress.0, "Removed", "{progress:?}");
}

/// An ignored node still has the agent. A deleted node holds nobody up.
#[test]
fn an_ignored_node_is_not_said_to_be_rid_of_it_and_a_deleted_one_holds_nothing() {
    let nodes = ["win-1", "win-2", "win-3"];
    let mut rig = rig(&nodes, &json!({}));
    rig.change_node("win-2", |node| {
        node.left_out = Some(crate::index::LeftOut::Ignored);
    });
    rig.act();
    rig.cluster.node_statuses.delete(&"win-2".to_owned());
    rig.act();
    rig.later(1_000);
    rig.want(&all_removed());
    rig.act();
    rig.removed("win-1");
    rig.act();
    assert!(rig.act().left_keys.is_empty(), "win-3 may need its key");
    rig.cluster.nodes.delete(&"win-3".into());
    rig.cluster.node_statuses.delete(&"win-3".to_owned());
    let todo = rig.act();
    assert_eq!(todo.left_keys, ["win-1", "win-3"].map(str::to_owned).into());
    rig.change_node("win-2", |node| node.left_out = None);
    rig.act();
    let plan = rig.plan("win-2");
    let is_absent = matches!(plan, NodePlan::Absent(_));
    assert!(!is_absent, "its agent is still there: {plan:?}");
}

/// After the removal, a driver that needs csi-proxy is deployed.
#[test]
fn a_node_that_needs_what_was_removed_is_not_ready() {
    let mut rig = rig(&["win-1"], &all_removed());
    rig.removed("win-1");
    rig.act();
    assert_eq!(rig.management("win-1"), "Removed");
    rig.put(&with_pipes());
    rig.act();
    assert_eq!(rig.condition("win-1", "CSIProxyUsed").0, "True");
    let ready = rig.condition("win-1", "Ready");
    assert_eq!(ready.0, "False", "{ready:?}");
}

/// A node that waits for its pods is not connected to, so it must not hold the slots of all others.
#[test]
fn a_node_that_was_cut_off_in_its_update_and_waits_does_not_hold_the_others() {
    let mut rig = rig(&["win-1", "win-2"], &json!({}));
    let slots = BTreeSet::from(["win-1".to_owned()]);
    rig.slots.decide(|_| (slots, ()));
    // The removal is requested during an update, which interrupts the work.
    rig.slots.take("win-1").unwrap().begin();
    rig.put(&pod_with_pipe("csi-proxy-disk-v1"));
    rig.want(&all_removed());
    rig.act();
    let waits = matches!(rig.plan("win-1"), NodePlan::RemovalWaits(Hold::Used(_)));
    let goes = matches!(rig.plan("win-2"), NodePlan::Remove(Absence::Removed, Ok(_)));
    assert!(waits && goes, "{:?}", rig.last.nodes);
    rig.saw("win-2", Purpose::Remove, Standing::Waiting);
    for _ in 0..3 {
        rig.later(86_400);
        rig.act();
    }
    let slots = rig.slots();
    assert_eq!(slots, ["win-2"], "{:?}", rig.last.judged.in_progress);
}

/// WMCO has taken over a node that was ours; then everything of ours is to be removed.
#[test]
fn a_node_that_wmco_has_taken_over_is_released_and_not_robbed() {
    let mut rig = rig(&["win-1"], &json!({}));
    rig.belongs_to("win-1", Platform::WMCO);
    rig.want(&all_removed());
    rig.act();
    let plan = rig.plan("win-1");
    assert!(!matches!(plan, NodePlan::Remove(..)), "{plan:?}");
}

/// csi-proxy is used briefly, between two writes of the status.
#[test]
fn ten_minutes_begin_with_the_last_use_also_where_nothing_was_written() {
    let mut rig = rig(&["win-1"], &json!({}));
    rig.want(&json!({"csiProxy": {"install": "WhereNeeded"}, "rollout": {"paused": true}}));
    rig.put(&with_pipes());
    for gone in [false, true] {
        if gone {
            rig.later(1);
            rig.delete_driver();
        }
        rig.pass();
        let plan = rig.plan("win-1");
        assert!(
            matches!(plan, NodePlan::Reconcile(Ok(_))),
            "{gone}: {plan:?}"
        );
    }
}

/// The clock of the process that led before was fast, or slow.
#[test]
fn ten_minutes_count_from_what_this_process_has_seen_whatever_a_status_says() {
    // It wrote, by its clock, that nothing has used csi-proxy for hours.
    let mut rig = rig(&["win-1"], &json!({}));
    rig.restart();
    rig.want(&where_needed());
    rig.act();
    goes_after_ten_minutes(&mut rig);
}

/// The clock of the day jumps.
#[test]
fn the_clock_of_the_day_does_not_shorten_the_ten_minutes() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.put(&with_pipes());
    rig.want(&all_removed());
    rig.act();
    rig.delete_driver();
    rig.act();
    for now in [100_000_000, 0] {
        rig.now = now;
        rig.act();
        let waits = matches!(rig.plan("win-1"), NodePlan::RemovalWaits(Hold::Until(_)));
        assert!(waits, "{:?}", rig.plan("win-1"));
    }
    goes_after_ten_minutes(&mut rig);
}

/// While something cannot be read, a use may come and go.
#[test]
fn ten_minutes_begin_anew_once_everything_can_be_read_again() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act();
    rig.later(10_000);
    rig.reject_settings();
    rig.act();
    assert!(!rig.last.is_complete);
    rig.want(&where_needed());
    rig.act();
    goes_after_ten_minutes(&mut rig);
}
