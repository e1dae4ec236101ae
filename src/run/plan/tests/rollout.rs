//! Tests of which nodes get slots.

use super::*;

/// Three reconciled nodes, on which csi-proxy works but is not up to date.
fn three_that_wait() -> Rig {
    let mut rig = Rig::settled();
    for name in ["win-2", "win-3"] {
        rig.add_node(name, "windows");
    }
    rig.pass();
    for name in ["win-1", "win-2", "win-3"] {
        rig.see(name, Standing::Waiting);
    }
    rig
}

#[test]
fn nodes_on_which_csi_proxy_works_are_updated_one_after_the_other() {
    let mut rig = three_that_wait();
    assert_eq!(rig.slots(), ["win-1"]);
    let slot = rig.slots.take("win-1").unwrap();
    assert!(rig.slots.take("win-2").is_none());
    assert_eq!(rig.slots(), ["win-1"]);
    drop(slot);
    rig.see("win-1", Standing::Current);
    assert_eq!(rig.slots(), ["win-2"]);
    rig.want(&json!({"rollout": {"maxUnavailable": "60%"}}));
    assert_eq!(rig.slots(), ["win-2", "win-3"]);
}

#[test]
fn a_node_keeps_its_slot_when_another_turns_up() {
    let mut rig = three_that_wait();
    for name in ["win-1", "win-2"] {
        rig.observations.remove(name);
    }
    assert_eq!(rig.slots(), ["win-3"]);
    rig.see("win-1", Standing::Waiting);
    assert_eq!(rig.slots(), ["win-3"]);
}

#[test]
fn work_begins_in_a_slot_once_the_stored_status_names_the_node_and_the_gate_knows_of_it() {
    let mut rig = three_that_wait();
    let node = BTreeSet::from(["win-1".to_owned()]);
    let allowed = |rig: &mut Rig, gate_knows: bool| {
        let knows = node.iter().filter(|_| gate_knows).cloned().collect();
        rig.gate = Some(GateReport {
            knows,
            ..GateReport::default()
        });
        assert_eq!(rig.slots(), ["win-1"]);
        rig.last.allowed == node
    };
    assert!(!allowed(&mut rig, true), "the next process would not know");
    let (_, status) = rig.last.settings.clone().unwrap();
    rig.write_settings(status);
    assert!(!allowed(&mut rig, false), "the gate could be opening");
    assert!(allowed(&mut rig, true));
    rig.before = None;
    assert!(
        !allowed(&mut rig, true),
        "the gate may not have read yet that it has a slot again"
    );
    assert!(allowed(&mut rig, true));
}

#[test]
fn after_a_start_no_node_gets_a_slot_before_all_were_reconciled() {
    let mut rig = three_that_wait();
    rig.observations.remove("win-3");
    let pass = |rig: &mut Rig, settling| {
        rig.settling = settling;
        rig.pass();
        rig.last.rollout.slots.len()
    };
    assert_eq!(pass(&mut rig, true), 0);
    assert_eq!(pass(&mut rig, false), 1, "it is not waited for for ever");
}

#[test]
fn a_slot_that_was_cut_short_keeps_its_place_until_the_node_was_reconciled() {
    let mut rig = three_that_wait();
    assert_eq!(rig.slots(), ["win-1"]);
    // The settings change, which interrupts the reconcile; it is unknown what the agent is doing.
    rig.slots.take("win-1").unwrap().begin();
    rig.want(&json!({"rollout": {"resume": "again"}}));
    rig.pass();
    rig.observations.remove("win-1");
    for name in ["win-2", "win-3"] {
        rig.see(name, Standing::Waiting);
    }
    assert!(rig.slots().is_empty());
    rig.slots.mark_settled("win-1");
    rig.see("win-1", Standing::Waiting);
    assert_eq!(rig.slots().len(), 1);
}

#[test]
fn a_failed_update_stays_one_while_its_node_is_out_of_reach() {
    let mut rig = three_that_wait();
    rig.see("win-1", Standing::Failed);
    let todo = rig.pass();
    rig.write_statuses(&todo);
    rig.pass();
    rig.see("win-1", Standing::Unreachable);
    assert!(rig.slots().is_empty());
    rig.see("win-1", Standing::Current);
    assert_eq!(rig.slots(), ["win-2"]);
}

#[test]
fn a_rollout_that_has_stopped_stays_stopped_under_another_operator_until_it_is_resumed() {
    let mut rig = three_that_wait();
    rig.see("win-1", Standing::Failed);
    let todo = rig.pass();
    rig.write_statuses(&todo);

    // Another process, with another agent in its payload.
    rig.payload.agent.sha256 = "another".to_owned();
    rig.observations.clear();
    rig.add_configuration();
    rig.pass();
    for name in ["win-1", "win-2", "win-3"] {
        rig.see(name, Standing::Waiting);
    }
    let all = ["win-1", "win-2", "win-3"];
    let todo = rig.pass();
    let written = todo.statuses.by_name.get("win-1");
    assert!(written.is_none_or(|node| node.status.failed_update.is_some()));
    assert_eq!(rig.last.rollout.all.failed, 1);
    assert!(rig.slots().is_empty());

    rig.want(&json!({"rollout": {"resume": "go on"}}));
    rig.pass();
    for name in all {
        rig.see(name, Standing::Waiting);
    }
    assert_eq!(rig.slots(), ["win-1"]);
}

