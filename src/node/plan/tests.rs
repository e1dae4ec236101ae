use protocol::{CsiProxyStatus, End, Failing, Failure, FailureCategory, PipeStatus};

use super::*;

fn desired() -> Desired {
    let mut desired = Desired::of_test("revision", "");
    desired.agent_sha256 = "agent".to_owned();
    let request = &mut desired.request;
    request.id = "request".to_owned();
    request.sha256 = "new".to_owned();
    request.pipes = vec!["csi-proxy-p".to_owned()];
    desired
}

fn good() -> NodeState {
    NodeState {
        agent_version: "1".to_owned(),
        agent_sha256: Some("agent".to_owned()),
        agent_service: ServiceState::Running,
        request_id: Some("request".to_owned()),
        unfinished_request_id: None,
        csi_proxy: CsiProxyStatus {
            state: ServiceState::Running,
            process_id: Some(1),
            sha256: Some("new".to_owned()),
            command: Some(desired().request.command()),
            ..CsiProxyStatus::default()
        },
        pipes: vec![PipeStatus {
            name: "csi-proxy-p".to_owned(),
            open: true,
            problem: None,
        }],
        ..NodeState::default()
    }
}

fn last(state: &mut NodeState, outcome: Outcome) -> &mut LastResult {
    state.last_result.insert(LastResult {
        id: "request".to_owned(),
        attempt: String::new(),
        end: End::good(outcome, None),
        finished: String::new(),
        failures: 1,
    })
}

fn failing(attempts: u32) -> Failing {
    Failing {
        attempts,
        retry_seconds: 8,
        message: "words".to_owned(),
    }
}

const UPDATE: Step = Step::Apply { interrupts: true };
const REPAIR: Step = Step::Apply { interrupts: false };
const UNDONE: Step = Step::Stop(Why::Undone);

/// Returns the first step on a node in this state.
fn next(desired: &Desired, state: &NodeState) -> Step {
    let seen = Reconciled {
        state: Some(state.clone()),
        ..Reconciled::default()
    };
    decide(desired, &seen)
}

/// A node in its desired state, changed by these facts.
fn with(facts: &str) -> (Desired, NodeState) {
    let (mut desired, mut state) = (desired(), good());
    for fact in facts.split(", ") {
        match fact {
            "good" => {}
            "other request" => state.request_id = Some("before".to_owned()),
            "other file" => state.csi_proxy.sha256 = Some("old".to_owned()),
            "no file" => state.csi_proxy.sha256 = None,
            "nothing kept" => {
                state.request_id = None;
                state.csi_proxy = CsiProxyStatus::default();
                state.pipes.clear();
            }
            "other command" => state.csi_proxy.command = Some("x.exe".to_owned()),
            "stopped" => state.csi_proxy.state = ServiceState::Stopped,
            "no service" => state.csi_proxy.state = ServiceState::Missing,
            "closed pipe" => state.pipes[0].open = false,
            "no pipe" => state.pipes.clear(),
            "crash loop" => state.csi_proxy.failing = Some(failing(7)),
            "busy" => state.unfinished_request_id = Some("other".to_owned()),
            "busy again" => {
                let id = last(&mut state, Outcome::RolledBack).id.clone();
                state.unfinished_request_id = Some(id);
            }
            "unfinished" => {
                let last = last(&mut state, Outcome::Failed);
                last.end.incomplete = true;
                state.unfinished_request_id = Some(last.id.clone());
            }
            "failed" => drop(last(&mut state, Outcome::Failed).failures),
            "undone" => drop(last(&mut state, Outcome::RolledBack).failures),
            "another attempt" => desired.request.attempt = "again".to_owned(),
            "of another request" => last(&mut state, Outcome::RolledBack).id = "x".to_owned(),
            "left broken" => last(&mut state, Outcome::Failed).end.incomplete = true,
            "newer request" => desired.request.id = "newer".to_owned(),
            "may replace" => desired.request.replace_foreign = true,
            foreign => {
                let (kind, name) = foreign.split_once(' ').unwrap();
                state.foreign.push(ForeignInstance {
                    kind: if kind == "process" {
                        ForeignKind::Process
                    } else {
                        ForeignKind::Service
                    },
                    name: name.to_owned(),
                    command: r"C:\other\csi-proxy.exe".to_owned(),
                    running: kind != "stopped-service",
                });
            }
        }
    }
    (desired, state)
}

