//! Which nodes get slots.

use super::*;

/// Three nodes that were reconciled, on which csi-proxy works and is not the one that is wanted.
fn three_that_wait() -> Rig {
    let mut rig = Rig::settled();
    for name in ["win-2", "win-3"] {
        rig.add_node(name, "windows");
    }
    rig.pass(&[]);
    for name in ["win-1", "win-2", "win-3"] {
        rig.see(name, Standing::Waiting);
    }
    rig
}

#[test]
fn nodes_on_which_csi_proxy_works_are_updated_one_after_the_other() {
    let mut rig = three_that_wait();
    assert_eq!(rig.slots(&["win-1", "win-2", "win-3"]), ["win-1"]);
    assert!(rig.pass(&["win-1"]).assign, "the slot is to be handed over");
    let slot = rig.slots.take("win-1").unwrap();
    assert!(rig.slots.take("win-2").is_none());
    assert_eq!(rig.slots(&["win-2"]), ["win-1"]);
    drop(slot);
    rig.see("win-1", Standing::Current);
    assert_eq!(rig.slots(&["win-1"]), ["win-2"]);
    rig.decisions.is_unassigned = false;
    rig.want(&json!({"rollout": {"maxUnavailable": "60%"}}));
    assert_eq!(rig.slots(&[]), ["win-2", "win-3"]);
}

#[test]
fn after_a_start_no_node_gets_a_slot_before_all_were_reconciled() {
    let mut rig = three_that_wait();
    rig.observations.remove("win-3");
    let pass = |rig: &mut Rig, settling| {
        rig.settling = settling;
        rig.pass(&["win-1"]);
        rig.decisions.rollout.slots.len()
    };
    assert_eq!(pass(&mut rig, true), 0);
    assert_eq!(pass(&mut rig, false), 1, "it is not waited for for ever");
}

#[test]
fn a_slot_that_was_cut_short_keeps_its_place_until_the_node_was_reconciled() {
    let mut rig = three_that_wait();
    assert_eq!(rig.slots(&["win-1", "win-2", "win-3"]), ["win-1"]);
    // Something else is wanted, so that the reconcile is cut; nobody knows what the agent is at.
    rig.slots.take("win-1").unwrap().begin();
    rig.want(&json!({"rollout": {"resume": "again"}}));
    rig.pass(&[]);
    rig.observations.remove("win-1");
    for name in ["win-2", "win-3"] {
        rig.see(name, Standing::Waiting);
    }
    assert!(rig.slots(&["win-2", "win-3"]).is_empty());
    rig.slots.mark_settled("win-1");
    rig.see("win-1", Standing::Waiting);
    assert_eq!(rig.slots(&["win-1"]).len(), 1);
}

#[test]
fn a_failed_update_stays_one_while_its_node_is_out_of_reach() {
    let mut rig = three_that_wait();
    rig.see("win-1", Standing::Failed);
    let todo = rig.pass(&["win-1", "win-2", "win-3"]);
    let failed = todo.nodes.iter().find(|node| node.name == "win-1").unwrap();
    rig.write("win-1", failed.status.clone());
    rig.pass(&[]);
    rig.see("win-1", Standing::Unreachable);
    assert!(rig.slots(&["win-1"]).is_empty());
    rig.see("win-1", Standing::Current);
    assert_eq!(rig.slots(&["win-1"]), ["win-2"]);
}

#[test]
fn what_a_process_before_this_one_may_have_left_in_the_middle_is_known_until_it_was_reconciled() {
    let mut rig = Rig::settled();
    rig.settling = true;
    let reported = |version: &str| WindowsNodeStorageStatus {
        csi_proxy: Some(crate::api::CsiProxyStatus {
            sha256: Some(version.to_owned()),
            ..crate::api::CsiProxyStatus::default()
        }),
        ..WindowsNodeStorageStatus::default()
    };
    let current = Payload::of_test().csi_proxy.sha256;
    rig.add_node("win-2", "windows");
    rig.add_node("win-3", "windows");
    rig.write("win-1", reported("another"));
    rig.write("win-2", reported(&current));
    rig.pass(&[]);
    let maybe =
        |rig: &Rig| -> Vec<String> { rig.decisions.maybe_in_progress.iter().cloned().collect() };
    assert_eq!(maybe(&rig), ["win-1"], "nothing is known of win-3");
    rig.see("win-1", Standing::Unreachable);
    rig.pass(&["win-1"]);
    assert_eq!(maybe(&rig), ["win-1"]);
    rig.see("win-1", Standing::Waiting);
    rig.pass(&["win-1"]);
    assert!(maybe(&rig).is_empty(), "it was looked at");
    rig.see("win-1", Standing::Unreachable);
    rig.settling = false;
    rig.pass(&["win-1"]);
    assert!(maybe(&rig).is_empty(), "it is not assumed for ever");
}
