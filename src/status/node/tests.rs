use protocol::{CsiProxyStatus, ForeignInstance, ForeignKind, NodeState, PipeStatus, ServiceState};

use super::*;
use crate::node::{Desired, Look, Purpose, Reason, Target, UNKNOWN_OWNER};
use crate::services::CSI_PROXY_PIPES;

const SUM: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn state(open: bool) -> NodeState {
    NodeState {
        csi_proxy: CsiProxyStatus {
            state: ServiceState::Running,
            sha256: Some(SUM.to_owned()),
            restarts: 2,
            ..CsiProxyStatus::default()
        },
        pipes: Vec::from(CSI_PROXY_PIPES.map(|name| PipeStatus {
            name: name.to_owned(),
            open,
            problem: None,
        })),
        ..NodeState::default()
    }
}

fn observed(state: Option<NodeState>, problem: Option<Reason>) -> Observation {
    Observation {
        state,
        ssh_key: "1".to_owned(),
        problem: problem.map(|reason| reason.error("words")),
        ..Observation::default()
    }
}

fn status(
    previous: &WindowsNodeStorageStatus,
    plan: &NodePlan,
    observation: Option<&Observation>,
    second: i64,
) -> WindowsNodeStorageStatus {
    status_without(&[], previous, plan, observation, second)
}

fn status_without(
    missing_drivers: &[String],
    previous: &WindowsNodeStorageStatus,
    plan: &NodePlan,
    observation: Option<&Observation>,
    second: i64,
) -> WindowsNodeStorageStatus {
    let readiness = NodeReadiness {
        name: "win-1".to_owned(),
        csi_node: true,
        drivers: vec![],
        missing_drivers: missing_drivers.to_vec(),
        ready: true,
        findings: Vec::new(),
        needs_csi_proxy: true,
    };
    let inputs = NodeInputs {
        csi_proxy_use: None,
        pool: None,
        readiness: &readiness,
        plan,
        observation,
        csi_proxy: (SUM, "v1"),
    };
    node_status(previous, &inputs, Timestamp::from_second(second).unwrap())
}

/// Returns the first status of a node with this observation.
fn first(seen: &Observation) -> WindowsNodeStorageStatus {
    let previous = WindowsNodeStorageStatus::default();
    status(&previous, &NodePlan::Waiting, Some(seen), 10)
}

fn said<'a>(status: &'a WindowsNodeStorageStatus, type_: &str) -> (&'a str, &'a str) {
    let condition = find(&status.conditions, type_).unwrap();
    (&condition.status, &condition.reason)
}

#[test]
fn a_node_with_open_pipes_is_ready_and_a_second_look_changes_nothing() {
    let seen = observed(Some(state(true)), None);
    let first = first(&seen);
    assert_eq!(said(&first, READY), ("True", "StorageReady"));
    assert_eq!(
        first.csi_proxy.as_ref().unwrap().version.as_deref(),
        Some("v1")
    );
    assert_eq!(status(&first, &NodePlan::Waiting, Some(&seen), 100), first);
}

#[test]
fn an_unreachable_node_loses_nothing_of_what_was_known() {
    let good = first(&observed(Some(state(true)), None));
    let gone = observed(Some(state(true)), Some(Reason::Unreachable));
    let after = status(&good, &NodePlan::Waiting, Some(&gone), 20);
    assert_eq!(said(&after, CSI_PROXY_READY), ("Unknown", "Unreachable"));
    assert_eq!(after.csi_proxy, good.csi_proxy);
    let restarted = status(&good, &NodePlan::Waiting, None, 20);
    assert_eq!(
        restarted, good,
        "a new process says nothing new before it has reconciled the node"
    );
}

#[test]
fn a_reason_that_is_mended_does_not_stay_until_the_first_reconcile() {
    let blocked = NodePlan::Reconcile(Err(Reason::NoAddress.error("words")));
    let before = status(&WindowsNodeStorageStatus::default(), &blocked, None, 10);
    assert_eq!(said(&before, CSI_PROXY_READY), ("Unknown", "NoAddress"));
    let after = status(&before, &NodePlan::Waiting, None, 20);
    assert_eq!(said(&after, CSI_PROXY_READY), ("Unknown", "Pending"));
}

