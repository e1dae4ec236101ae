//! What is told apart: whose csi-proxy it is, what runs of it, and what ended how.

use super::*;

fn bare(state: &mut NodeState) {
    state.request_id = None;
    state.services.clear();
    state.pipes.clear();
}

#[test]
fn the_right_to_replace_a_service_is_none_to_replace_anything_else() {
    let step = |kind, name| {
        without_turn(|desired, state| {
            desired.request.replace_foreign = true;
            bare(state);
            state.foreign = foreign(kind, name);
        })
    };
    assert_eq!(step(ForeignKind::Process, "csi-proxy"), Step::LeaveForeign);
    assert_eq!(step(ForeignKind::Service, "csiproxy"), Step::LeaveForeign);
    let both = without_turn(|desired, state| {
        desired.request.replace_foreign = true;
        bare(state);
        state.foreign = foreign(ForeignKind::Service, "csi-proxy");
        state.foreign.extend(foreign(ForeignKind::Process, "4711"));
    });
    assert_eq!(both, Step::LeaveForeign, "one of the two has to stay");
}

#[test]
fn a_service_that_may_be_replaced_and_does_not_run_needs_no_turn() {
    let step = without_turn(|desired, state| {
        desired.request.replace_foreign = true;
        bare(state);
        state.foreign = foreign(ForeignKind::Service, "csi-proxy");
        state.foreign[0].running = false;
    });
    assert_eq!(step, Step::Apply { with_files: false });
}

#[test]
fn only_what_was_undone_speaks_against_trying_again() {
    let step = |outcome| {
        without_turn(|_, state| {
            state.request_id = Some("before".to_owned());
            state.last_result = Some(last(outcome));
        })
    };
    assert_eq!(step(Outcome::RolledBack), Step::LeaveUndone);
    assert_eq!(step(Outcome::Failed), Step::AwaitTurn);
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
        |state| state.pipes[0].open = false,
        |state| {
            let open = state.pipes[0].clone();
            state.pipes[0].open = false;
            state.pipes.push(open);
        },
        |state| {
            let mut other = state.services[0].clone();
            other.name = "other".to_owned();
            state.services[0].state = ServiceState::Stopped;
            state.services.push(other);
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
    let mut running = state.services[0].clone();
    running.name = "other".to_owned();
    state.services.push(running);
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
    let failing = |attempts| {
        Some(Failing {
            attempts,
            retry_seconds: 8,
            message: "words".to_owned(),
        })
    };
    let mut state = good();
    assert_eq!(failing_service(&state), None);
    let mut other = state.services[0].clone();
    other.name = "other".to_owned();
    other.failing = failing(1);
    state.services.push(other.clone());
    let named = |state: &NodeState| {
        failing_service(state).map(|(name, failing)| (name.to_owned(), failing.attempts))
    };
    assert_eq!(named(&state), Some(("other".to_owned(), 1)));
    state.services[0].failing = failing(2);
    state.services.insert(0, other);
    assert_eq!(named(&state), Some(("csi-proxy".to_owned(), 2)));
}
