//! Foreign services and processes.

use std::fs;
use std::thread;

use protocol::paths::JOURNAL_FILE;
use protocol::{FailureCategory, ForeignKind, Outcome};

use crate::host::{Build, Node, csi_proxy, is_well, message_of, request, request_for, sha256};
use crate::standin::{Behaviour, TOOL, standin, standin_for_csi_proxy, variant};

#[test]
fn are_let_alone_unless_they_may_be_replaced() {
    let ours = csi_proxy("1.3.0");
    let node = Node::new();
    node.bring_tool();

    // A process without a service holds one of the pipes.
    let held = node.while_tool("serve csi-proxy-smb-v1", || {
        let state = node.state();
        let seen = &state.foreign[0];
        assert_eq!(seen.kind, ForeignKind::Process);
        assert_eq!(seen.command.to_lowercase(), TOOL.to_lowercase());
        node.apply("first", &ours)
    });
    let message = message_of(&held, Outcome::Failed, FailureCategory::Foreign);
    assert!(message.contains("csi-proxy-smb-v1"), "{message}");
    assert!(!node.local(r"C:\k\csi-proxy.exe").exists());

    // A foreign service with the same name and its own program.
    let theirs = r"C:\theirs\csi-proxy.exe";
    fs::create_dir_all(node.local(r"C:\theirs")).unwrap();
    fs::write(node.local(theirs), standin_for_csi_proxy(Behaviour::Well)).unwrap();
    node.run(&format!(
        "sc create csi-proxy binpath= {theirs} start= demand"
    ));
    node.run("sc description csi-proxy Theirs");
    node.run("net start csi-proxy");
    let process = node.state().foreign;
    assert_eq!(process.len(), 1, "{process:?}");
    assert_eq!(process[0].kind, ForeignKind::Service);
    assert!(
        process[0].running && process[0].command == theirs,
        "{process:?}"
    );
    let settings = node.configuration("csi-proxy");

    let refused = node.apply("first", &ours);
    let message = message_of(&refused, Outcome::Failed, FailureCategory::Foreign);
    assert!(message.contains(theirs), "{message}");
    assert_eq!(node.configuration("csi-proxy"), settings);

    // Replacement is allowed, but the new program does not work: the foreign service is restored.
    let mut replace = request("replace");
    replace.replace_foreign = true;
    replace.start_timeout_seconds = 3;
    let broken = standin(Behaviour::Well, &["csi-proxy-disk-v1"]);
    replace.sha256 = sha256(&broken);
    let rolled_back = node.apply_request(&replace, Some(&broken));
    let category = FailureCategory::Other;
    message_of(&rolled_back, Outcome::RolledBack, category);
    assert_eq!(node.configuration("csi-proxy"), settings);
    let back = rolled_back.state.foreign;
    assert!(back.len() == 1 && back[0].running, "{back:?}");
    assert!(!node.local(r"C:\k\csi-proxy.exe").exists());

    replace.id = "replaced".to_owned();
    replace.sha256 = sha256(&ours);
    replace.upload = request("replaced").upload.clone();
    replace.start_timeout_seconds = request("replaced").start_timeout_seconds;
    let replaced = node.apply_request(&replace, Some(&ours));
    assert_eq!(replaced.end.outcome, Outcome::Applied, "{replaced:?}");
    assert!(is_well(&replaced.state, &ours), "{replaced:?}");
    assert_eq!(replaced.state.foreign, []);
    // The service now belongs to the agent.
    let next = node.apply("next", &ours);
    assert_eq!(next.end.outcome, Outcome::Unchanged, "{next:?}");
    assert!(next.state.csi_proxy.failing.is_none());
}

/// Starts a csi-proxy of another owner that ends at each start once [`CRASH`] is there.
fn start_theirs(node: &Node) {
    let theirs = r"C:\theirs\csi-proxy.exe";
    fs::create_dir_all(node.local(r"C:\theirs")).unwrap();
    let content = standin_for_csi_proxy(Behaviour::Crashes);
    fs::write(node.local(theirs), content).unwrap();
    node.run(&format!(
        "sc create csi-proxy binpath= {theirs} start= demand"
    ));
    node.run("net start csi-proxy");
}

