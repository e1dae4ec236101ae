//! `uninstall` removes the agent and everything that it installed, or leaves csi-proxy as it is.

use std::fs;

use protocol::Answer;
use protocol::paths::{
    AGENT_EXE, AGENT_LOG_DIR, AGENT_SERVICE, BOOTSTRAP_DIR, CSI_PROXY_EXE, CSI_PROXY_LOG_DIR,
    JOURNAL_FILE, STATE_DIR,
};

use crate::host::{Build, Node, agent, csi_proxy};
use crate::standin::{Behaviour, TOOL, standin, standin_for_csi_proxy, variant};

const PROGRAM: &str = r"C:\windows\windows-storage\agent.exe";

impl Node {
    fn uninstall(&self, build: Build, options: &str) -> Option<Answer> {
        fs::create_dir_all(self.local(BOOTSTRAP_DIR)).unwrap();
        fs::write(self.local(PROGRAM), agent(build)).unwrap();
        self.try_answer(&format!("{PROGRAM} uninstall {options}"))
    }

    /// Uninstalls the agent, and checks that it is gone.
    #[track_caller]
    pub fn uninstalled(&self, build: Build, options: &str) {
        let answer = self.uninstall(build, options);
        assert_eq!(answer, Some(Answer::Uninstalled {}));
        self.assert_agent_is_gone();
    }

    fn is_there(&self, path: &str) -> bool {
        self.local(path).exists()
    }

    fn has_service(&self, name: &str) -> bool {
        let key = format!(r"reg query HKLM\SYSTEM\CurrentControlSet\Services\{name} /v ImagePath");
        let output = self.host.run(&key).unwrap();
        String::from_utf8_lossy(&output.stdout).contains("REG_")
    }

    /// Returns whether the agent is registered as an event source. Wine's event log stores nothing, so no more can be tested
    /// here.
    fn is_event_source(&self) -> bool {
        let key = r"reg query HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\windows-storage-agent";
        let output = self.host.run(key).unwrap();
        String::from_utf8_lossy(&output.stdout).contains("EventCreate.exe")
    }

    /// Returns what Windows does when the agent crashes. Wine stores nothing of it.
    fn failure_actions(&self) -> String {
        let key = format!(r"reg query HKLM\SYSTEM\CurrentControlSet\Services\{AGENT_SERVICE}");
        let values = self.run(&key);
        let actions = values.lines().filter(|line| line.contains("Failure"));
        actions.collect()
    }

    fn assert_agent_is_gone(&self) {
        assert!(!self.is_event_source());
        for path in [AGENT_EXE, STATE_DIR, AGENT_LOG_DIR] {
            assert!(!self.is_there(path), "{path}");
        }
        assert!(!self.has_service("windows-storage-agent"));
    }
}

#[test]
fn csi_proxy_goes_too_or_stays_as_it_is_and_other_services_stay() {
    let node = Node::new();
    let csi_proxy = csi_proxy("1.3.0");
    node.make_logs();
    let applied = node.applied("first", &csi_proxy);
    let before = applied.state.csi_proxy.process_id;
    assert!(before.is_some());
    assert!(node.is_event_source());

    node.uninstalled(Build::Payload, "--keep-csi-proxy");
    #[cfg(unix)]
    testbed::node_agent::csi_proxy_answers(&node.host).unwrap();
    assert_eq!(
        fs::read(node.local(CSI_PROXY_EXE)).unwrap(),
        csi_proxy,
        "its program"
    );
    assert!(node.has_service("logs"));

    // Managed again, and then removed together with the agent.
    fs::create_dir_all(node.local(protocol::paths::INCOMING_DIR)).unwrap();
    node.install(&agent(Build::Payload)).unwrap();
    let kept = node.apply("first", &csi_proxy);
    assert_eq!(kept.state.csi_proxy.process_id, before);
    for _ in 0..2 {
        node.uninstalled(Build::Payload, "");
        for path in [CSI_PROXY_EXE, CSI_PROXY_LOG_DIR] {
            assert!(!node.is_there(path), "{path}");
        }
        node.until("the service is deleted", || !node.has_service("csi-proxy"));
        assert!(node.has_service("logs"));
    }
}

#[test]
fn cut_off_at_any_point_it_is_done_the_next_time() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    for point in [
        "uninstall: agent's service ended",
        "uninstall: csi-proxy removed",
        "uninstall: programs removed",
    ] {
        let node = Node::with(Build::FaultInjection);
        node.applied("first", &csi_proxy);
        node.die_at(point);
        assert_eq!(node.uninstall(Build::FaultInjection, ""), None, "{point}");
        assert!(node.is_there(STATE_DIR), "{point}");
        node.points();
        node.uninstalled(Build::FaultInjection, "");
        assert!(!node.is_there(CSI_PROXY_EXE), "{point}");
    }
}