#[test]
fn what_was_seen_on_a_node_decides_what_is_done_there() {
    const FOREIGN: Step = Step::Stop(Why::Foreign);
    const BROKEN: Step = Step::Stop(Why::Broken);
    const BUSY: Step = Step::Stop(Why::Busy);
    for (facts, expected) in [
        ("good", Step::Finish),
        ("good, process 4711", Step::Finish),
        ("good, undone", Step::Finish),
        // The administrator has gone back, which ends the record of the rollback.
        ("good, of another request", REPAIR),
        ("good, of another request, another attempt", Step::Finish),
        ("other command, of another request", Step::Finish),
        ("closed pipe, of another request", BROKEN),
        // The agent retries what it already manages.
        ("stopped", BROKEN),
        ("no service", BROKEN),
        ("closed pipe", BROKEN),
        ("no pipe", BROKEN),
        ("stopped, crash loop", BROKEN),
        // Whatever works is interrupted only in a slot.
        ("other request", UPDATE),
        ("other file", UPDATE),
        ("nothing kept, service CSI-Proxy, may replace", UPDATE),
        ("other request, other file, failed", UPDATE),
        ("other request, other file, undone, another attempt", UPDATE),
        // Whatever does not work is repaired at once, even after a rollback: there is nothing to interrupt.
        ("nothing kept, no file", REPAIR),
        ("other file, closed pipe", REPAIR),
        // What the agent is in the middle of ends by itself; what it cannot end keeps nothing from following, in a slot.
        ("busy, other request, other file", BUSY),
        ("busy, stopped", BUSY),
        ("other request, stopped, busy again", BUSY),
        ("other request, other file, unfinished", UNDONE),
        (
            "other request, other file, unfinished, another attempt",
            UPDATE,
        ),
        ("other request, stopped, unfinished", REPAIR),
        ("other request, other file, closed pipe, failed", REPAIR),
        ("other request, stopped, crash loop", REPAIR),
        ("nothing kept, stopped-service csiproxy", REPAIR),
        (
            "may replace, nothing kept, stopped-service csi-proxy",
            REPAIR,
        ),
        ("nothing kept, no file, undone", REPAIR),
        ("other request, other file, closed pipe, undone", REPAIR),
        (
            "other request, other file, closed pipe, left broken",
            REPAIR,
        ),
        // After a rollback of whatever request, what works is left alone until another attempt is requested.
        ("other request, other file, undone", UNDONE),
        ("other request, other file, undone, newer request", UNDONE),
        ("other request, other file, left broken", UNDONE),
        // A csi-proxy of another owner is left alone unless it may be replaced.
        ("nothing kept, service csiproxy", FOREIGN),
        ("nothing kept, process 4711", FOREIGN),
        ("nothing kept, service csi-proxy", FOREIGN),
        ("may replace, nothing kept, process csi-proxy", FOREIGN),
        ("may replace, nothing kept, service csiproxy", FOREIGN),
        (
            "may replace, nothing kept, service csi-proxy, process 4711",
            FOREIGN,
        ),
    ] {
        let (desired, state) = with(facts);
        assert_eq!(next(&desired, &state), expected, "{facts}");
    }
}

#[test]
fn an_agent_that_is_not_there_silent_or_another_is_installed_and_one_that_is_down_restarted() {
    use Step::{Finish, Install, Restart};
    let some = |text: &str| Some(text.to_owned());
    // On disk, running, whether its service runs, whether csi-proxy works.
    for (agent, running, is_up, works, expected) in [
        (some("agent"), None, true, true, Finish),
        (some("agent"), some("agent"), true, true, Finish),
        (some("agent"), some("old"), true, true, Restart),
        (some("agent"), None, false, true, Restart),
        // If the new agent failed, csi-proxy would be left without an agent.
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
        assert_eq!(next(&desired(), &state), expected, "{state:?}");
    }
    let mut dead = good();
    dead.agent_problem = some("its process has ended");
    assert_eq!(next(&desired(), &dead), Restart);
    // A silent agent is installed again at once; one of another version may keep a csi-proxy that works.
    for is_of_another_version in [false, true] {
        let silent = Reconciled {
            is_of_another_version,
            ..Reconciled::default()
        };
        let interrupts = is_of_another_version;
        assert_eq!(decide(&desired(), &silent), Install { interrupts });
    }
}

