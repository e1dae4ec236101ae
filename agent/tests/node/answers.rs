//! An existing pipe name proves nothing: csi-proxy itself has to answer.

use std::fs;

use protocol::paths::CSI_PROXY_SERVICE;
use protocol::{ApplyResult, FailureCategory, Outcome};

use crate::host::{Node, PIPES, is_well, message_of, request_for};
use crate::standin::{Behaviour, TOOL, standin_for_csi_proxy, variant};

const PIPE: &str = "csi-proxy-smb-v1";

impl Node {
    /// Applies this content for csi-proxy, with the same timeout in seconds to stop and to answer.
    fn apply_within(&self, id: &str, seconds: u32, content: &[u8]) -> ApplyResult {
        let mut request = request_for(id, content);
        request.stop_timeout_seconds = seconds;
        request.start_timeout_seconds = seconds;
        self.apply_request(&request, Some(content))
    }
}

#[test]
fn what_opens_its_pipes_and_does_not_answer_does_not_work() {
    let node = Node::new();
    let well = standin_for_csi_proxy(Behaviour::Well);
    node.applied("first", &well);
    let silence = node.local(r"C:\k\silent");
    fs::write(&silence, "").unwrap();
    for (behaviour, said) in [
        (Behaviour::Silent, "its server does not answer"),
        (Behaviour::Refuses, "/v1.Filesystem/PathExists is refused"),
    ] {
        let id = format!("{behaviour:?}");
        let undone = node.apply_within(&id, 5, &standin_for_csi_proxy(behaviour));
        let category = FailureCategory::Other;
        let message = message_of(&undone, Outcome::RolledBack, category);
        assert!(message.contains(said), "{message}");
        node.eventually("what ran before is back", |state| is_well(state, &well));
    }

    // A server that stops answering later.
    fs::remove_file(&silence).unwrap();
    let silent = standin_for_csi_proxy(Behaviour::Silent);
    node.applied("silent", &silent);
    fs::write(&silence, "").unwrap();
    let state = node.state();
    for pipe in &state.pipes {
        let said = pipe.problem.as_deref();
        assert_eq!(said, Some("its server does not answer"), "{state:?}");
        assert!(pipe.open, "{state:?}");
    }
    assert_eq!(state.pipes.len(), PIPES.len());
}

#[test]
fn a_process_that_squats_a_pipe_is_named() {
    let node = Node::new();
    node.bring_tool();
    let well = standin_for_csi_proxy(Behaviour::Well);
    node.applied("first", &well);
    node.stop_agent();
    node.host
        .run(&format!("net stop {CSI_PROXY_SERVICE}"))
        .unwrap();
    node.while_tool(&format!("serve {PIPE}"), || {
        node.start_agent();
        let state = node.eventually("it says who is in the way", |state| {
            let failing = state.csi_proxy.failing.as_ref();
            failing.is_some_and(|failing| failing.message.contains(TOOL))
        });
        let mut pipes = state.pipes.iter();
        let pipe = pipes.find(|pipe| pipe.name == PIPE).unwrap();
        let said = pipe.problem.as_deref().unwrap();
        assert!(pipe.open && said.contains(TOOL), "{said}");
    });
    node.eventually("then it starts", |state| is_well(state, &well));
}

/// Under Wine a name in use has a server, which may be busy: a name that only a client keeps disappears with its server.
#[test]
fn a_name_that_another_program_keeps_is_waited_for_and_not_held_against_a_version() {
    let node = Node::new();
    node.bring_tool();
    let before = standin_for_csi_proxy(Behaviour::Well);
    node.applied("first", &before);
    let after = variant(b'2');
    node.while_tool(&format!("occupy {PIPE}"), || {
        let undone = node.apply_within("second", 2, &after);
        let failure = undone.end.failure.as_ref().unwrap();
        assert!(failure.category.is_of_the_host(), "{undone:?}");
        assert!(failure.message.contains("an unknown process"), "{failure}");
        node.eventually("it waits", |state| {
            let failing = state.csi_proxy.failing.as_ref();
            failing.is_some_and(|failing| failing.message.contains("an unknown process"))
        });
    });
    node.eventually("what ran before is back", |state| is_well(state, &before));
    node.applied("second", &after);
}
