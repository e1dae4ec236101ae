use std::collections::BTreeMap;

use protocol::{DesiredFile, Failing, Failure, FileStatus, PipeStatus, ServicePipes};

use super::*;
use crate::services::csi_proxy_service;

mod apart;

fn desired() -> Desired {
    Desired {
        agent_sha256: "agent".to_owned(),
        request: Request {
            id: "request".to_owned(),
            files: vec![DesiredFile {
                path: r"C:\k\csi-proxy.exe".to_owned(),
                sha256: "new".to_owned(),
                upload: None,
                packed: None,
            }],
            services: vec![csi_proxy_service(&[])],
            pipes: vec![ServicePipes {
                service: "csi-proxy".to_owned(),
                pipes: vec!["csi-proxy-p".to_owned()],
            }],
            stop_timeout_seconds: 1,
            start_timeout_seconds: 1,
            environment: BTreeMap::new(),
            replace_foreign: false,
        },
        revision: "revision".to_owned(),
        attempt: String::new(),
        refused: None,
        retry: false,
    }
}

fn good() -> NodeState {
    NodeState {
        agent_version: "1".to_owned(),
        agent_sha256: Some("agent".to_owned()),
        agent_service: ServiceState::Running,
        request_id: Some("request".to_owned()),
        unfinished_request_id: None,
        services: vec![ServiceStatus {
            name: "csi-proxy".to_owned(),
            state: ServiceState::Running,
            process_id: Some(1),
            command: None,
            restarts: 0,
            failing: None,
        }],
        files: vec![FileStatus {
            path: r"c:\k\CSI-Proxy.exe".to_owned(),
            sha256: Some("new".to_owned()),
        }],
        pipes: vec![PipeStatus {
            name: "csi-proxy-p".to_owned(),
            open: true,
        }],
        ..NodeState::default()
    }
}

fn step(change: impl FnOnce(&mut NodeState)) -> Step {
    let mut state = good();
    change(&mut state);
    next_step(&desired(), &Observed::State(Box::new(state)), true)
}

#[test]
fn a_node_as_it_should_be_is_left_alone() {
    assert_eq!(step(|_| ()), Step::Done);
}

#[test]
fn the_agent_comes_first() {
    assert_eq!(
        next_step(&desired(), &Observed::NoAgent, false),
        Step::BringAgent
    );
    assert_eq!(
        next_step(&desired(), &Observed::SilentAgent, false),
        Step::BringAgent
    );
    assert_eq!(
        step(|state| state.agent_sha256 = Some("old".to_owned())),
        Step::BringAgent
    );
    assert_eq!(step(|state| state.agent_sha256 = None), Step::BringAgent);
    assert_eq!(
        step(|state| state.agent_service = ServiceState::Stopped),
        Step::InstallAgent
    );
}

#[test]
fn only_what_differs_is_sent() {
    let without = Step::Apply { with_files: false };
    assert_eq!(
        step(|state| state.files[0].sha256 = Some("old".to_owned())),
        Step::Apply { with_files: true }
    );
    assert_eq!(
        step(|state| state.files.clear()),
        Step::Apply { with_files: true }
    );
    assert_eq!(step(|state| state.request_id = None), without);
    assert_eq!(
        step(|state| state.unfinished_request_id = Some("request".to_owned())),
        without
    );
}

#[test]
fn what_the_agent_keeps_is_left_to_it() {
    for broken in [
        (|state| state.services[0].state = ServiceState::Stopped) as fn(&mut NodeState),
        |state| state.services.clear(),
        |state| state.pipes[0].open = false,
        |state| state.pipes.clear(),
    ] {
        assert_eq!(step(broken), Step::LeaveToAgent);
    }
}

fn without_turn(change: impl FnOnce(&mut Desired, &mut NodeState)) -> Step {
    let (mut desired, mut state) = (desired(), good());
    change(&mut desired, &mut state);
    next_step(&desired, &Observed::State(Box::new(state)), false)
}

fn last(outcome: Outcome) -> LastResult {
    LastResult {
        id: "request".to_owned(),
        outcome,
        failure: None,
        interruption_milliseconds: None,
        finished: String::new(),
        failures: 1,
    }
}