#[test]
fn no_step_is_done_twice() {
    let mut dead = good();
    dead.agent_service = ServiceState::Stopped;
    let (_, other) = with("other request");
    for (state, done, expected) in [
        (
            Some(&dead),
            Done::Restarted,
            Step::Install { interrupts: false },
        ),
        (Some(&dead), Done::Installed, Step::Stop(Why::Stuck)),
        (None, Done::Installed, Step::Stop(Why::Stuck)),
        (Some(&other), Done::Installed, UPDATE),
        (Some(&other), Done::Applied, Step::Stop(Why::Stuck)),
        (None, Done::Applied, Step::Stop(Why::Stuck)),
    ] {
        let seen = Reconciled {
            state: state.cloned(),
            done,
            ..Reconciled::default()
        };
        assert_eq!(decide(&desired(), &seen), expected, "{state:?} {done:?}");
    }
    let owned = Reconciled {
        look: Look::Owner("others".to_owned()),
        ..Reconciled::default()
    };
    assert_eq!(decide(&desired(), &owned), Step::Leave);
}

#[test]
fn an_agent_that_has_just_replaced_another_version_changes_csi_proxy_only_in_a_slot() {
    let mut state = good();
    state.request_id = None;
    state.pipes.clear();
    assert_eq!(next(&desired(), &state), UPDATE);
    assert!(!is_working(&state), "nothing shows that it answers");
}

#[test]
fn what_happens_to_the_host_says_nothing_of_the_request_unless_it_comes_again() {
    for (category, failures, expected) in [
        (FailureCategory::Interrupted, 1, UPDATE),
        (FailureCategory::Interrupted, 2, UNDONE),
        (FailureCategory::Foreign, 1, UPDATE),
        (FailureCategory::Other, 1, UNDONE),
    ] {
        let (_, mut state) = with("other request, other file");
        let last = last(&mut state, Outcome::RolledBack);
        last.failures = failures;
        last.end.failure = Some(Failure {
            category,
            message: "words".to_owned(),
        });
        let found = next(&desired(), &state);
        assert_eq!(found, expected, "{category:?} {failures}");
    }
}

#[test]
fn one_pipe_that_does_not_answer_now_undoes_no_caution() {
    let silent = |state: &mut NodeState| {
        state.pipes[0].problem = Some("its server does not answer".to_owned());
    };
    let (desired, mut state) = with("other request, other file, undone");
    silent(&mut state);
    assert_eq!(next(&desired, &state), UNDONE);
    state.agent_sha256 = None;
    let step = next(&desired, &state);
    assert_eq!(step, Step::Install { interrupts: true });
    let mut state = good();
    silent(&mut state);
    assert_eq!(next(&self::desired(), &state), Step::Stop(Why::Broken));
}

#[test]
fn csi_proxy_works_where_the_agent_keeps_it_it_runs_and_answers_on_all_its_pipes() {
    assert!(is_working(&good()));
    for broken in [
        (|state| state.csi_proxy.state = ServiceState::Stopped) as fn(&mut NodeState),
        |state| state.pipes.clear(),
        |state| {
            state.request_id = None;
            state.foreign = with("service csi-proxy").1.foreign;
        },
        |state| state.pipes[0].problem = Some("its server does not answer".to_owned()),
        |state| {
            let open = state.pipes[0].clone();
            state.pipes[0].open = false;
            state.pipes.push(open);
        },
    ] {
        let mut state = good();
        broken(&mut state);
        assert!(!is_working(&state), "{state:?}");
    }
}
