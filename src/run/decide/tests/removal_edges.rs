//! Edge cases of removals: stale data, lost statuses, other owners, and interruptions.

use super::removal::with_pipes;
use super::*;
use crate::node::{Absence, FIRST_CONTACT, HOST_KEYS_CONFIG_MAP, Hold, Look, Purpose};

fn condition(rig: &Rig, node: &str, kind: &str) -> (String, String, String) {
    let status = rig.cluster.node_statuses.get(node).unwrap();
    let said = status
        .conditions
        .iter()
        .find(|it| it.type_ == kind)
        .unwrap();
    (
        said.status.clone(),
        said.reason.clone(),
        said.message.clone(),
    )
}

fn used_by_pod(rig: &mut Rig, node: &str) {
    rig.put(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "kube-system", "name": "left", "uid": "left"},
        "spec": {
            "nodeName": node,
            "volumes": [{"name": "p", "hostPath": {"path": r"\\.\pipe\csi-proxy-disk-v1"}}],
        },
    }));
}

fn waits(rig: &mut Rig, node: &str) {
    let seen = Observation {
        purpose: Purpose::Remove,
        standing: Standing::Waiting,
        reconciles: 1,
        ..Observation::default()
    };
    rig.observations.insert(node.to_owned(), seen);
}

/// Released by management External, csi-proxy keeps running; then everything is to be removed.
#[test]
fn a_released_node_is_not_said_to_be_rid_of_csi_proxy() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act(&[]);
    assert_eq!(rig.management("win-1"), "Managed");
    rig.want(&json!({"csiProxy": {"management": "External"}}));
    rig.act(&[]);
    assert_eq!(rig.management("win-1"), "Releasing");
    let released = Observation {
        purpose: Purpose::Release,
        standing: Standing::Current,
        reconciles: 1,
        ..Observation::default()
    };
    rig.observations.insert("win-1".to_owned(), released);
    rig.act(&["win-1"]);
    assert_eq!(rig.management("win-1"), "External");
    rig.later(10_000);
    rig.want(&json!({"csiProxy": {"management": "Removed"}}));
    rig.act(&[]);
    let said = condition(&rig, "win-1", "CSIProxyReady");
    let progress = rig.progress();
    assert!(
        !said.2.contains("csi-proxy and the agent are removed"),
        "{said:?} {progress:?}"
    );
}

/// A check on the node has found an unknown owner's csi-proxy.
#[test]
fn a_node_of_an_unknown_owner_is_not_said_to_be_rid_of_csi_proxy() {
    for want in [
        json!({"csiProxy": {"management": "Removed"}}),
        json!({"csiProxy": {"install": "WhereNeeded"}}),
    ] {
        let mut rig = Rig::with_labels(&["win-1"]);
        rig.act(&[]);
        let found = Observation {
            look: Look::Owner("unknown owner by service csi-proxy".to_owned()),
            reconciles: 1,
            ..Observation::default()
        };
        rig.observations.insert("win-1".to_owned(), found);
        rig.act(&["win-1"]);
        assert_eq!(rig.management("win-1"), "External");
        rig.later(10_000);
        rig.want(&want);
        rig.act(&[]);
        let said = condition(&rig, "win-1", "CSIProxyReady");
        let by = rig
            .cluster
            .node_statuses
            .get("win-1")
            .unwrap()
            .managed_by
            .clone();
        assert!(by.starts_with("unknown owner"), "{want}: by {by}, {said:?}");
    }
}

/// The removal is planned and waits for a slot for an hour. Meanwhile, the data is no longer proven to be current.
#[test]
fn no_removal_begins_on_data_that_may_be_old() {
    let mut rig = Rig::with_labels(&["win-1", "win-2"]);
    rig.act(&[]);
    rig.later(1_000);
    rig.want(&json!({"csiProxy": {"install": "WhereNeeded"}}));
    rig.act(&[]);
    for node in ["win-1", "win-2"] {
        assert!(matches!(rig.plan(node), NodePlan::Remove(..)));
        waits(&mut rig, node);
    }
    assert_eq!(rig.slots(&["win-1", "win-2"]), ["win-1"]);
    rig.removed("win-1");
    rig.later(3_600);
    rig.is_fresh = false;
    rig.act(&["win-1"]);
    let slots = rig.slots(&["win-1"]);
    assert!(
        slots.is_empty(),
        "nothing has begun on win-2, and nothing is proved: {slots:?}"
    );
}

/// The operator restarts during a removal of an unused csi-proxy.
#[test]
fn a_restart_in_the_middle_does_not_install_again() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act(&[]);
    rig.later(1_000);
    rig.want(&json!({"csiProxy": {"install": "WhereNeeded"}}));
    rig.act(&[]);
    assert_eq!(rig.management("win-1"), "Removing");
    rig.decisions = Decisions::new(Payload::of_test());
    rig.decisions.spec = rig.cluster.wanted();
    rig.put_config_map("other", BTreeMap::new());
    rig.is_fresh = false;
    rig.pass(&[]);
    rig.pass(&[]);
    assert!(
        !matches!(rig.plan("win-1"), NodePlan::Reconcile(_)),
        "from Removing back to an installation: {:?}",
        rig.plan("win-1")
    );
}

