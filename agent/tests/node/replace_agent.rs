//! The agent replaces itself without affecting csi-proxy.

use protocol::paths::{AGENT_EXE, AGENT_PREVIOUS, AGENT_SERVICE};
use protocol::{Answer, FailureCategory, ServiceState};

use crate::host::{Build, Node, agent, csi_proxy_of, is_well, sha256};
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
    let process = csi_proxy_of(&first.state).process_id;
    let runs = |what: &str, agent: &[u8]| {
        let state = node.state();
        let hash = Some(sha256(agent));
        assert_eq!(state.running_agent_sha256, hash, "{what}");
        assert_eq!(state.agent_sha256, hash, "{what}");
        assert_eq!(state.agent_service, ServiceState::Running, "{what}");
        assert!(is_well(&state, &csi_proxy), "{what}: {state:?}");
        assert_eq!(csi_proxy_of(&state).process_id, process, "{what}");
    };
    runs("installed", &payload);

    // An agent that installs but does not start.
    node.die_at("service starts");
    let failure = node.install(&faulty).unwrap_err();
    assert_eq!(failure.category, FailureCategory::AgentUnavailable);
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
