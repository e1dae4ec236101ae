mod gate;
mod left;
mod model;
mod owners;
mod pools;
mod removal;
mod removal_edges;
mod rig;
mod rollout;
mod tenant;

use std::sync::Arc;

use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::*;
use crate::api::{
    SETTINGS_NAME, WindowsNodeStorageStatus, WindowsStorage, WindowsStorageSpec,
    WindowsStorageStatus,
};
use crate::assess::report::Reason;
use crate::assess::{Memory, assess};
use crate::gate::GateReport;
use crate::index::{
    AnyTable, ConfigMap, CsiNode, NodeAddress, ObjectKey, Platform, PlatformSignal, Secret, Taint,
};
use crate::node::{Observation, PrivateKey, Purpose, RolloutSlots, Standing};
use crate::objects::{KINDS, kind};
use rig::Rig;

impl Plan {
    /// Returns a plan for a cluster of which nothing is known.
    pub fn of_test() -> Self {
        let cluster = Cluster::default();
        let instant = Instant::now();
        let inputs = Inputs {
            cluster: &cluster,
            report: &assess(&cluster, &Memory::default(), None),
            history: &History::new(instant),
            before: None,
            seen: Seen {
                observations: &BTreeMap::new(),
                services_problem: None,
                gate: None,
            },
            payload: &Payload::of_test(),
            settled_at: instant,
            now: Timestamp::UNIX_EPOCH,
            instant,
        };
        plan(&inputs, &SlotState::default())
    }
}

fn names(todo: &Plan) -> Vec<&str> {
    todo.statuses.by_name.keys().map(String::as_str).collect()
}

#[test]
fn what_was_read_after_a_verdict_does_not_count_for_it() {
    let mut rig = Rig::new();
    rig.add_node("win-1", "windows");
    rig.pass();
    rig.read_verdict_kinds();
    rig.read_configuration();
    assert!(!rig.last.is_complete, "the verdict is from before this");
    rig.pass();
    assert!(rig.last.is_complete);
}

#[test]
fn the_configuration_is_known_once_all_of_it_is_read() {
    let mut rig = Rig::new();
    rig.add_node("win-1", "windows");
    rig.add_configuration();
    rig.read_verdict_kinds();
    assert!(!rig.pass().knows_configuration);
    assert!(matches!(
        rig.last.nodes["win-1"],
        NodePlan::Reconcile(Ok(_))
    ));
    rig.finish_configuration();
    assert!(rig.pass().knows_configuration);
}

#[test]
fn a_node_is_decided_again_when_something_is_new_there_and_not_before() {
    let mut rig = Rig::settled();
    rig.add_node("win-2", "windows");
    let todo = rig.pass();
    assert_eq!(names(&todo), ["win-2"]);
    assert_eq!(
        names(&rig.pass()),
        ["win-2"],
        "what was not written stays to be written"
    );
    let status = todo.statuses.by_name["win-2"].status.clone();
    rig.write("win-2", status.clone());
    assert!(names(&rig.pass()).is_empty());

    let observation = rig.observations.entry("win-2".to_owned());
    observation.or_default();
    assert_eq!(names(&rig.pass()), ["win-2"]);
    rig.cluster.node_statuses.delete(&"win-1".to_owned());
    let todo = rig.pass();
    assert!(names(&todo).contains(&"win-1"), "its object was removed");
    assert_eq!(todo.statuses.by_name["win-1"].uid, "uid-win-1");
}

#[test]
fn what_another_client_has_written_need_not_be_written_any_more() {
    let mut rig = Rig::settled();
    rig.add_node("win-2", "windows");
    let todo = rig.pass();
    // The answer to the write was lost, but the watch delivers its result.
    let status = todo.statuses.by_name["win-2"].status.clone();
    rig.cluster.node_statuses.apply("win-2".to_owned(), status);
    assert!(names(&rig.pass()).is_empty());
}