#[test]
fn an_external_csi_proxy_is_not_held_against_the_node() {
    let nothing = WindowsNodeStorageStatus::default();
    let after = status(
        &nothing,
        &NodePlan::External("EKS by label x".to_owned()),
        None,
        10,
    );
    assert_eq!(said(&after, CSI_PROXY_READY), ("Unknown", "External"));
    assert_eq!(said(&after, READY), ("True", "StorageReady"));
}

#[test]
fn of_thousands_of_missing_drivers_the_first_are_listed_and_all_are_counted() {
    let names: Vec<String> = (10_000..35_000).map(|name| format!("d{name}")).collect();
    let nothing = WindowsNodeStorageStatus::default();
    let status = status_without(&names, &nothing, &NodePlan::Waiting, None, 10);
    assert_eq!(status.missing_drivers, names[..100]);
    let drivers = find(&status.conditions, "DriversRegistered").unwrap();
    let words =
        "Not registered on this node: d10000, d10001, d10002, d10003, d10004 and 24995 more";
    assert_eq!(drivers.message, words);
}

fn to_reconcile(revision: &str, attempt: &str) -> NodePlan {
    let mut target = Target::of_test_host(22);
    target.desired = Ok(Desired::of_test(revision, attempt).into());
    NodePlan::Reconcile(Ok(std::sync::Arc::new(target)))
}

#[test]
fn an_undone_update_is_remembered_until_another_attempt_has_worked() {
    let mut seen = observed(Some(state(true)), Some(Reason::RolledBack));
    seen.standing = Standing::Failed;
    seen.revision = "new".to_owned();
    let plan = to_reconcile("new", "");
    let failed = status(&WindowsNodeStorageStatus::default(), &plan, Some(&seen), 10);
    let record = failed.failed_update.clone().unwrap();
    assert_eq!(
        (record.revision.as_str(), record.resume.as_str()),
        ("new", "")
    );
    let after =
        |plan: &NodePlan, seen: Option<&Observation>| status(&failed, plan, seen, 30).failed_update;
    // A new process has not seen it.
    assert_eq!(after(&plan, None), failed.failed_update);
    let again = to_reconcile("new", "again");
    let mut waiting = observed(Some(state(true)), None);
    waiting.standing = Standing::Waiting;
    waiting.revision = "new".to_owned();
    waiting.attempt = "again".to_owned();
    let untried = after(&again, Some(&waiting));
    assert_eq!(untried, failed.failed_update);
    seen.attempt = "again".to_owned();
    let twice = after(&again, Some(&seen));
    assert_eq!(twice.unwrap().resume, "again");
    waiting.standing = Standing::Current;
    assert_eq!(after(&again, Some(&waiting)), None);
    // Another operator version has another revision.
    let newer = to_reconcile("newer", "");
    assert_eq!(after(&newer, None), failed.failed_update);
    waiting.revision = "newer".to_owned();
    // The node is as it shall be.
    assert_eq!(after(&newer, Some(&waiting)), None);
}

#[test]
fn only_csi_proxys_own_faults_are_held_against_it() {
    let mut other = state(true);
    other.csi_proxy.sha256 = Some("previous".to_owned());
    let mut waiting = observed(Some(state(true)), None);
    waiting.standing = Standing::Waiting;
    let running = |reason| observed(Some(state(true)), Some(reason));
    let ready = ("True", "StorageReady");
    for (seen, csi_proxy, node) in [
        (
            observed(Some(state(false)), None),
            ("False", "CSIProxyFailed"),
            ("False", "CSIProxyFailed"),
        ),
        (waiting, ("True", "UpdatePending"), ready),
        (
            running(Reason::InvalidServices),
            ("True", "PipesOpen"),
            ready,
        ),
        (running(Reason::RolledBack), ("True", "PipesOpen"), ready),
        (
            observed(Some(other), Some(Reason::RolledBack)),
            ("False", "RolledBack"),
            ready,
        ),
    ] {
        let after = first(&seen);
        assert_eq!(said(&after, CSI_PROXY_READY), csi_proxy);
        assert_eq!(said(&after, READY), node);
    }
    let closed = first(&observed(Some(state(false)), None))
        .csi_proxy
        .unwrap();
    assert_eq!(closed.missing_pipes, CSI_PROXY_PIPES);
    // An open pipe that does not answer is not enough.
    let mut silent = state(true);
    silent.pipes[0].problem = Some("its server does not answer".to_owned());
    let silent = first(&observed(Some(silent), None));
    assert_eq!(said(&silent, CSI_PROXY_READY), ("False", "CSIProxyFailed"));
    let silent = silent.csi_proxy.unwrap();
    assert_eq!(silent.missing_pipes, CSI_PROXY_PIPES[..1]);
}

