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
            "stopped" => state.csi_proxy.state = ServiceState::Stopped,
            "no service" => state.csi_proxy.state = ServiceState::Missing,
            "closed pipe" => state.pipes[0].open = false,
            "no pipe" => state.pipes.clear(),
            "crash loop" => state.csi_proxy.failing = Some(failing(7)),
            "unfinished" => state.unfinished_request_id = Some("other".to_owned()),
            "failed" => drop(last(&mut state, Outcome::Failed).failures),
            "undone" => drop(last(&mut state, Outcome::RolledBack).failures),
            "another attempt" => desired.request.attempt = "again".to_owned(),
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
    const UPDATE: Comparison = Comparison::Differs { interrupts: true };
    const REPAIR: Comparison = Comparison::Differs { interrupts: false };
    use Comparison::{Broken, Foreign, Same, Undone};
    for (facts, expected) in [
        ("good", Same),
        ("good, process 4711", Same),
        ("good, undone", Same),
        // The agent retries what it already manages.
        ("stopped", Broken),
        ("no service", Broken),
        ("closed pipe", Broken),
        ("no pipe", Broken),
        ("stopped, crash loop", Broken),
        // Whatever works is interrupted only in a slot.
        ("other request", UPDATE),
        ("other file", UPDATE),
        ("nothing kept, service CSI-Proxy, may replace", UPDATE),
        ("other request, other file, failed", UPDATE),
        ("other request, other file, undone, another attempt", UPDATE),
        // Whatever does not work is repaired at once, even after a rollback: there is nothing to interrupt.
        ("nothing kept, no file", REPAIR),
        ("other file, closed pipe", REPAIR),
        ("unfinished", REPAIR),
        ("other request, other file, closed pipe, failed", REPAIR),
        ("other request, stopped, crash loop", REPAIR),
        ("nothing kept, stopped-service csiproxy", REPAIR),
        (
            "may replace, nothing kept, stopped-service csi-proxy",
            REPAIR,
        ),
        ("nothing kept, no file, undone", REPAIR),
        ("other request, other file, closed pipe, undone", REPAIR),
        ("other request, other file, closed pipe, left broken", REPAIR),
        // After a rollback of whatever request, what works is left alone until another attempt is requested.
        ("other request, other file, undone", Undone),
        ("other request, other file, undone, newer request", Undone),
        ("other request, other file, left broken", Undone),
        // A csi-proxy of another owner is left alone unless it may be replaced.
        ("nothing kept, service csiproxy", Foreign),
        ("nothing kept, process 4711", Foreign),
        ("nothing kept, service csi-proxy", Foreign),
        ("may replace, nothing kept, process csi-proxy", Foreign),
        ("may replace, nothing kept, service csiproxy", Foreign),
        (
            "may replace, nothing kept, service csi-proxy, process 4711",
            Foreign,
        ),
    ] {
        let (desired, state) = with(facts);
        assert_eq!(compare(&desired, &state), expected, "{facts}");
    }
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
        assert_eq!(
            agent_step(&desired(), Some(&state), true),
            expected,
            "{state:?}"
        );
    }
    let mut dead = good();
    dead.agent_problem = some("its process has ended");
    assert_eq!(agent_step(&desired(), Some(&dead), true), Restart);
    for is_installed in [false, true] {
        let silent = agent_step(&desired(), None, is_installed);
        let interrupts = is_installed;
        assert_eq!(silent, Install { interrupts });
    }
}

#[test]
fn an_agent_that_has_just_replaced_another_version_changes_csi_proxy_only_in_a_slot() {
    let mut state = good();
    state.request_id = None;
    state.pipes.clear();
    let update = Comparison::Differs { interrupts: true };
    assert_eq!(compare(&desired(), &state), update);
    assert!(!is_working(&state), "nothing shows that it answers");
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
fn what_happens_to_the_host_says_nothing_of_the_request_unless_it_comes_again() {
    let update = Comparison::Differs { interrupts: true };
    for (category, failures, expected) in [
        (FailureCategory::Interrupted, 1, update),
        (FailureCategory::Interrupted, 2, Comparison::Undone),
        (FailureCategory::PipesHeld, 1, update),
        (FailureCategory::Foreign, 1, update),
        (FailureCategory::PipesMissing, 1, Comparison::Undone),
    ] {
        let (_, mut state) = with("other request, other file");
        let last = last(&mut state, Outcome::RolledBack);
        last.failures = failures;
        last.end.failure = Some(Failure {
            category,
            message: "words".to_owned(),
        });
        let found = compare(&desired(), &state);
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
    assert_eq!(compare(&desired, &state), Comparison::Undone);
    state.agent_sha256 = None;
    let step = agent_step(&desired, Some(&state), true);
    assert_eq!(step, AgentStep::Install { interrupts: true });
    let mut state = good();
    silent(&mut state);
    assert_eq!(compare(&self::desired(), &state), Comparison::Broken);
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