#[test]
fn the_operators_own_writes_are_no_news_to_the_nodes_and_what_is_wanted_is() {
    let mut rig = Rig::settled();
    let mut settings = WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default());
    settings.status = Some(WindowsStorageStatus::default());
    let name = SETTINGS_NAME.to_owned();
    rig.cluster.settings.apply(name.clone(), settings.clone());
    let todo = rig.pass();
    assert!(names(&todo).is_empty());
    assert!(
        todo.settings.is_some(),
        "its status is not what was decided"
    );
    settings.spec.csi_proxy.management = crate::api::Management::External;
    rig.cluster.settings.apply(name, settings);
    let todo = rig.pass();
    assert!(!rig.last.nodes["win-1"].is_managed());
    assert_eq!(names(&todo), ["win-1"]);
}

#[test]
fn a_node_that_was_recreated_or_booted_is_looked_at_again() {
    for change in [
        (|node| node.uid = "another".to_owned()) as fn(&mut Node),
        // After a boot it is looked at again.
        |node| node.boot_id = "another".to_owned(),
    ] {
        let mut rig = Rig::settled();
        let before = rig.last.nodes.clone();
        rig.change_node("win-1", change);
        rig.pass();
        assert_ne!(rig.last.nodes, before);
    }
}

#[test]
fn a_missing_driver_touches_the_nodes_that_lack_it_and_the_settings() {
    let mut rig = Rig::settled();
    rig.add_node("lin-1", "linux");
    rig.pass();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop"},
        "spec": {"nodeName": "win-1", "volumes": [{"name": "data", "azureDisk": {}}]}});
    rig.put(&pod);
    let todo = rig.pass();
    assert_eq!(todo.judged.verdict.reason, Reason::DriversMissing);
    assert_eq!(rig.last.ready, 0);
    assert_eq!(names(&todo), ["win-1"]);
    let (_, status) = todo.settings.clone().unwrap();
    assert_eq!(status.counts.as_ref().unwrap().blocking_volumes, 1);
    let [volume] = status.blocking_volumes.as_slice() else {
        panic!("{:?}", status.blocking_volumes);
    };
    assert_eq!(
        serde_json::to_value(volume).unwrap(),
        json!({"namespace": "shop", "workload": "Pod/web-0", "volume": "volume/data", "driver": "disk.csi.azure.com"})
    );
    rig.write_settings(status);
    let said = &todo.statuses.by_name["win-1"].status.conditions;
    let message = &find(said, "DriversRegistered").unwrap().message;
    assert!(
        message.contains("no DaemonSet for Windows nodes"),
        "{message}"
    );
    assert!(rig.pass().settings.is_none(), "nothing is new about it");
}

#[test]
fn a_node_that_is_windows_no_longer_loses_its_plan_and_its_object() {
    let mut rig = Rig::settled();
    rig.add_node("win-1", "linux");
    let todo = rig.pass();
    assert_eq!(todo.left_statuses, ["win-1".to_owned()].into());
    assert!(rig.last.nodes.is_empty());
    assert_eq!(rig.last.ready, 0);
    rig.cluster.node_statuses.delete(&"win-1".to_owned());
    assert!(rig.pass().left_statuses.is_empty());
}

#[test]
fn what_is_not_known_writes_no_node_status() {
    let mut rig = Rig::new();
    rig.add_node("win-1", "windows");
    rig.read_configuration();
    let todo = rig.pass();
    assert_eq!(todo.judged.verdict.reason, Reason::ReadinessUnknown);
    assert!(names(&todo).is_empty() && todo.settings.is_none());
    rig.read_verdict_kinds();
    let todo = rig.pass();
    assert_eq!(names(&todo), ["win-1"]);
    assert!(todo.settings.is_some());
}

