//! Nodes that a DaemonSet holds, and nodes that are released to another owner.

use super::*;
use crate::index::WorkloadKind;

/// A DaemonSet that runs csi-proxy on Windows nodes, in a tenant's namespace.
fn csi_proxy(tolerations: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "shop", "name": "csi-proxy"},
        "spec": {"template": {"spec": {
            "os": {"name": "windows"},
            "tolerations": tolerations,
            "containers": [{"name": "csi-proxy", "image": "example.org/csi-proxy:v1.1.3"}],
        }}},
    })
}

fn delete_csi_proxy(rig: &mut Rig) {
    let key = ObjectKey::new("shop", "csi-proxy");
    rig.cluster.owners[WorkloadKind::DaemonSet].delete(&key);
}

fn held_by(name: &str) -> NodePlan {
    NodePlan::Undecided(Awaited::DaemonSet(ObjectKey::new("shop", name)))
}

#[test]
fn a_tenants_daemon_set_holds_a_new_node_and_changes_no_other() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act();
    let before = rig.plan("win-1").clone();
    assert!(matches!(before, NodePlan::Reconcile(Ok(_))), "{before:?}");
    let status = rig.cluster.node_statuses.get("win-1").cloned();

    rig.put(&csi_proxy(&json!([])));
    // As a node is when it has just joined.
    rig.add_node("win-2", "windows");
    rig.taint("win-2", "node.kubernetes.io/not-ready");
    // A node that others have, as an earlier version thought.
    rig.add_node("win-3", "windows");
    let of_before = WindowsNodeStorageStatus {
        management: "External".to_owned(),
        managed_by: "DaemonSet shop/gone".to_owned(),
        ..WindowsNodeStorageStatus::default()
    };
    rig.write("win-3", of_before);
    rig.act();
    assert_eq!(*rig.plan("win-1"), before);
    assert_eq!(rig.cluster.node_statuses.get("win-1").cloned(), status);
    for node in ["win-2", "win-3"] {
        assert_eq!(*rig.plan(node), held_by("csi-proxy"));
        let status = rig.cluster.node_statuses.get(node).unwrap();
        assert_eq!((&*status.management, &*status.managed_by), ("External", ""));
        let mut conditions = status.conditions.iter();
        let held = conditions.find(|it| it.reason == "Held").unwrap();
        let advice = "kubectl delete daemonset -n shop csi-proxy";
        assert!(held.message.contains(advice), "{}", held.message);
    }

    delete_csi_proxy(&mut rig);
    rig.act();
    assert_eq!(*rig.plan("win-1"), before);
    for node in ["win-2", "win-3"] {
        let plan = rig.plan(node);
        assert!(matches!(plan, NodePlan::Reconcile(Ok(_))), "{plan:?}");
    }
}

#[test]
fn a_daemon_set_that_changes_holds_what_it_covers_then() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act();
    rig.add_node("win-2", "windows");
    rig.taint("win-2", "os");
    for (tolerations, is_held) in [(json!([{"operator": "Exists"}]), true), (json!([]), false)] {
        rig.put(&csi_proxy(&tolerations));
        rig.pass();
        let is = *rig.plan("win-2") == held_by("csi-proxy");
        assert_eq!(is, is_held, "{tolerations}");
    }
}

#[test]
fn settings_that_say_managed_outrank_a_daemon_set() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act();
    rig.add_node("win-2", "windows");
    rig.put(&csi_proxy(&json!([])));
    rig.want(&json!({"csiProxy": {"management": "Managed"}}));
    rig.act();
    assert!(matches!(rig.plan("win-2"), NodePlan::Reconcile(Ok(_))));
}

/// Managed nodes that are to be released, as seen by a login without a slot.
fn to_be_released(names: &[&str], rollout: &Value) -> Rig {
    let mut rig = Rig::with_labels(names);
    rig.act();
    rig.is_fresh = false;
    rig.later(1);
    rig.want(&json!({"csiProxy": {"management": "External"}, "rollout": rollout}));
    rig.act();
    for name in names {
        assert!(matches!(rig.plan(name), NodePlan::Release(_, Ok(_))));
        assert_eq!(rig.management(name), "Releasing");
        rig.saw(name, Purpose::Release, Standing::Waiting);
    }
    rig
}

#[test]
fn nodes_are_released_one_after_the_other_and_from_fresh_data() {
    let names = ["win-1", "win-2"];
    let mut rig = to_be_released(&names, &json!({}));
    assert_eq!(rig.slots(), [""; 0], "nothing is proved");
    assert!(rig.last.wants_lists.is_some());
    rig.is_fresh = true;
    assert_eq!(rig.slots(), ["win-1"]);
    // The next process must know of it, so it is written before the work begins.
    let (_, status) = rig.pass().settings.clone().unwrap();
    assert_eq!(status.rollout.unwrap().in_progress, ["win-1"]);
    rig.saw("win-1", Purpose::Release, Standing::Current);
    rig.act();
    assert_eq!(rig.management("win-1"), "External");
    assert_eq!(rig.slots(), ["win-2"]);
    rig.saw("win-2", Purpose::Release, Standing::Current);
    rig.act();
    assert_eq!(rig.slots(), [""; 0]);
    for name in names {
        assert!(matches!(rig.plan(name), NodePlan::External(_)));
    }
    assert_eq!(rig.last.wants_lists, None);
}

#[test]
fn a_slot_from_fresh_data_stands_for_a_minute_and_is_given_again_only_from_fresh_data() {
    let mut rig = to_be_released(&["win-1"], &json!({}));
    rig.pause = 0;
    rig.is_fresh = true;
    assert_eq!(rig.slots(), ["win-1"]);
    rig.is_fresh = false;
    for (seconds, slots) in [(59, &["win-1"][..]), (1, &[]), (3_600, &[])] {
        rig.later(seconds);
        assert_eq!(rig.slots(), slots, "{seconds} s later");
    }
    assert!(rig.last.wants_lists.is_some());
    // A kind that cannot be read cannot be proved: nobody asks for it again and again.
    rig.reject_settings();
    rig.pass();
    assert_eq!(rig.last.wants_lists, None);
}

#[test]
fn a_node_out_of_reach_holds_no_other_release_and_a_pause_holds_all() {
    let names = ["win-1", "win-2"];
    let mut rig = to_be_released(&names, &json!({}));
    rig.is_fresh = true;
    rig.saw("win-1", Purpose::Release, Standing::Unreachable);
    assert_eq!(rig.slots(), ["win-2"]);
    let mut rig = to_be_released(&names, &json!({"paused": true}));
    rig.is_fresh = true;
    assert_eq!(rig.slots(), [""; 0]);
    assert_eq!(rig.progress().0, "Paused");
}
