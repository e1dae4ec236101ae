//! Starts and stops that fail.

use std::fs;

use protocol::paths::AGENT_EXE;
use protocol::{Answer, FailureCategory, Outcome};

use crate::host::{Build, Node, is_well, message_of};
use crate::standin::{Behaviour, standin_for_csi_proxy};

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
        node.until("the old one stops, or nobody stops it any more", || {
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