fn foreign(kind: ForeignKind, name: &str) -> Vec<ForeignInstance> {
    vec![ForeignInstance {
        kind,
        name: name.to_owned(),
        command: r"C:\other\csi-proxy.exe".to_owned(),
        running: true,
    }]
}

#[test]
fn what_works_is_interrupted_in_turn_only() {
    let old_file = |_: &mut Desired, state: &mut NodeState| {
        state.files[0].sha256 = Some("old".to_owned());
    };
    assert_eq!(without_turn(old_file), Step::AwaitTurn);
    assert_eq!(
        without_turn(|_, state| state.request_id = Some("before".to_owned())),
        Step::AwaitTurn
    );
    assert_eq!(
        without_turn(|_, state| state.agent_sha256 = Some("old".to_owned())),
        Step::AwaitTurn,
        "an agent that does not work would leave csi-proxy without a keeper"
    );
}

#[test]
fn what_does_not_work_is_mended_at_once() {
    let apply = |with_files| Step::Apply { with_files };
    let fresh = |_: &mut Desired, state: &mut NodeState| {
        state.request_id = None;
        state.services.clear();
        state.pipes.clear();
        state.files.clear();
    };
    assert_eq!(without_turn(fresh), apply(true));
    assert_eq!(
        without_turn(|_, state| {
            state.files[0].sha256 = Some("old".to_owned());
            state.pipes[0].open = false;
        }),
        apply(true)
    );
    assert_eq!(
        without_turn(|_, state| state.unfinished_request_id = Some("other".to_owned())),
        apply(false)
    );
    assert_eq!(
        without_turn(|_, state| {
            state.agent_sha256 = Some("old".to_owned());
            state.pipes[0].open = false;
        }),
        Step::BringAgent
    );
}

#[test]
fn a_service_that_runs_the_agent_before_is_started_anew() {
    assert_eq!(
        without_turn(|_, state| state.running_agent_sha256 = Some("old".to_owned())),
        Step::InstallAgent
    );
    assert_eq!(
        without_turn(|_, state| state.running_agent_sha256 = Some("agent".to_owned())),
        Step::Done
    );
}

#[test]
fn what_was_undone_is_left_alone_until_somebody_asks() {
    let before = |state: &mut NodeState| {
        state.request_id = Some("before".to_owned());
        state.files[0].sha256 = Some("old".to_owned());
    };
    let undone = |change: fn(&mut Desired)| {
        let (mut desired, mut state) = (desired(), good());
        before(&mut state);
        state.last_result = Some(last(Outcome::RolledBack));
        change(&mut desired);
        next_step(&desired, &Observed::State(Box::new(state)), true)
    };
    assert_eq!(undone(|_| ()), Step::LeaveUndone);
    let apply = Step::Apply { with_files: true };
    assert_eq!(undone(|desired| desired.retry = true), apply);
    assert_eq!(
        undone(|desired| desired.request.id = "newer".to_owned()),
        apply,
        "another request has not been tried yet"
    );
    let remembered = without_turn(|desired, state| {
        before(state);
        desired.refused = Some("words".to_owned());
    });
    assert_eq!(
        remembered,
        Step::LeaveUndone,
        "the node has forgotten, the cluster has not"
    );
    assert_eq!(
        without_turn(|desired, _| desired.refused = Some("words".to_owned())),
        Step::Done,
        "somebody has brought it about meanwhile"
    );
    let failed = without_turn(|_, state| {
        before(state);
        state.pipes[0].open = false;
        state.last_result = Some(last(Outcome::Failed));
    });
    assert_eq!(
        failed, apply,
        "what failed without being undone is tried again"
    );
}

