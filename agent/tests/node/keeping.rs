//! Manual changes to csi-proxy's service, and failures of the service itself.

use std::fs;

use protocol::paths::AGENT_SERVICE;
use protocol::{NodeState, Outcome, ServiceState};

use crate::host::{COMMAND, Node, is_well, request_for};
use crate::standin::{Behaviour, TOOL, standin_for_csi_proxy};

fn is_failing(state: &NodeState, message: &str) -> bool {
    state
        .csi_proxy
        .failing
        .as_ref()
        .is_some_and(|failing| failing.message.contains(message))
}

fn assert_starts_with_the_machine(node: &Node, service: &str) {
    let settings = node.configuration(service);
    let start = settings.lines().find(|line| line.starts_with("Start "));
    assert!(
        start.is_some_and(|line| line.ends_with("0x2")),
        "{settings}"
    );
}

#[test]
fn a_service_is_brought_back_whatever_becomes_of_it() {
    let content = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    node.bring_tool();
    let first = node.applied("first", &content);
    let process = first.state.csi_proxy.process_id;

    node.run(&format!("{TOOL} change csi-proxy - C:\\x.exe"));
    let state = node.eventually("its command is changed back", |state| {
        state.csi_proxy.command.as_deref() == Some(COMMAND)
    });
    assert_eq!(state.csi_proxy.process_id, process, "it went on running");

    // A repeated change would be left alone: see the next test.
    node.apply("first", &content);
    node.run(&format!("{TOOL} change csi-proxy 4 -"));
    // The command may report a broken pipe; what counts is that another process runs.
    node.host.run("net stop csi-proxy").unwrap();
    node.eventually("disabled and stopped, it is back", |state| {
        is_well(state, &content) && state.csi_proxy.process_id != process
    });
    assert_starts_with_the_machine(&node, "csi-proxy");

    node.while_tool("open csi-proxy", || {
        node.run("sc delete csi-proxy");
        node.host.run("net stop csi-proxy").unwrap();
        node.eventually("it says why it is not back", |state| {
            is_failing(state, "marked for deletion")
        });
    });
    node.eventually("deleted for good, it is made again", |state| {
        is_well(state, &content)
    });

    if cfg!(windows) {
        return;
    }
    node.host.reboot().unwrap();
    let state = node.eventually("after a reboot all is up", |state| {
        is_well(state, &content) && state.agent_service == ServiceState::Running
    });
    assert_eq!(state.request_id.as_deref(), Some("first"));
}

#[test]
fn a_service_that_another_program_changes_twice_is_left_to_it() {
    let content = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    node.bring_tool();
    node.applied("first", &content);
    let theirs = r"C:\theirs.exe";
    let change = format!("{TOOL} change csi-proxy - {theirs}");
    node.run(&change);
    node.eventually("it is changed back once", |state| {
        state.csi_proxy.command.as_deref() == Some(COMMAND)
    });
    node.run(&change);
    node.run("sc description csi-proxy Theirs");
    let state = node.eventually("and not again", |state| is_failing(state, "no longer does"));
    assert_eq!(state.csi_proxy.command.as_deref(), Some(theirs));
    let foreign = node.state().foreign;
    assert_eq!(foreign.len(), 1, "{foreign:?}");
    assert_eq!(foreign[0].command, theirs);
    // If they stop the service, it is not started either.
    node.host.run("net stop csi-proxy").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(node.state().csi_proxy.state, ServiceState::Stopped);

    // A request expresses what an administrator wants.
    node.applied("second", &content);
    let state = node.eventually("it is ours again", |state| is_well(state, &content));
    assert_eq!(state.csi_proxy.command.as_deref(), Some(COMMAND));
}

#[test]
fn a_service_that_does_not_stay_well_is_started_again_and_said_so() {
    let node = Node::new();
    let mutes = standin_for_csi_proxy(Behaviour::Mutes);
    let mut first = request_for("mutes", &mutes);
    first.start_timeout_seconds = 2;
    assert_eq!(
        node.apply_request(&first, Some(&mutes)).end.outcome,
        Outcome::Applied
    );
    let mute = node.local(r"C:\k\mute");
    fs::write(&mute, "").unwrap();
    node.eventually("it runs without pipes, and that is said", |state| {
        is_failing(state, "pipes are closed")
    });
    fs::remove_file(mute).unwrap();
    let state = node.eventually("it is well again", |state| is_well(state, &mutes));
    assert!(state.csi_proxy.restarts > 0, "{state:?}");

    let crashes = standin_for_csi_proxy(Behaviour::Crashes);
    node.applied("crashes", &crashes);
    let crash = node.local(r"C:\k\crash");
    fs::write(&crash, "").unwrap();
    let state = node.eventually("a crash loop is said", |state| {
        state
            .csi_proxy
            .failing
            .as_ref()
            .is_some_and(|failing| failing.attempts >= 2 && failing.retry_seconds >= 2)
    });
    assert_eq!(state.agent_service, ServiceState::Running);
    // A request that fixes the service is carried out anyway, and the reported failure disappears.
    fs::remove_file(crash).unwrap();
    let well = standin_for_csi_proxy(Behaviour::Well);
    node.applied("well", &well);
    node.eventually("nothing fails any more", |state| {
        is_well(state, &well) && state.csi_proxy.failing.is_none()
    });
    assert_starts_with_the_machine(&node, AGENT_SERVICE);
}
