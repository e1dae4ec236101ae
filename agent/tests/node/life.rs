//! First installation, upgrades, rollbacks, a power failure.

use std::thread;
use std::time::{Duration, Instant};

use protocol::paths::{AGENT_EXE, INCOMING_DIR, JOURNAL_FILE};
use protocol::{FailureCategory, Outcome, ServiceState};

use crate::host::{Node, csi_proxy, is_well, message_of, sha256};

#[test]
fn a_life() {
    let (old, new) = (csi_proxy("1.1.3"), csi_proxy("1.3.0"));
    let node = Node::new();
    assert_eq!(node.state().agent_service, ServiceState::Running);

    let first = node.applied("first", &old);
    let again = node.apply_uploaded("first");
    assert_eq!(again.end.outcome, Outcome::Unchanged, "{again:?}");
    let process = again.state.csi_proxy.process_id;
    assert_eq!(process, first.state.csi_proxy.process_id);

    node.host.run("net stop csi-proxy").unwrap();
    node.eventually("csi-proxy is back", |state| {
        is_well(state, &old) && state.csi_proxy.process_id != process
    });

    let upgraded = thread::scope(|scope| {
        node.upload("upgrade", &new, &sha256(&new));
        let file = |name: &str| node.local(&format!(r"{INCOMING_DIR}\{name}.json"));
        std::fs::copy(file("upgrade"), file("again")).unwrap();
        let other = scope.spawn(|| node.apply_uploaded("again"));
        [node.apply_uploaded("upgrade"), other.join().unwrap()]
    });
    let mut outcomes = upgraded.each_ref().map(|result| result.end.outcome);
    outcomes.sort_by_key(|outcome| *outcome != Outcome::Applied);
    assert_eq!(
        outcomes,
        [Outcome::Applied, Outcome::Unchanged],
        "{upgraded:?}"
    );
    let interruption = upgraded
        .iter()
        .find_map(|result| result.end.interruption_milliseconds);
    assert!(
        interruption.is_some_and(|time| time < 10_000),
        "{upgraded:?}"
    );
    let process = node.state().csi_proxy.process_id;

    node.upload("wrong", &old, &"a".repeat(64));
    let wrong = node.apply_uploaded("wrong");
    message_of(&wrong, Outcome::Failed, FailureCategory::BadUpload);
    assert!(is_well(&wrong.state, &new));
    assert_eq!(wrong.state.csi_proxy.process_id, process);

    let junk = node.apply("junk", b"MZ this is no program");
    assert_eq!(junk.end.outcome, Outcome::RolledBack, "{junk:?}");
    assert!(is_well(&junk.state, &new), "{junk:?}");
    assert_eq!(junk.state.request_id.as_deref(), Some("upgrade"));
    assert_eq!(
        node.state().last_result.unwrap().end.outcome,
        Outcome::RolledBack
    );
}

#[test]
#[cfg_attr(windows, ignore = "this machine does not lose its power")]
fn power_fails_in_the_middle() {
    let (old, new) = (csi_proxy("1.1.3"), csi_proxy("1.3.0"));
    let node = Node::new();
    node.applied("first", &old);

    node.upload("upgrade", &new, &sha256(&new));
    thread::scope(|scope| {
        let command = format!(r"{AGENT_EXE} apply --request {INCOMING_DIR}\upgrade.json");
        // The command ends with the host.
        let host = &node.host;
        scope.spawn(move || host.run(&command).is_ok());
        let begin = Instant::now();
        while !node.local(JOURNAL_FILE).exists() {
            assert!(begin.elapsed() < Duration::from_secs(120));
            thread::sleep(Duration::from_millis(5));
        }
        node.host.reboot().unwrap();
        // The result is recorded last: once it is there, everything else is done.
        let state = node.eventually(
            "the old state is back, and the end of the request is noted",
            |state| {
                let noted = state
                    .last_result
                    .as_ref()
                    .is_some_and(|last| last.id == "upgrade");
                noted && state.unfinished_request_id.is_none() && is_well(state, &old)
            },
        );
        let last = state.last_result.unwrap();
        assert_eq!(
            (last.id.as_str(), last.end.outcome),
            ("upgrade", Outcome::RolledBack)
        );
        assert_eq!(state.request_id.as_deref(), Some("first"));

        let second = node.apply_uploaded("upgrade");
        assert_eq!(second.end.outcome, Outcome::Applied, "{second:?}");
        assert!(is_well(&second.state, &new), "{second:?}");
    });
}