#[test]
fn foreign_instances_are_named_as_long_as_they_are_there() {
    let mut replaced = state(true);
    replaced.foreign = vec![ForeignInstance {
        kind: ForeignKind::Service,
        name: "csiproxy".to_owned(),
        command: r"C:\other\csi-proxy.exe".to_owned(),
        running: false,
    }];
    let seen = observed(Some(replaced), None);
    let first = first(&seen);
    let message = |status: &WindowsNodeStorageStatus| {
        let condition = find(&status.conditions, CSI_PROXY_READY).unwrap();
        condition.message.clone()
    };
    let told = message(&first);
    assert!(
        told.ends_with(
            r"; left alone beside it: service csiproxy (C:\other\csi-proxy.exe), stopped"
        ),
        "{told}"
    );
    // Also beside a csi-proxy that does not work.
    let mut stopped = seen.state.clone().unwrap();
    stopped.csi_proxy.state = ServiceState::Stopped;
    for problem in [None, Some(Reason::CrashLoop)] {
        let seen = observed(Some(stopped.clone()), problem);
        let after = status(&first, &NodePlan::Waiting, Some(&seen), 15);
        assert_eq!(said(&after, CSI_PROXY_READY).0, "False");
        assert!(message(&after).contains("csiproxy"), "{problem:?}");
    }
    let later = observed(Some(state(true)), None);
    let second = status(&first, &NodePlan::Waiting, Some(&later), 20);
    assert!(!message(&second).contains("csiproxy"));
}

#[test]
fn a_pipe_that_the_agent_was_not_asked_for_is_not_missing() {
    let missing = |state: NodeState| {
        let csi_proxy = first(&observed(Some(state), None)).csi_proxy.unwrap();
        csi_proxy.missing_pipes.len()
    };
    let mut earlier = state(true);
    earlier.pipes.pop();
    assert_eq!(missing(earlier.clone()), 0);
    // One that says nothing of any shows nothing that works.
    earlier.pipes.clear();
    assert_eq!(missing(earlier.clone()), CSI_PROXY_PIPES.len());
    earlier.csi_proxy = CsiProxyStatus::default();
    assert_eq!(missing(earlier), 0, "csi-proxy is not there");
}

#[test]
fn a_login_stays_known_while_an_agent_is_to_be_removed() {
    let managed = first(&observed(Some(state(true)), None));
    let has =
        |status: &WindowsNodeStorageStatus| find(&status.conditions, SSH_KEY_ACCEPTED).is_some();
    assert!(has(&managed) && has_accepted(&managed, "1") && !has_accepted(&managed, "2"));
    let release = NodePlan::Release("EKS".to_owned(), Err(Reason::Unreachable.error("words")));
    let releasing = status(&managed, &release, None, 20);
    assert_eq!(releasing.management, RELEASING);
    assert!(has(&releasing));
    let external = NodePlan::External("EKS".to_owned());
    assert!(!has(&status(&releasing, &external, None, 30)));
}

#[test]
fn what_a_node_says_is_bounded_before_it_is_written() {
    let mut hostile = state(true);
    hostile.csi_proxy.restarts = u32::MAX;
    hostile.csi_proxy.sha256 = Some("\u{1b}[2J".to_owned());
    hostile.pipes.push(PipeStatus {
        name: format!("csi-proxy-{}", "x".repeat(100_000)),
        open: false,
        problem: None,
    });
    let instance = ForeignInstance {
        kind: ForeignKind::Process,
        name: "1".to_owned(),
        command: "x".repeat(100_000),
        running: true,
    };
    hostile.foreign = vec![instance; 1000];
    let after = first(&observed(Some(hostile), None));
    let csi_proxy = after.csi_proxy.clone().unwrap();
    assert_eq!(csi_proxy.sha256, None);
    assert!(i32::try_from(csi_proxy.restarts).is_ok());
    assert!(csi_proxy.missing_pipes.is_empty());
    assert!(serde_json::to_string(&after).unwrap().len() < 50_000);
}

