//! Tests of the steps and maintenance windows of a rollout.

use super::*;
use crate::api::StrategyStatus;

/// Three waiting nodes; `win-2` is the canary.
fn canary(rollout: &Value) -> Rig {
    let mut rig = Rig::settled();
    rig.now = 1_000_000_000;
    for name in ["win-2", "win-3"] {
        rig.add_node(name, "windows");
    }
    rig.label("win-2", "pool", "canary");
    let pool = json!({"name": "canaries", "nodeSelector": {"pool": "canary"}});
    rig.want(&json!({"rollout": rollout, "nodePools": [pool]}));
    rig.pass(&[]);
    for name in ALL {
        rig.see(name, Standing::Waiting);
    }
    rig
}

const ALL: [&str; 3] = ["win-1", "win-2", "win-3"];

fn soaks() -> Value {
    json!({"maxUnavailable": 3, "strategy": {"steps": [{"pool": "canaries", "soakSeconds": 600}]}})
}

#[test]
fn other_steps_begin_with_the_first_and_another_soak_time_does_not() {
    let steps = |soak: u32, first: &str| {
        json!({"maxUnavailable": 3, "strategy": {"steps": [
            {"pool": first, "soakSeconds": soak}, {"nodes": 3},
        ]}})
    };
    let mut rig = canary(&steps(600, "canaries"));
    rig.see("win-2", Standing::Current);
    rig.pass(&ALL);
    rig.now += 60;
    rig.see("win-2", Standing::Current);
    let pools = rig.decisions.spec.node_pools.clone();
    rig.want(&json!({"rollout": steps(30, "canaries"), "nodePools": pools}));
    assert_eq!(rig.slots(&["win-2"]), ["win-1", "win-3"]);
    rig.want(&json!({"rollout": steps(30, "others"), "nodePools": pools}));
    assert!(rig.slots(&[]).is_empty());
}

/// Returns what the new status says about the rollout: reason, message and steps.
fn said(todo: &Todo) -> (String, String, Option<StrategyStatus>) {
    let (_, status) = todo.settings.as_ref().unwrap();
    let (reason, message) = super::rig::said(todo, "RolloutProgressing").unwrap();
    let steps = status.rollout.as_ref().unwrap().strategy.clone();
    (reason, message, steps)
}

#[test]
fn nodes_wait_until_the_canary_has_answered_for_its_time() {
    let mut rig = canary(&soaks());
    let todo = rig.pass(&ALL);
    assert_eq!(rig.slots(&[]), ["win-2"]);
    let (reason, message, _) = said(&todo);
    assert_eq!(reason, "Updating");
    assert!(
        message.contains("step 1 of 1 of spec.rollout.strategy is in progress"),
        "{message}"
    );

    rig.see("win-2", Standing::Current);
    let todo = rig.pass(&ALL);
    let (reason, message, steps) = said(&todo);
    assert_eq!(reason, "Soaking");
    assert!(message.contains("until 2001-09-09T01:56:40Z"), "{message}");
    assert_eq!(steps.unwrap().completed_steps, 0);
    let at = Timestamp::from_second(rig.now).unwrap();
    assert_eq!(
        rig.decisions.rollout_due_in(at),
        Some(Duration::from_secs(600))
    );

    // The soak time is over, but the canary was not observed meanwhile, so it is observed first.
    rig.now += 600;
    assert!(rig.slots(&[]).is_empty());
    rig.see("win-2", Standing::Current);
    assert_eq!(rig.slots(&["win-2"]), ["win-1", "win-3"]);
}

#[test]
fn a_canary_that_fails_in_its_time_holds_all_others() {
    // Whatever `maxFailures` allows.
    let mut more = soaks();
    more["maxFailures"] = 2.into();
    let mut rig = canary(&more);
    rig.see("win-2", Standing::Failed);
    let (reason, message, _) = said(&rig.pass(&ALL));
    assert_eq!(reason, "Stopped");
    assert!(
        message.contains("it failed and was rolled back: win-2"),
        "{message}"
    );
}

#[test]
fn a_step_without_a_node_to_show_anything_says_so() {
    for step in [
        json!({"pool": "canaries"}),
        json!({"pool": "nobody"}),
        json!({"nodeSelector": {"no": "node"}}),
        // The API server refuses this from 1.25 on.
        json!({}),
    ] {
        let mut rig = canary(&json!({"strategy": {"steps": [step]}}));
        rig.see("win-2", Standing::Unreachable);
        let todo = rig.pass(&ALL);
        assert!(rig.decisions.rollout.slots.is_empty(), "{step}");
        let (reason, message, _) = said(&todo);
        assert_eq!(reason, "StepBlocked", "{step}");
        assert!(
            message.contains("has no updated node that this operator manages and can reach"),
            "{message}"
        );
    }
}

#[test]
fn a_process_goes_on_where_the_one_before_it_was() {
    let mut rig = canary(&soaks());
    rig.see("win-2", Standing::Current);
    let todo = rig.pass(&ALL);
    let (_, status) = todo.settings.unwrap();

    let mut next = canary(&soaks());
    next.write_settings(status);
    next.want_again(&json!({"rollout": soaks(), "nodePools": next.decisions.spec.node_pools}));
    next.decisions.is_restored = false;
    next.now += 599;
    next.see("win-2", Standing::Current);
    assert!(next.slots(&ALL).is_empty());
    next.now += 1;
    next.see("win-2", Standing::Current);
    assert_eq!(next.slots(&ALL), ["win-1", "win-3"]);

    // Another revision is rolled out: the canary comes first again.
    next.decisions.payload.agent.sha256 = "another".to_owned();
    next.add_configuration();
    next.pass(&[]);
    for name in ALL {
        next.see(name, Standing::Waiting);
    }
    assert_eq!(next.slots(&ALL), ["win-2"]);
}

