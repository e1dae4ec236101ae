//! Starts and stops that fail.

use std::fs;

use protocol::paths::AGENT_EXE;
use protocol::{Answer, FailureCategory, Outcome, ServiceState};

use crate::host::{Build, Node, csi_proxy_of, is_well, message_of, request_for};
use crate::standin::{Behaviour, TOOL, standin, standin_for_csi_proxy, until};

#[test]
#[cfg_attr(windows, ignore = "this machine does not lose its power")]
fn a_shutdown_in_the_middle_of_an_update_is_an_interruption() {
    let node = Node::with(Build::FaultInjection);
    let well = standin_for_csi_proxy(Behaviour::Well);
    node.applied("first", &well);
    let shutdown = node.local(r"C:\k\windows-storage\shutdown");
    fs::write(&shutdown, "").unwrap();
    let cut = node.apply("second", &standin_for_csi_proxy(Behaviour::Exits));
    let message = message_of(&cut, Outcome::Failed, FailureCategory::Interrupted);
    assert!(message.contains("Windows shuts down"), "{message}");
    assert_eq!(cut.state.unfinished_request_id.as_deref(), Some("second"));
    assert_eq!(cut.state.last_result.as_ref().unwrap().id, "first");

    fs::remove_file(shutdown).unwrap();
    node.host.reboot().unwrap();
    // The result is noted once the services run.
    let state = node.eventually(
        "what ran before is back, and the end of the update is noted",
        |state| {
            let last = state.last_result.as_ref();
            is_well(state, &well) && last.is_some_and(|last| last.id == "second")
        },
    );
    let last = state.last_result.unwrap();
    assert_eq!(last.failures, 1, "it is not held against the version yet");
    let failure = last.end.failure.unwrap();
    assert_eq!(failure.category, FailureCategory::Interrupted, "{failure}");
}

#[test]
fn an_agent_whose_work_stands_still_says_so_and_is_replaced_by_its_next_process() {
    let node = Node::with(Build::FaultInjection);
    let well = standin_for_csi_proxy(Behaviour::Well);
    node.applied("first", &well);
    assert_eq!(node.state().agent_problem, None);
    let hang = node.local(r"C:\k\windows-storage\hang");
    fs::write(&hang, "").unwrap();
    node.eventually("it says so", |state| {
        let problem = state.agent_problem.as_ref();
        problem.is_some_and(|problem| problem.contains("has been stuck"))
    });
    // What the operator does in this case. The next process does not hang.
    let restarted = std::thread::scope(|scope| {
        let install = scope.spawn(|| node.answer(&format!("{AGENT_EXE} install")));
        until("the old one stops, or nobody stops it any more", || {
            node.log().contains("agent stops") || install.is_finished()
        });
        fs::remove_file(&hang).unwrap();
        install.join().unwrap()
    });
    assert!(
        matches!(restarted, Answer::Installed { .. }),
        "{restarted:?}"
    );
    node.eventually("all is well", |state| {
        state.agent_problem.is_none() && is_well(state, &well)
    });
}

#[test]
fn a_start_that_came_too_late_is_tried_once_more() {
    let node = Node::new();
    let late = standin_for_csi_proxy(Behaviour::Late);
    fs::write(node.local(r"C:\k\late"), "").unwrap();
    node.applied("first", &late);
    assert!(
        node.log().contains("it is tried once more"),
        "{}",
        node.log()
    );
}

#[test]
fn what_needs_a_service_that_the_keeper_restarts_is_stopped_and_started_with_it() {
    let node = Node::new();
    node.bring_tool();
    let mutes = standin_for_csi_proxy(Behaviour::Mutes);
    let mut first = request_for("mutes", &mutes);
    first.start_timeout_seconds = 10;
    let applied = node.apply_request(&first, Some(&mutes));
    assert_eq!(applied.end.outcome, Outcome::Applied, "{applied:?}");

    let theirs = r"C:\theirs\theirs.exe";
    fs::create_dir_all(node.local(r"C:\theirs")).unwrap();
    fs::write(node.local(theirs), standin(Behaviour::Well, &[])).unwrap();
    node.run(&format!("sc create theirs binpath= {theirs} start= demand"));
    node.run(&format!("{TOOL} need theirs csi-proxy"));
    node.run("net start theirs");
    let mute = node.local(r"C:\k\mute");
    fs::write(&mute, "").unwrap();
    until("it is stopped first", || {
        node.log()
            .contains("service theirs needs csi-proxy, and is stopped before it")
    });
    fs::remove_file(mute).unwrap();
    let state = node.eventually("it is well again", |state| is_well(state, &mutes));
    assert_eq!(csi_proxy_of(&state).state, ServiceState::Running);
    node.eventually("what needs it runs as well", |_| {
        node.ask("sc query theirs").contains("RUNNING")
    });
}