#[test]
fn an_owner_that_a_look_has_found_stands_until_the_next_look() {
    let by = format!("{UNKNOWN_OWNER}service csiproxy (x)");
    let plan = to_reconcile("1", "");
    let mut seen = Observation {
        look: Look::Owner(by.clone()),
        ..observed(None, None)
    };
    let found = status(&WindowsNodeStorageStatus::default(), &plan, Some(&seen), 10);
    let is_external = |status: &WindowsNodeStorageStatus| {
        assert_eq!((&*status.management, &*status.managed_by), (EXTERNAL, &*by));
        assert_eq!(said(status, CSI_PROXY_READY), ("Unknown", "External"));
        assert_eq!(said(status, READY), ("True", "StorageReady"));
        assert_eq!(status.csi_proxy, None);
    };
    is_external(&found);
    is_external(&status(&found, &plan, None, 20));
    let unreachable = Observation {
        problem: Some(Reason::Unreachable.error("gone")),
        ..Observation::default()
    };
    is_external(&status(&found, &plan, Some(&unreachable), 20));
    // A contact that ended before looking for other owners proves nothing about them.
    let no_look = observed(None, Some(Reason::InvalidServices));
    is_external(&status(&found, &plan, Some(&no_look), 20));
    seen.look = Look::Nobody;
    let ours = status(&found, &plan, Some(&seen), 20);
    assert_eq!(ours.managed_by, OPERATOR);
}

#[test]
fn a_node_that_becomes_another_owners_says_so_until_the_agent_is_removed() {
    let mut seen = observed(Some(state(true)), None);
    let ours = first(&seen);
    let target = std::sync::Arc::new(Target::of_test_host(22));
    let plan = NodePlan::Release("EKS by label x".to_owned(), Ok(target));
    let message = |status: &WindowsNodeStorageStatus| {
        assert_eq!(said(status, CSI_PROXY_READY), ("Unknown", "External"));
        let conditions = &status.conditions;
        find(conditions, CSI_PROXY_READY).unwrap().message.clone()
    };
    // An earlier error is not about the removal.
    seen.problem = Some(Reason::CSIProxyFailed.error("before"));
    let leaving = status(&ours, &plan, Some(&seen), 20);
    assert_eq!(leaving.csi_proxy, ours.csi_proxy);
    assert_eq!(
        (&*leaving.management, &*leaving.managed_by),
        (RELEASING, "EKS by label x")
    );
    assert!(message(&leaving).contains("is removed from it in a rollout slot"));
    seen.purpose = Purpose::Release;
    seen.problem = None;
    seen.standing = Standing::Waiting;
    let waiting = status(&leaving, &plan, Some(&seen), 25);
    assert_eq!(waiting, leaving, "it has no slot yet");
    seen.purpose = Purpose::Release;
    seen.problem = Some(Reason::HostKeyChanged.error("another key"));
    let stuck = status(&leaving, &plan, Some(&seen), 30);
    assert_eq!(
        (&stuck.csi_proxy, &*stuck.management),
        (&ours.csi_proxy, RELEASING)
    );
    assert!(message(&stuck).ends_with("could not be removed from it: another key"));
    let no_way = Err(Reason::CredentialsMissing.error("no Secret"));
    let no_way = NodePlan::Release("EKS by label x".to_owned(), no_way);
    let stuck = status(&stuck, &no_way, Some(&seen), 30);
    assert!(message(&stuck).ends_with("could not be removed from it: no Secret"));
    seen = Observation {
        purpose: Purpose::Release,
        standing: Standing::Current,
        ..observed(None, None)
    };
    let left = status(&stuck, &plan, Some(&seen), 40);
    assert_eq!((&left.csi_proxy, &*left.management), (&None, EXTERNAL));
    assert!(message(&left).contains("does not touch it"));
}