#[test]
fn a_node_that_may_be_anothers_is_planned_once_that_is_decided() {
    let mut rig = Rig::settled();
    rig.add_node("win-2", "windows");
    rig.change_node("win-2", |node| {
        node.ready_since = Some(Timestamp::from_second(500).unwrap());
    });
    rig.pass();
    assert!(rig.last.nodes["win-2"].is_managed());
    // It has not been connected to yet, and now the first node of another owner is created.
    rig.add_node("win-3", "windows");
    rig.belongs_to("win-3", Platform::EKS);
    let todo = rig.pass();
    let until = Timestamp::from_second(1_100).unwrap();
    assert_eq!(
        rig.last.nodes["win-2"],
        NodePlan::Undecided(Awaited::Time(Some(until)))
    );
    let status = |name: &str| {
        let node = &todo.statuses.by_name[name];
        (
            node.status.management.clone(),
            node.status.managed_by.clone(),
        )
    };
    assert_eq!(status("win-2"), ("External".to_owned(), String::new()));
    assert_eq!(
        status("win-3"),
        ("External".to_owned(), "EKS by label x".to_owned())
    );
    let due = rig.instant + Duration::from_secs(100);
    assert_eq!(rig.last.due, Some(due));
    rig.now += 100;
    rig.pass();
    assert!(rig.last.nodes["win-2"].is_managed());
    assert_eq!(rig.last.due, None);
}

#[test]
fn nobody_logs_in_before_it_is_known_whose_the_nodes_are() {
    let mut rig = Rig::new();
    rig.add_node("win-1", "windows");
    rig.read_configuration();
    for kind in KINDS
        .iter()
        .filter(|kind| kind.decides && kind.name() != "DaemonSet")
    {
        kind.table_mut(&mut rig.cluster).finish();
    }
    assert!(!rig.pass().knows_configuration);
    rig.read_verdict_kinds();
    assert!(rig.pass().knows_configuration);
}

#[test]
fn settings_that_cannot_be_read_are_not_taken_for_the_defaults() {
    let mut rig = Rig::new();
    rig.add_node("win-1", "windows");
    rig.reject_settings();
    rig.read_verdict_kinds();
    rig.read_configuration();
    let todo = rig.pass();
    assert!(!todo.knows_configuration && names(&todo).is_empty());
    assert_eq!(todo.judged.verdict.reason, Reason::ReadinessUnknown);
    assert!(todo.judged.verdict.message.contains("WindowsStorage"));
    rig.want(&json!({"csiProxy": {"management": "External"}}));
    let todo = rig.pass();
    assert!(todo.knows_configuration);
    assert!(!rig.last.nodes["win-1"].is_managed());
    rig.reject_settings();
    rig.pass();
    let is_managed = rig.last.nodes["win-1"].is_managed();
    assert!(!is_managed, "what was read before stays");
}

#[test]
fn a_node_that_may_have_our_agent_is_released_once_another_owner_shows() {
    let mut rig = Rig::settled();
    rig.add_node("win-2", "windows");
    rig.act();
    rig.belongs_to("win-2", Platform::WMCO);
    // Nobody has logged in.
    assert!(matches!(rig.act().nodes["win-2"], NodePlan::External(_)));
    rig.restart();
    rig.cluster.node_statuses.delete(&"win-2".to_owned());
    rig.change_node("win-2", |node| node.platform = None);
    rig.act();
    // The status shows no contact, but its host key is pinned: the previous process may have connected.
    rig.pin(&[("win-2", crate::node::FIRST_CONTACT)]);
    rig.belongs_to("win-2", Platform::WMCO);
    rig.act();
    let NodePlan::Release(who, Ok(target)) = rig.plan("win-2") else {
        panic!("{:?}", rig.plan("win-2"))
    };
    assert_eq!(who, "WMCO by label x");
    assert_eq!(target.purpose, Purpose::Release);
    assert_eq!(rig.management("win-2"), "Releasing");
    rig.saw("win-2", Purpose::Release, Standing::Current);
    rig.act();
    assert_eq!(rig.management("win-2"), "External");
    let external = NodePlan::External("WMCO by label x".to_owned());
    assert_eq!(*rig.plan("win-2"), external);
}
