use protocol::{Failing, Failure, FileStatus, PipeStatus, ServiceStatus};

use super::*;
use crate::services::csi_proxy_service;

const UPDATE: Comparison = Comparison::Differs { interrupts: true };
const REPAIR: Comparison = Comparison::Differs { interrupts: false };

type Change = fn(&mut Desired, &mut NodeState);

fn desired() -> Desired {
    let mut desired = Desired::of_test("revision", "");
    desired.agent_sha256 = "agent".to_owned();
    let request = &mut desired.request;
    request.id = "request".to_owned();
    request.files[0].sha256 = "new".to_owned();
    request.services = vec![csi_proxy_service(&[])];
    request.pipes[0].pipes = vec!["csi-proxy-p".to_owned()];
    desired
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

/// What a node as it should be is compared to after each change.
fn expect(expected: Comparison, changes: &[(&str, Change)]) {
    for (words, change) in changes {
        let (mut desired, mut state) = (desired(), good());
        change(&mut desired, &mut state);
        assert_eq!(compare(&desired, &state), expected, "{words}");
    }
}

fn last(state: &mut NodeState, outcome: Outcome) -> &mut LastResult {
    state.last_result.insert(LastResult {
        id: "request".to_owned(),
        outcome,
        failure: None,
        interruption_milliseconds: None,
        finished: String::new(),
        failures: 1,
    })
}

fn foreign(state: &mut NodeState, kind: ForeignKind, name: &str) {
    state.foreign.push(ForeignInstance {
        kind,
        name: name.to_owned(),
        command: r"C:\other\csi-proxy.exe".to_owned(),
        running: true,
    });
}

fn other_service(state: &mut NodeState) -> &mut ServiceStatus {
    let mut other = state.services[0].clone();
    other.name = "other".to_owned();
    state.services.push(other);
    &mut state.services[1]
}

fn failing(attempts: u32) -> Failing {
    Failing {
        attempts,
        retry_seconds: 8,
        message: "words".to_owned(),
    }
}

/// Another request was kept before, with another program.
fn before(state: &mut NodeState) {
    state.request_id = Some("before".to_owned());
    state.files[0].sha256 = Some("old".to_owned());
}

/// The agent keeps nothing there.
fn bare(state: &mut NodeState) {
    state.request_id = None;
    state.services.clear();
    state.pipes.clear();
}

#[test]
fn an_agent_that_is_not_there_silent_or_another_is_installed_and_one_that_is_down_restarted() {
    use AgentStep::{Install, Keep, Restart};
    let some = |text: &str| Some(text.to_owned());
    // On disk, running, whether its service runs, whether csi-proxy works.
    for (agent, running, is_up, works, expected) in [
        (some("agent"), None, true, true, Keep),
        (some("agent"), some("agent"), true, true, Keep),
        (some("agent"), some("old"), true, true, Restart),
        (some("agent"), None, false, true, Restart),
        // An agent that does not work would leave csi-proxy without a keeper.
        (None, None, true, true, Install { interrupts: true }),
        (some("old"), None, true, true, Install { interrupts: true }),
        (
            some("old"),
            None,
            true,
            false,
            Install { interrupts: false },
        ),
    ] {
        let mut state = good();
        (state.agent_sha256, state.running_agent_sha256) = (agent, running);
        if !is_up {
            state.agent_service = ServiceState::Stopped;
        }
        state.pipes[0].open = works;
        assert_eq!(agent_step(&desired(), Some(&state)), expected, "{state:?}");
    }
    let silent = agent_step(&desired(), None);
    assert_eq!(silent, Install { interrupts: false });
}

#[test]
fn only_what_differs_is_sent() {
    let request = desired().request;
    let mut state = good();
    assert!(has_files(&request, &state));
    state.files[0].sha256 = Some("old".to_owned());
    assert!(!has_files(&request, &state));
    state.files.clear();
    assert!(!has_files(&request, &state));
}

#[test]
fn a_node_as_it_should_be_is_left_alone() {
    expect(
        Comparison::Same,
        &[
            ("nothing changed", |_, _| ()),
            ("ours works beside another", |_, state| {
                foreign(state, ForeignKind::Process, "4711");
            }),
            ("somebody has brought it about meanwhile", |desired, _| {
                desired.refused = Some("words".to_owned());
            }),
        ],
    );
}

#[test]
fn a_node_whose_clock_is_far_off_is_treated_like_any_other() {
    for finished in ["1601-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "noon"] {
        for outcome in [Outcome::Applied, Outcome::Failed] {
            let mut state = good();
            last(&mut state, outcome).finished = finished.to_owned();
            assert_eq!(compare(&desired(), &state), Comparison::Same);
        }
    }
}

#[test]
fn what_the_agent_keeps_is_left_to_it() {
    expect(
        Comparison::Broken,
        &[
            ("stopped", |_, state| {
                state.services[0].state = ServiceState::Stopped;
            }),
            ("no service", |_, state| state.services.clear()),
            ("closed pipe", |_, state| state.pipes[0].open = false),
            ("no pipe", |_, state| state.pipes.clear()),
            ("a crash loop", |_, state| {
                state.services[0].state = ServiceState::Stopped;
                state.services[0].failing = Some(failing(7));
            }),
            ("another service", |desired, state| {
                let mut service = csi_proxy_service(&[]);
                service.name = "other".to_owned();
                desired.request.services.push(service);
                let other = other_service(state);
                other.state = ServiceState::Stopped;
                other.failing = Some(failing(3));
            }),
        ],
    );
}

#[test]
fn what_works_is_interrupted_in_turn_only() {
    expect(
        UPDATE,
        &[
            ("another request", |_, state| {
                state.request_id = Some("before".to_owned());
            }),
            ("another file", |_, state| {
                state.files[0].sha256 = Some("old".to_owned());
            }),
            ("whoever made the service", |desired, state| {
                bare(state);
                foreign(state, ForeignKind::Service, "CSI-Proxy");
                desired.request.replace_foreign = true;
            }),
            ("what failed without being undone", |_, state| {
                before(state);
                last(state, Outcome::Failed);
            }),
            ("another attempt was asked for", |desired, state| {
                before(state);
                last(state, Outcome::RolledBack);
                desired.retry = true;
            }),
            ("another request than the one undone", |desired, state| {
                before(state);
                last(state, Outcome::RolledBack);
                desired.request.id = "newer".to_owned();
            }),
        ],
    );
}

#[test]
fn what_does_not_work_is_mended_at_once() {
    expect(
        REPAIR,
        &[
            ("fresh", |_, state| {
                bare(state);
                state.files.clear();
            }),
            ("down with an old file", |_, state| {
                state.files[0].sha256 = Some("old".to_owned());
                state.pipes[0].open = false;
            }),
            ("cut off", |_, state| {
                state.unfinished_request_id = Some("other".to_owned());
            }),
            ("failed and down", |_, state| {
                before(state);
                state.pipes[0].open = false;
                last(state, Outcome::Failed);
            }),
            ("what is wanted now may cure a crash loop", |_, state| {
                state.request_id = Some("before".to_owned());
                state.services[0].state = ServiceState::Stopped;
                state.services[0].failing = Some(failing(7));
            }),
            ("another's csi-proxy is stopped", |_, state| {
                bare(state);
                foreign(state, ForeignKind::Service, "csiproxy");
                state.foreign[0].running = false;
            }),
            ("a replaceable service is stopped", |desired, state| {
                desired.request.replace_foreign = true;
                bare(state);
                foreign(state, ForeignKind::Service, "csi-proxy");
                state.foreign[0].running = false;
            }),
        ],
    );
}

#[test]
fn a_node_on_which_nothing_works_is_never_left_bare() {
    expect(
        REPAIR,
        &[
            ("reinstalled", |desired, state| {
                bare(state);
                state.files.clear();
                desired.refused = Some("words".to_owned());
            }),
            ("down after going back", |desired, state| {
                before(state);
                state.pipes[0].open = false;
                last(state, Outcome::RolledBack);
                desired.refused = Some("words".to_owned());
            }),
        ],
    );
}

#[test]
fn what_was_undone_is_left_alone_until_somebody_asks() {
    expect(
        Comparison::Undone,
        &[
            ("the node says so", |_, state| {
                before(state);
                last(state, Outcome::RolledBack);
            }),
            (
                "the node has forgotten, the cluster has not",
                |desired, state| {
                    before(state);
                    desired.refused = Some("words".to_owned());
                },
            ),
        ],
    );
}

#[test]
fn a_loss_of_power_says_nothing_of_the_request_unless_it_comes_again() {
    for (failures, expected) in [(1, UPDATE), (2, Comparison::Undone)] {
        let mut state = good();
        before(&mut state);
        let last = last(&mut state, Outcome::RolledBack);
        last.failures = failures;
        last.failure = Some(Failure {
            category: FailureCategory::Interrupted,
            message: "words".to_owned(),
        });
        assert_eq!(compare(&desired(), &state), expected, "{failures}");
    }
}

#[test]
fn a_csi_proxy_of_somebody_else_is_let_alone() {
    expect(
        Comparison::Foreign,
        &[
            ("a service", |_, state| {
                bare(state);
                foreign(state, ForeignKind::Service, "csiproxy");
            }),
            ("a process", |_, state| {
                bare(state);
                foreign(state, ForeignKind::Process, "4711");
            }),
            ("a service of our name", |_, state| {
                bare(state);
                foreign(state, ForeignKind::Service, "csi-proxy");
            }),
            ("no right to replace a process", |desired, state| {
                desired.request.replace_foreign = true;
                bare(state);
                foreign(state, ForeignKind::Process, "csi-proxy");
            }),
            ("nor a service of another name", |desired, state| {
                desired.request.replace_foreign = true;
                bare(state);
                foreign(state, ForeignKind::Service, "csiproxy");
            }),
            ("one of the two has to stay", |desired, state| {
                desired.request.replace_foreign = true;
                bare(state);
                foreign(state, ForeignKind::Service, "csi-proxy");
                foreign(state, ForeignKind::Process, "4711");
            }),
        ],
    );
}

#[test]
fn csi_proxy_works_where_the_agent_keeps_it_it_runs_and_all_its_pipes_are_open() {
    assert!(is_working(&good()));
    for broken in [
        (|state| state.request_id = None) as fn(&mut NodeState),
        |state| state.services[0].state = ServiceState::Stopped,
        |state| state.services[0].name = "other".to_owned(),
        |state| state.pipes.clear(),
        |state| state.pipes[0].name = "other".to_owned(),
        |state| {
            let open = state.pipes[0].clone();
            state.pipes[0].open = false;
            state.pipes.push(open);
        },
        |state| {
            other_service(state);
            state.services[0].state = ServiceState::Stopped;
        },
    ] {
        let mut state = good();
        broken(&mut state);
        assert!(!is_working(&state), "{state:?}");
    }
}

#[test]
fn a_service_of_the_request_is_judged_by_its_own_pipes() {
    let mut request = desired().request;
    let mut other = csi_proxy_service(&[]);
    other.name = "other".to_owned();
    request.services.push(other);
    request.pipes.push(ServicePipes {
        service: "other".to_owned(),
        pipes: vec!["other-pipe".to_owned()],
    });
    let mut state = good();
    other_service(&mut state);
    let has = |state: &NodeState| {
        [0, 1].map(|index| has_service(&request, state, &request.services[index]))
    };
    assert_eq!(has(&state), [true, false]);
    state.pipes.push(PipeStatus {
        name: "other-pipe".to_owned(),
        open: true,
    });
    assert_eq!(has(&state), [true, true]);
    state.services[0].state = ServiceState::Stopped;
    assert_eq!(has(&state), [false, true]);
}

#[test]
fn of_the_services_that_do_not_stay_up_csi_proxy_is_named() {
    let mut state = good();
    assert_eq!(failing_service(&state), None);
    other_service(&mut state).failing = Some(failing(1));
    let named = |state: &NodeState| {
        failing_service(state).map(|(name, failing)| (name.to_owned(), failing.attempts))
    };
    assert_eq!(named(&state), Some(("other".to_owned(), 1)));
    state.services[0].failing = Some(failing(2));
    state.services.reverse();
    assert_eq!(named(&state), Some(("csi-proxy".to_owned(), 2)));
}