/// Names of pipes are case-insensitive.
#[test]
fn a_pipe_is_used_however_it_is_written() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.want(&json!({"csiProxy": {"install": "WhereNeeded"}}));
    rig.put(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "kube-system", "name": "left", "uid": "left"},
        "spec": {
            "nodeName": "win-1",
            "volumes": [{"name": "p", "hostPath": {"path": r"\\.\pipe\CSI-Proxy-disk-v1"}}],
        },
    }));
    rig.act(&[]);
    assert_eq!(condition(&rig, "win-1", "CSIProxyUsed").0, "True");
}

/// The status is lost, and the key was not pinned by the operator.
#[test]
fn a_lost_status_is_no_removal() {
    let mut rig = Rig::with_labels(&["win-1"]);
    let pins = [("win-1".to_owned(), "ssh-ed25519 AAAA by-hand".to_owned())];
    rig.put_config_map(HOST_KEYS_CONFIG_MAP, pins.into());
    rig.act(&[]);
    assert_eq!(rig.management("win-1"), "Managed");
    rig.want(&json!({"csiProxy": {"management": "Removed"}}));
    rig.act(&[]);
    assert_eq!(rig.management("win-1"), "Removing");
    rig.cluster.node_statuses.delete(&"win-1".to_owned());
    rig.decisions.unseen = Unseen::default();
    rig.act(&[]);
    let progress = rig.progress();
    assert_ne!(progress.0, "Removed", "{progress:?}");
}

/// An ignored node still has the agent.
#[test]
fn an_ignored_node_is_not_said_to_be_rid_of_it() {
    let mut rig = Rig::with_labels(&["win-1", "win-2"]);
    let pin = |name: &str| (name.to_owned(), format!("ssh-ed25519 AAAA {FIRST_CONTACT}"));
    rig.put_config_map(HOST_KEYS_CONFIG_MAP, [pin("win-1"), pin("win-2")].into());
    rig.act(&[]);
    rig.change_node("win-2", |node| node.ignored = true);
    rig.act(&[]);
    rig.cluster.node_statuses.delete(&"win-2".to_owned());
    rig.act(&[]);
    rig.later(1_000);
    rig.want(&json!({"csiProxy": {"management": "Removed"}}));
    rig.act(&[]);
    rig.removed("win-1");
    rig.act(&["win-1"]);
    let todo = rig.act(&[]);
    let left: Vec<_> = todo.left.iter().map(|left| &*left.node).collect();
    assert_eq!(left, ["win-1"]);
    rig.change_node("win-2", |node| node.ignored = false);
    rig.act(&[]);
    assert!(
        !matches!(rig.plan("win-2"), NodePlan::Absent(_)),
        "its agent is still there: {:?}",
        condition(&rig, "win-2", "CSIProxyReady")
    );
}

/// After the removal, a driver that needs csi-proxy is deployed.
#[test]
fn a_node_that_needs_what_was_removed_is_not_ready() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act(&[]);
    rig.later(1_000);
    rig.want(&json!({"csiProxy": {"management": "Removed"}}));
    rig.act(&[]);
    rig.removed("win-1");
    rig.act(&["win-1"]);
    assert_eq!(rig.management("win-1"), "Removed");
    rig.put(&with_pipes());
    rig.act(&[]);
    assert_eq!(condition(&rig, "win-1", "CSIProxyUsed").0, "True");
    let ready = condition(&rig, "win-1", "Ready");
    assert_eq!(ready.0, "False", "{ready:?}");
}

/// Another service of the document depends on csi-proxy.
#[test]
fn a_service_that_depends_on_csi_proxy_uses_it() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.want(&json!({"csiProxy": {"install": "WhereNeeded"}}));
    let map = rig.cluster.config_maps.get(services::CONFIG_MAP).unwrap();
    let mut data = map.data.clone();
    let other = r#",{"name":"logs","path":"C:\\k\\logs.exe","bootstrap":false,"priority":3,"dependencies":["csi-proxy"]}]"#;
    let entries = data["services"].trim_end_matches(']').to_owned() + other;
    data.insert("services".to_owned(), entries);
    rig.put_config_map(services::CONFIG_MAP, data);
    rig.act(&[]);
    rig.later(600);
    rig.act(&[]);
    let NodePlan::Reconcile(target) = rig.plan("win-1") else {
        panic!("{:?}", rig.plan("win-1"))
    };
    let request = &target.desired.as_ref().unwrap().request;
    let valid = protocol::validate::validate(request);
    assert!(valid.is_ok(), "{valid:?}");
}