#[test]
fn a_csi_proxy_of_somebody_else_is_let_alone() {
    let bare = |state: &mut NodeState| {
        state.request_id = None;
        state.services.clear();
        state.pipes.clear();
    };
    for (kind, name) in [
        (ForeignKind::Service, "csiproxy"),
        (ForeignKind::Process, "4711"),
        (ForeignKind::Service, "csi-proxy"),
    ] {
        let step = without_turn(|_, state| {
            bare(state);
            state.foreign = foreign(kind, name);
        });
        assert_eq!(step, Step::LeaveForeign, "{name}");
    }
    let replaced = |turn| {
        let (mut desired, mut state) = (desired(), good());
        bare(&mut state);
        state.foreign = foreign(ForeignKind::Service, "CSI-Proxy");
        desired.request.replace_foreign = true;
        next_step(&desired, &Observed::State(Box::new(state)), turn)
    };
    assert_eq!(
        replaced(false),
        Step::AwaitTurn,
        "it works, whoever made it"
    );
    assert_eq!(replaced(true), Step::Apply { with_files: false });
    let beside = without_turn(|_, state| state.foreign = foreign(ForeignKind::Process, "4711"));
    assert_eq!(beside, Step::Done, "ours works all the same");
    let stopped = without_turn(|_, state| {
        bare(state);
        state.foreign = foreign(ForeignKind::Service, "csiproxy");
        state.foreign[0].running = false;
    });
    assert_eq!(stopped, Step::Apply { with_files: false });
}

#[test]
fn a_crash_loop_is_the_agents_affair_unless_something_else_is_wanted() {
    let looping = |state: &mut NodeState| {
        state.services[0].state = ServiceState::Stopped;
        state.pipes[0].open = false;
        state.services[0].failing = Some(Failing {
            attempts: 7,
            retry_seconds: 60,
            message: "words".to_owned(),
        });
    };
    assert_eq!(without_turn(|_, state| looping(state)), Step::LeaveToAgent);
    let update = without_turn(|_, state| {
        looping(state);
        state.request_id = Some("before".to_owned());
    });
    assert_eq!(
        update,
        Step::Apply { with_files: false },
        "what is wanted now may be the cure"
    );
}

#[test]
fn a_loss_of_power_says_nothing_of_the_request_unless_it_comes_again() {
    let after = |failures| {
        without_turn(|_, state| {
            state.request_id = Some("before".to_owned());
            state.last_result = Some(LastResult {
                failure: Some(Failure {
                    category: FailureCategory::Interrupted,
                    message: "words".to_owned(),
                }),
                failures,
                ..last(Outcome::RolledBack)
            });
        })
    };
    assert_eq!(after(1), Step::AwaitTurn);
    assert_eq!(after(2), Step::LeaveUndone);
}

#[test]
fn a_node_whose_clock_is_far_off_is_treated_like_any_other() {
    for finished in ["1601-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "noon"] {
        let step = |outcome| {
            without_turn(|_, state| {
                state.last_result = Some(LastResult {
                    finished: finished.to_owned(),
                    ..last(outcome)
                });
            })
        };
        assert_eq!(step(Outcome::Applied), Step::Done);
        assert_eq!(step(Outcome::Failed), Step::Done);
    }
}

#[test]
fn another_service_that_does_not_stay_up_is_the_agents_affair_too() {
    let other = |failing: Option<Failing>| {
        without_turn(|desired, state| {
            let mut service = csi_proxy_service(&[]);
            service.name = "other".to_owned();
            desired.request.services.push(service);
            state.services.push(ServiceStatus {
                name: "other".to_owned(),
                state: ServiceState::Stopped,
                process_id: None,
                command: None,
                restarts: 3,
                failing,
            });
        })
    };
    assert_eq!(other(None), Step::LeaveToAgent);
    let failing = Failing {
        attempts: 3,
        retry_seconds: 8,
        message: "words".to_owned(),
    };
    assert_eq!(other(Some(failing)), Step::LeaveToAgent);
}

#[test]
fn a_node_on_which_nothing_works_is_never_left_bare() {
    let apply = Step::Apply { with_files: true };
    let reinstalled = without_turn(|desired, state| {
        *state = NodeState {
            agent_sha256: state.agent_sha256.clone(),
            agent_service: ServiceState::Running,
            ..NodeState::default()
        };
        desired.refused = Some("words".to_owned());
    });
    assert_eq!(reinstalled, apply);
    let down_after_going_back = without_turn(|desired, state| {
        state.request_id = Some("before".to_owned());
        state.files[0].sha256 = Some("old".to_owned());
        state.pipes[0].open = false;
        state.last_result = Some(last(Outcome::RolledBack));
        desired.refused = Some("words".to_owned());
    });
    assert_eq!(down_after_going_back, apply);
}