/// A process that has just read everything: these nodes, and what the process before it had in hand.
fn begins_with(nodes: &[&str], in_hand: &[&str]) -> Rig {
    let mut rig = Rig::new();
    for name in nodes {
        rig.add_node(name, "windows");
    }
    rig.read_verdict_kinds();
    rig.read_configuration();
    let rollout = json!({"rollout": {"inProgress": in_hand}});
    rig.write_settings(serde_json::from_value(rollout).unwrap());
    rig
}

#[test]
fn what_a_process_before_this_one_had_in_hand_holds_the_rollout_until_it_was_looked_at() {
    let mut rig = begins_with(&["win-1", "win-2", "win-3"], &["gone", "win-2"]);
    rig.pass();
    rig.see("win-2", Standing::Unreachable);
    for name in ["win-1", "win-3"] {
        rig.see(name, Standing::Waiting);
    }
    // This process started long ago.
    assert_eq!(in_progress(&rig.pass()), ["win-2"]);
    assert!(rig.slots().is_empty());
    rig.slots.mark_settled("win-2");
    rig.see("win-2", Standing::Waiting);
    assert_eq!(rig.slots(), ["win-2"], "it comes first");
    rig.see("win-2", Standing::Current);
    assert_eq!(in_progress(&rig.pass()), ["win-1"]);
}

#[test]
fn what_an_earlier_process_had_in_hand_on_an_external_node_is_over() {
    let mut rig = begins_with(&["win-1"], &["win-1"]);
    rig.want_again(&json!({"csiProxy": {"management": "External"}}));
    rig.pass();
    assert!(rig.last.judged.in_progress.is_empty());
    // Nor does work of this process on the external node count as in progress.
    rig.slots.restore(["win-1".to_owned()]);
    rig.pass();
    assert!(rig.last.judged.in_progress.is_empty());
}

#[test]
fn what_is_being_changed_is_written_also_while_something_cannot_be_read() {
    let mut rig = three_that_wait();
    assert_eq!(rig.slots(), ["win-1"]);
    rig.cluster.pods = crate::index::Table::default();
    rig.cluster.pods.fail("forbidden".to_owned());
    assert_eq!(in_progress(&rig.pass()), ["win-1"]);
}

/// Returns the nodes that the new status lists as being changed.
fn in_progress(todo: &Plan) -> Vec<String> {
    let (_, status) = todo.settings.as_ref().unwrap();
    status.rollout.clone().unwrap().in_progress
}

#[test]
fn another_version_than_the_one_that_is_wanted_is_brought_to_no_node() {
    let mut rig = three_that_wait();
    let version = rig.payload.csi_proxy.version.clone();
    for (pin, is_brought) in [
        (version.as_str(), true),
        (version.trim_start_matches('v'), true),
        ("v1.2.99", false),
    ] {
        rig.want(&json!({"csiProxy": {"version": pin}}));
        let todo = rig.pass();
        let NodePlan::Reconcile(Ok(target)) = &rig.last.nodes["win-1"] else {
            panic!("it is looked at all the same");
        };
        let reason = target.desired.as_ref().err().map(|error| error.reason);
        let expected = (!is_brought).then_some(crate::node::Reason::OtherVersion);
        assert_eq!(reason, expected, "{pin}");
        let (reason, message) = super::rig::said(&todo, "RolloutProgressing").unwrap();
        assert_eq!(reason == "Pinned", !is_brought, "{pin}: {message}");
    }
}

#[test]
fn a_pool_with_another_pin_is_updated_before_the_others() {
    let mut rig = Rig::settled();
    rig.add_node("win-2", "windows");
    rig.label("win-2", "pool", "canary");
    let version = rig.payload.csi_proxy.version.clone();
    let pool =
        |pin: &str| json!([{"name": "canary", "nodeSelector": {"pool": "canary"}, "version": pin}]);
    rig.want(&json!({"csiProxy": {"version": "v1.2.99"}, "nodePools": pool(&version)}));
    rig.pass();
    rig.see("win-2", Standing::Waiting);
    assert_eq!(rig.slots(), ["win-2"]);
    rig.see("win-2", Standing::Current);
    let (reason, message) = super::rig::said(&rig.pass(), "RolloutProgressing").unwrap();
    assert_eq!(reason, "Pinned");
    assert!(
        message.contains("1 of 2 managed node(s); 1 keep(s) another version"),
        "{message}"
    );

    // The others follow.
    rig.want(&json!({"nodePools": pool(&version)}));
    rig.pass();
    rig.see("win-1", Standing::Waiting);
    assert_eq!(rig.slots(), ["win-1"]);
}