#[test]
fn nothing_begins_before_a_next_window_time_or_after_it_has_closed() {
    // The current time is 01:46:40.
    let windows = json!([{"schedule": "50 1 * * *", "durationMinutes": 5}]);
    let mut rig = canary(&json!({"windows": windows}));
    let todo = rig.pass(&ALL);
    assert!(rig.decisions.rollout.slots.is_empty());
    let (reason, message, _) = said(&todo);
    assert_eq!(reason, "WindowClosed");
    assert!(
        message.contains("the next one opens at 2001-09-09T01:50:00Z"),
        "{message}"
    );
    let (_, status) = todo.settings.unwrap();
    assert!(status.rollout.unwrap().next_window_time.is_some());
    let at = Timestamp::from_second(rig.now).unwrap();
    assert_eq!(
        rig.decisions.rollout_due_in(at),
        Some(Duration::from_secs(200))
    );

    // Nothing else has changed.
    rig.now += 200;
    assert_eq!(rig.slots(&[]), ["win-1"]);
    let slot = rig.slots.take("win-1").unwrap();
    rig.now += 300;
    assert_eq!(rig.slots(&[]), ["win-1"], "what has begun ends");
    drop(slot);
    rig.see("win-1", Standing::Current);
    assert!(rig.slots(&["win-1"]).is_empty());

    for name in ALL {
        rig.see(name, Standing::Current);
    }
    let (reason, _, _) = said(&rig.pass(&ALL));
    assert_eq!(reason, "Complete", "no window is needed any more");
}

#[test]
fn a_window_that_never_opens_is_told() {
    let windows = json!([{"schedule": "0 0 30 2 *", "durationMinutes": 5}]);
    let mut rig = canary(&json!({"windows": windows}));
    let (reason, message, _) = said(&rig.pass(&ALL));
    assert_eq!(reason, "WindowInvalid");
    assert!(
        message.contains("spec.rollout.windows[0] never opens"),
        "{message}"
    );
    // It is a mistake before there is anything to update, too.
    for name in ALL {
        rig.see(name, Standing::Current);
    }
    let (reason, _, _) = said(&rig.pass(&ALL));
    assert_eq!(reason, "WindowInvalid");
}

#[test]
fn another_version_than_the_one_that_is_wanted_is_brought_to_no_node() {
    let mut rig = canary(&json!({}));
    let version = rig.decisions.payload.csi_proxy.version.clone();
    for (pin, is_brought) in [
        (version.as_str(), true),
        (version.trim_start_matches('v'), true),
        ("v1.2.99", false),
    ] {
        rig.want(&json!({"csiProxy": {"version": pin}}));
        let todo = rig.pass(&[]);
        let NodePlan::Reconcile(target) = &rig.decisions.plans["win-1"] else {
            panic!("it is looked at all the same");
        };
        let reason = target.desired.as_ref().err().map(|error| error.reason);
        let expected = (!is_brought).then_some(crate::node::Reason::OtherVersion);
        assert_eq!(reason, expected, "{pin}");
        let (reason, message, _) = said(&todo);
        assert_eq!(reason == "Pinned", !is_brought, "{pin}: {message}");
    }
}

#[test]
fn what_nodes_went_through_stays_known_while_none_is_managed() {
    let mut rig = canary(&soaks());
    rig.see("win-2", Standing::Current);
    let todo = rig.pass(&ALL);
    let (_, before) = todo.settings.unwrap();
    rig.write_settings(before.clone());
    // All are deleted; they may come back.
    rig.add_node("linux-1", "linux");
    for node in ALL {
        rig.cluster.nodes.delete(&node.into());
    }
    let todo = rig.pass(&[]);
    let (_, after) = todo.settings.unwrap();
    let (before, after) = (before.rollout.unwrap(), after.rollout.unwrap());
    assert_eq!(
        (after.history, after.strategy),
        (before.history, before.strategy)
    );
    assert_eq!((after.nodes, after.in_progress.len()), (0, 0));
}

#[test]
fn a_pool_that_is_deleted_or_left_in_the_middle_of_its_step_lets_no_other_begin() {
    let mut rig = canary(&soaks());
    assert_eq!(rig.slots(&ALL), ["win-2"]);
    let slot = rig.slots.take("win-2").unwrap();
    // Its labels now belong to another pool: work that has begun finishes.
    rig.change_node("win-2", |node| node.labels = [].into());
    assert_eq!(rig.slots(&[]), ["win-2"]);
    rig.want(&json!({"rollout": soaks()}));
    assert_eq!(rig.slots(&[]), ["win-2"]);
    drop(slot);
    rig.see("win-2", Standing::Current);
    let todo = rig.pass(&["win-2"]);
    assert!(rig.decisions.rollout.slots.is_empty());
    assert_eq!(said(&todo).0, "StepBlocked");
}
