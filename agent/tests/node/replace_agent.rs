//! The agent replaces itself without affecting csi-proxy.

use std::fs;

use protocol::paths::{AGENT_EXE, AGENT_PREVIOUS, AGENT_SERVICE, DESIRED_FILE, STATE_FILE};
use protocol::{Answer, FailureCategory, Outcome, ServiceState};

use crate::host::{Build, COMMAND, Node, agent, is_well, sha256};
use crate::standin::{Behaviour, standin_for_csi_proxy};

/// Returns the same Windows program with another hash.
fn other(agent: &[u8], mark: u8) -> Vec<u8> {
    let mut other = agent.to_vec();
    other.extend([mark; 16]);
    other
}

#[test]
fn whole_or_not_at_all() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    let (payload, faulty) = (agent(Build::Payload), agent(Build::FaultInjection));
    let node = Node::with(Build::Payload);
    let first = node.applied("first", &csi_proxy);
    let process = first.state.csi_proxy.process_id;
    let runs = |what: &str, agent: &[u8]| {
        let state = node.state();
        let hash = Some(sha256(agent));
        assert_eq!(state.running_agent_sha256, hash, "{what}");
        assert_eq!(state.agent_sha256, hash, "{what}");
        assert_eq!(state.agent_service, ServiceState::Running, "{what}");
        assert!(is_well(&state, &csi_proxy), "{what}: {state:?}");
        assert_eq!(state.csi_proxy.process_id, process, "{what}");
    };
    runs("installed", &payload);

    // An agent that installs but does not start.
    node.die_at("service starts");
    let failure = node.install(&faulty).unwrap_err();
    assert_eq!(failure.category, FailureCategory::Other);
    for part in [sha256(&faulty), sha256(&payload), "was restored".to_owned()] {
        assert!(failure.message.contains(&part), "{}", failure.message);
    }
    node.points();
    runs("fell back", &payload);

    let mut now = payload;
    node.die_at("nowhere");
    let next = other(&faulty, 0);
    assert_eq!(node.install(&next), Ok(sha256(&next)));
    let points: Vec<String> = node
        .points()
        .into_iter()
        .filter(|point| point.starts_with("install: "))
        .collect();
    runs("replaced", &next);
    assert_eq!(points.len(), 8, "{points:?}");
    now.clone_from(&next);
    for (mark, point) in (1..).zip(&points) {
        let next = other(&faulty, mark);
        node.die_at(point);
        let answer = node.try_install(&next);
        assert!(!matches!(answer, Some(Answer::Installed { .. })), "{point}");
        node.points();
        // Whichever program Windows would start is complete.
        let settings = node.configuration(AGENT_SERVICE);
        let program = if settings.contains(AGENT_PREVIOUS) {
            AGENT_PREVIOUS
        } else {
            AGENT_EXE
        };
        let content = std::fs::read(node.local(program))
            .unwrap_or_else(|error| panic!("{point}: {program}: {error}"));
        assert!(content == now || content == next, "{point}: {program}");
        assert_eq!(node.install(&next), Ok(sha256(&next)), "{point}");
        runs(point, &next);
        now = next;
    }
}

/// Until version 0.1 an agent was a general runner of services, and its files had another form.
#[test]
fn what_an_earlier_agent_ran_besides_csi_proxy_runs_on_and_is_kept_by_nobody() {
    let csi_proxy = standin_for_csi_proxy(Behaviour::Well);
    let node = Node::new();
    let process = node.applied("first", &csi_proxy).state.csi_proxy.process_id;
    node.make_logs();
    node.run("sc description logs \"Managed by windows-storage-operator: logs\"");
    node.stop_agent();
    let listed = |name: &str| serde_json::json!({"name": name, "path": COMMAND, "bootstrap": false, "priority": 2});
    let desired = serde_json::json!({
        "id": "earlier", "files": [], "services": [listed("csi-proxy"), listed("logs")],
        "pipes": [], "stopTimeoutSeconds": 30, "startTimeoutSeconds": 20,
    });
    fs::write(node.local(DESIRED_FILE), desired.to_string()).unwrap();
    let memory = serde_json::json!({"ours": ["csi-proxy", "logs"], "restarts": {"logs": 3}});
    fs::write(node.local(STATE_FILE), memory.to_string()).unwrap();
    node.start_agent();

    let state = node.state();
    assert_eq!((state.request_id, state.foreign), (None, vec![]));
    assert_eq!(state.csi_proxy.process_id, process);
    let next = node.apply("next", &csi_proxy);
    assert_eq!(next.end.outcome, Outcome::Unchanged, "{next:?}");
    assert_eq!(next.state.csi_proxy.process_id, process);
    assert!(node.ask("sc query logs").contains("RUNNING"));
    node.run("net stop logs");
    node.until("it has stopped", || {
        node.ask("sc query logs").contains("STOPPED")
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(node.ask("sc query logs").contains("STOPPED"));
}
