//! Foreign services and processes.

use std::fs;

use protocol::{FailureCategory, ForeignKind, Outcome};

use crate::host::{Build, Node, csi_proxy, csi_proxy_of, is_well, message_of, request, sha256};
use crate::standin::{Behaviour, TOOL, standin, standin_for_csi_proxy};

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
    replace.files[0].sha256 = sha256(&broken);
    let rolled_back = node.apply_request(&replace, Some(&broken));
    let category = FailureCategory::PipesMissing;
    message_of(&rolled_back, Outcome::RolledBack, category);
    assert_eq!(node.configuration("csi-proxy"), settings);
    let back = rolled_back.state.foreign;
    assert!(back.len() == 1 && back[0].running, "{back:?}");
    assert!(!node.local(r"C:\k\csi-proxy.exe").exists());

    replace.id = "replaced".to_owned();
    replace.files[0].sha256 = sha256(&ours);
    replace.files[0].upload = request("replaced").files[0].upload.clone();
    replace.start_timeout_seconds = 20;
    let replaced = node.apply_request(&replace, Some(&ours));
    assert_eq!(replaced.end.outcome, Outcome::Applied, "{replaced:?}");
    assert!(is_well(&replaced.state, &ours), "{replaced:?}");
    assert_eq!(replaced.state.foreign, []);
    // The service now belongs to the agent.
    let next = node.apply("next", &ours);
    assert_eq!(next.end.outcome, Outcome::Unchanged, "{next:?}");
    assert!(csi_proxy_of(&next.state).failing.is_none());
}

#[test]
fn services_that_need_ours_stop_and_start_with_it() {
    let (old, new) = (standin_for_csi_proxy(Behaviour::Well), csi_proxy("1.3.0"));
    let node = Node::with(Build::FaultInjection);
    node.applied("old", &old);
    fs::write(
        node.local(r"C:\k\monitor.exe"),
        standin(Behaviour::Well, &[]),
    )
    .unwrap();
    node.bring_tool();
    node.run(r"sc create monitor binpath= C:\k\monitor.exe");
    node.run(&format!("{TOOL} need monitor csi-proxy"));
    node.run("net start monitor");
    let settings = node.configuration("monitor");
    let is_running = || node.ask("sc query monitor").contains("RUNNING");
    let steps = |since: usize| -> Vec<bool> {
        let log = node.log()[since..].to_owned();
        let positions = [
            "stop service monitor",
            "stop service csi-proxy",
            "start service monitor",
        ]
        .map(|step| log.find(step));
        positions
            .windows(2)
            .map(|pair| pair[0].is_some() && pair[0] < pair[1])
            .collect()
    };
    assert!(settings.contains("DependOnService"), "{settings}");
    assert!(is_running());

    let since = node.log().len();
    let upgraded = node.applied("new", &new);
    assert!(upgraded.end.interruption_milliseconds.is_some());
    assert!(is_running());
    assert_eq!(steps(since), [true, true], "{}", node.log());

    // The agent is killed while the service is stopped.
    let since = node.log().len();
    node.die_at("replace");
    node.apply("old", &old);
    node.points();
    assert!(!is_running());
    node.start_agent();
    let state = node.eventually("what was there is back", |state| {
        state.unfinished_request_id.is_none() && is_well(state, &new)
    });
    assert_eq!(state.last_result.unwrap().end.outcome, Outcome::RolledBack);
    assert!(is_running());
    assert!(steps(since)[0], "{}", node.log());
    assert_eq!(node.configuration("monitor"), settings);
}