/// A node that waits for its pods is not connected to, so it must not hold the slots of all others.
#[test]
fn a_node_that_was_cut_off_in_its_update_and_waits_does_not_hold_the_others() {
    let mut rig = Rig::with_labels(&["win-1", "win-2"]);
    rig.act(&[]);
    rig.slots.decide(|_| (["win-1".to_owned()].into(), ()));
    rig.slots.hand_out(&rig.slots.in_progress());
    // The removal is requested during an update, which interrupts the work.
    rig.slots.take("win-1").unwrap().begin();
    used_by_pod(&mut rig, "win-1");
    rig.later(1_000);
    rig.want(&json!({"csiProxy": {"management": "Removed"}}));
    rig.act(&[]);
    assert!(matches!(
        rig.plan("win-1"),
        NodePlan::RemovalWaits(Hold::Used(_))
    ));
    assert!(matches!(
        rig.plan("win-2"),
        NodePlan::Remove(Absence::Removed, Ok(_))
    ));
    waits(&mut rig, "win-2");
    for _ in 0..3 {
        rig.later(86_400);
        rig.act(&["win-2"]);
    }
    let slots = rig.slots(&["win-2"]);
    let progress = rig.progress();
    assert_eq!(
        slots,
        ["win-2"],
        "in progress {:?}, said {progress:?}",
        rig.slots.in_progress()
    );
}

/// csi-proxy is used briefly, between two writes of the status.
#[test]
fn ten_minutes_begin_with_the_last_use_also_where_nothing_was_written() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act(&[]);
    rig.later(4_000);
    rig.want(&json!({"csiProxy": {"install": "WhereNeeded"}, "rollout": {"paused": true}}));
    rig.put(&with_pipes());
    rig.pass(&[]);
    assert!(matches!(rig.plan("win-1"), NodePlan::Reconcile(_)));
    rig.later(1);
    let key = ObjectKey::new("kube-system", "driver");
    rig.cluster.owners[crate::index::WorkloadKind::DaemonSet].delete(&key);
    rig.pass(&[]);
    assert!(
        matches!(rig.plan("win-1"), NodePlan::Reconcile(_)),
        "a second after the last DaemonSet: {:?}",
        rig.plan("win-1")
    );
}

/// WMCO has taken over a node that was ours; then everything of ours is to be removed.
#[test]
fn a_node_that_wmco_has_taken_over_is_released_and_not_robbed() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act(&[]);
    rig.later(1_000);
    rig.change_node("win-1", |node| {
        node.platform = Some(PlatformSignal {
            platform: Platform::Wmco,
            shown: "label x".to_owned(),
        });
    });
    rig.want(&json!({"csiProxy": {"management": "Removed"}}));
    rig.act(&[]);
    assert!(
        !matches!(rig.plan("win-1"), NodePlan::Remove(..)),
        "csi-proxy is removed from under WMCO"
    );
}

/// The clock of the process that led before was fast, or slow.
#[test]
fn ten_minutes_count_from_what_this_process_has_seen_whatever_a_status_says() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act(&[]);
    // It wrote, by its clock, that nothing has used csi-proxy for days.
    rig.later(1_000_000);
    rig.decisions = Decisions::new(Payload::of_test());
    // As a new process reads it.
    rig.change_node("win-1", |node| node.boot_id = "read".to_owned());
    rig.want(&json!({"csiProxy": {"install": "WhereNeeded"}}));
    rig.act(&[]);
    for (seconds, is_due) in [(599, false), (1, true)] {
        rig.later(seconds);
        rig.act(&[]);
        let plan = rig.plan("win-1");
        assert_eq!(plan.removes_csi_proxy(), is_due, "{plan:?}");
    }
}

/// The clock of the day jumps.
#[test]
fn the_clock_of_the_day_does_not_shorten_the_ten_minutes() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.put(&with_pipes());
    rig.want(&json!({"csiProxy": {"management": "Removed"}}));
    rig.act(&[]);
    let key = ObjectKey::new("kube-system", "driver");
    rig.cluster.owners[crate::index::WorkloadKind::DaemonSet].delete(&key);
    rig.act(&[]);
    for now in [100_000_000, 0] {
        rig.now = now;
        rig.act(&[]);
        let waits = matches!(rig.plan("win-1"), NodePlan::RemovalWaits(Hold::Until(_)));
        assert!(waits, "{:?}", rig.plan("win-1"));
    }
    rig.later(600);
    rig.act(&[]);
    assert!(matches!(rig.plan("win-1"), NodePlan::Remove(..)));
}

/// While something cannot be read, a use may come and go.
#[test]
fn ten_minutes_begin_anew_once_everything_can_be_read_again() {
    let mut rig = Rig::with_labels(&["win-1"]);
    rig.act(&[]);
    rig.later(10_000);
    rig.reject_settings();
    rig.act(&[]);
    assert!(!rig.decisions.is_complete);
    rig.want(&json!({"csiProxy": {"install": "WhereNeeded"}}));
    rig.act(&[]);
    for (seconds, is_due) in [(599, false), (1, true)] {
        rig.later(seconds);
        rig.act(&[]);
        let plan = rig.plan("win-1");
        assert_eq!(plan.removes_csi_proxy(), is_due, "{plan:?}");
    }
}