const CRASH: &str = r"C:\k\crash";

/// Has it replaced by one that does not work, after which it does not start again.
fn fail_to_go_back(node: &Node, id: &str) {
    let broken = standin(Behaviour::Well, &["csi-proxy-disk-v1"]);
    let mut replace = request_for(id, &broken);
    (replace.replace_foreign, replace.start_timeout_seconds) = (true, 3);
    let result = thread::scope(|scope| {
        let apply = scope.spawn(|| node.apply_request(&replace, Some(&broken)));
        node.until("it is changing", || {
            apply.is_finished() || node.local(JOURNAL_FILE).exists()
        });
        fs::write(node.local(CRASH), "").unwrap();
        apply.join().unwrap()
    });
    let message = message_of(&result, Outcome::Failed, FailureCategory::Other);
    let is_tried = message.starts_with("csi-proxy runs but does not open all its pipes");
    assert!(is_tried && message.ends_with("; retrying"), "{message}");
    let unfinished = result.state.unfinished_request_id.as_deref();
    assert_eq!(unfinished, Some(id), "{result:?}");
}

#[test]
fn one_that_does_not_start_again_is_tried_until_it_does_or_is_gone() {
    let node = Node::new();
    start_theirs(&node);
    let settings = node.configuration("csi-proxy");
    // Another request, and the same one again, go on from there, and back to what was there before the first.
    for id in ["first", "second", "second"] {
        fail_to_go_back(&node, id);
    }
    fs::remove_file(node.local(CRASH)).unwrap();
    let state = node.eventually("it runs again", |state| {
        state.unfinished_request_id.is_none()
    });
    assert!(state.foreign.iter().all(|it| it.running), "{state:?}");
    assert_eq!(node.configuration("csi-proxy"), settings);
    let last = state.last_result.unwrap();
    assert_eq!(
        (last.id.as_str(), last.end.outcome),
        ("second", Outcome::RolledBack)
    );

    fail_to_go_back(&node, "third");
    node.run("sc delete csi-proxy");
    let state = node.eventually("its owner has deleted it", |state| {
        state.unfinished_request_id.is_none()
    });
    assert_eq!(state.foreign, []);
    node.applied("fourth", &variant(0));
}

#[test]
fn one_that_cannot_start_again_does_not_hold_up_the_end_of_the_agent() {
    let node = Node::new();
    start_theirs(&node);
    fail_to_go_back(&node, "first");
    node.uninstalled(Build::Payload, "--keep-csi-proxy");

    // The same where the agent was killed in between.
    let node = Node::with(Build::FaultInjection);
    start_theirs(&node);
    node.die_at("configure service");
    let broken = standin(Behaviour::Well, &["csi-proxy-disk-v1"]);
    let mut replace = request_for("first", &broken);
    replace.replace_foreign = true;
    node.apply_request(&replace, Some(&broken));
    node.points();
    fs::write(node.local(CRASH), "").unwrap();
    node.start_agent();
    node.eventually("it is told", |state| {
        let last = state.last_result.as_ref();
        state.unfinished_request_id.is_some() && last.is_some_and(|last| last.end.incomplete)
    });
    node.uninstalled(Build::FaultInjection, "--keep-csi-proxy");
}

/// Windows does not stop a service while others that need it run.
#[test]
fn a_service_that_needs_ours_is_named_and_not_stopped() {
    let (old, new) = (variant(0), variant(1));
    let node = Node::new();
    let process = node.applied("old", &old).state.csi_proxy.process_id;
    node.bring_tool();
    node.make_logs();
    node.run(&format!("{TOOL} need logs csi-proxy"));
    let refused = node.apply("new", &new);
    let message = message_of(&refused, Outcome::Failed, FailureCategory::Other);
    assert!(message.contains("stop logs first"), "{message}");
    assert_eq!(refused.state.csi_proxy.process_id, process);
    assert!(node.ask("sc query logs").contains("RUNNING"));
    node.run("net stop logs");
    node.until("it has stopped", || {
        node.ask("sc query logs").contains("STOPPED")
    });
    node.applied("new", &new);
}