#[test]
fn a_csi_proxy_of_another_owner_stays() {
    let node = Node::new();
    let theirs = standin_for_csi_proxy(Behaviour::Well);
    fs::write(node.local(CSI_PROXY_EXE), &theirs).unwrap();
    node.run(r"sc create csi-proxy binPath= C:\k\csi-proxy.exe");
    node.run("net start csi-proxy");
    let refused = node.apply("theirs", &theirs);
    assert!(refused.end.failure.is_some(), "{refused:?}");
    node.uninstalled(Build::Payload, "");
    assert!(node.is_there(CSI_PROXY_EXE));
    assert!(node.ask("sc query csi-proxy").contains("RUNNING"));
}

#[test]
fn a_change_that_was_cut_off_is_finished_first() {
    let node = Node::with(Build::FaultInjection);
    let (old, new) = (variant(0), variant(1));
    node.applied("old", &old);
    node.die_at("old file set aside");
    node.apply("new", &new);
    node.points();
    assert!(node.is_there(JOURNAL_FILE));
    let keep = "--keep-csi-proxy";
    match node.uninstall(Build::FaultInjection, keep) {
        Some(Answer::Error(failure)) => {
            assert!(failure.message.contains("was cut off"), "{failure}");
        }
        other => panic!("{other:?}"),
    }
    node.until("the change is finished", || {
        !node.is_there(JOURNAL_FILE)
            && node.uninstall(Build::FaultInjection, keep) == Some(Answer::Uninstalled {})
    });
    node.assert_agent_is_gone();
    let program = fs::read(node.local(CSI_PROXY_EXE)).unwrap();
    assert!(program == old || program == new);
    assert!(node.ask("sc query csi-proxy").contains("RUNNING"));
}

/// By hand, or by a virus scanner.
#[test]
fn a_change_whose_agent_was_taken_away_keeps_nothing_from_being_removed() {
    for gone in ["service", "program"] {
        let node = Node::with(Build::FaultInjection);
        node.applied("old", &variant(0));
        node.die_at("old file set aside");
        node.apply("new", &variant(1));
        node.points();
        assert!(node.is_there(JOURNAL_FILE));
        if gone == "service" {
            node.run(&format!("sc delete {AGENT_SERVICE}"));
        } else {
            fs::remove_file(node.local(AGENT_EXE)).unwrap();
        }
        node.until(gone, || {
            node.uninstall(Build::FaultInjection, "") == Some(Answer::Uninstalled {})
        });
        node.assert_agent_is_gone();
        assert!(!node.is_there(CSI_PROXY_EXE), "{gone}");
        assert!(!node.has_service("csi-proxy"), "{gone}");
    }
}

#[test]
fn a_change_of_an_agent_of_another_version_holds_it_up_only_once() {
    let node = Node::new();
    node.applied("first", &standin_for_csi_proxy(Behaviour::Well));
    node.stop_agent();
    fs::write(
        node.local(JOURNAL_FILE),
        r#"{"phase":"Changing","files":[]}"#,
    )
    .unwrap();
    let actions = node.failure_actions();
    let Some(Answer::Error(failure)) = node.uninstall(Build::Payload, "") else {
        panic!("the change is not left to the agent")
    };
    assert!(failure.message.contains("was cut off"), "{failure}");
    assert_eq!(node.failure_actions(), actions, "the agent stays");
    node.until("the agent has looked at it", || {
        !node.is_there(JOURNAL_FILE)
    });
    node.uninstalled(Build::Payload, "");
}

#[test]
fn a_service_that_was_left_to_another_program_stays() {
    let content = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    node.bring_tool();
    node.applied("first", &content);
    let theirs = r"C:\theirs.exe";
    fs::write(node.local(theirs), standin(Behaviour::Well, &[])).unwrap();
    let change = format!("{TOOL} change csi-proxy - {theirs}");
    node.run(&change);
    node.eventually("it is changed back once", |state| {
        state.csi_proxy.command.as_deref() != Some(theirs)
    });
    node.run(&change);
    node.run("sc description csi-proxy Theirs");
    node.until("it is left", || node.state().foreign.len() == 1);
    node.uninstalled(Build::Payload, "");
    assert!(
        node.has_service("csi-proxy"),
        "what was left to another program was deleted"
    );
}
