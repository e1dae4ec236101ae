//! Faults of a node, of its files and of requests.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use protocol::paths::{CSI_PROXY_EXE, DESIRED_FILE, INCOMING_DIR, JOURNAL_FILE};
use protocol::{Answer, End, Failure, FailureCategory, Outcome, ServiceState};

use crate::host::{Build, Node, is_well, message_of, request_for, sha256, upload_path};
use crate::standin::{Behaviour, standin, standin_for_csi_proxy, variant};

/// The free space on a full disk, in bytes.
const ROOM: usize = 5000;

#[test]
fn bad_programs_files_and_requests() {
    let (good, better) = (variant(0), variant(1));
    let node = Node::new();
    node.bring_tool();
    node.applied("good", &good);

    for (id, content, said) in [
        (
            "exits",
            standin(Behaviour::Exits, &[]),
            "starting service csi-proxy: ",
        ),
        (
            "partly",
            standin(Behaviour::Well, &["csi-proxy-disk-v1"]),
            "csi-proxy runs but does not open all its pipes",
        ),
        (
            "garbage",
            b"MZ\x90\0 garbage".to_vec(),
            "starting service csi-proxy: ",
        ),
    ] {
        let mut bad = request_for(id, &content);
        bad.start_timeout_seconds = 3;
        let result = node.apply_request(&bad, Some(&content));
        let message = message_of(&result, Outcome::RolledBack, FailureCategory::Other);
        assert!(message.starts_with(said), "{message}");
        assert!(is_well(&result.state, &good), "{result:?}");
    }

    // A service that does not stop is terminated after its timeout.
    let hangs = standin_for_csi_proxy(Behaviour::Hangs);
    let hang = request_for("hangs", &hangs);
    let applied = node.apply_request(&hang, Some(&hangs));
    assert_eq!(applied.end.outcome, Outcome::Applied, "{applied:?}");
    let mut impatient = request_for("good", &good);
    impatient.stop_timeout_seconds = 2;
    let applied = node.apply_request(&impatient, Some(&good));
    assert_eq!(applied.end.outcome, Outcome::Applied, "{applied:?}");
    assert!(is_well(&applied.state, &good), "{applied:?}");
    let process = applied.state.csi_proxy.process_id;

    // If the file stays held, it is not touched; if it is held for a while, the agent waits.
    let keeps = format!("hold {CSI_PROXY_EXE}");
    let held = node.while_tool(&keeps, || node.apply("better", &better));
    let message = message_of(&held, Outcome::Failed, FailureCategory::Other);
    assert!(message.contains(CSI_PROXY_EXE), "{message}");
    assert_eq!(node.state().csi_proxy.process_id, process);
    let waited = thread::scope(|scope| {
        let apply = node.while_tool(&keeps, || {
            let seen = node.log().len();
            let apply = scope.spawn(|| node.apply("better", &better));
            node.until("the request is taken", || {
                node.log()[seen..].contains("request better")
            });
            apply
        });
        apply.join().unwrap()
    });
    assert_eq!(waited.end.outcome, Outcome::Applied, "{waited:?}");

    // Wine replaces read-only files, Windows does not. A handle keeps the file from being replaced, which shows that the
    // agent clears the attribute first.
    let previous = format!("{CSI_PROXY_EXE}.previous");
    let is_read_only = || {
        let there = fs::metadata(node.local(&previous)).unwrap();
        there.permissions().readonly()
    };
    node.run(&format!("attrib +r {CSI_PROXY_EXE}"));
    node.run(&format!("attrib +r {previous}"));
    assert!(is_read_only());
    let applied = thread::scope(|scope| {
        let apply = node.while_tool(&format!("hold {previous}"), || {
            let apply = scope.spawn(|| node.apply("good", &good));
            node.until("it can be replaced", || {
                assert!(!apply.is_finished(), "{}", node.log());
                !is_read_only()
            });
            apply
        });
        apply.join().unwrap()
    });
    assert_eq!(applied.end.outcome, Outcome::Applied, "{applied:?}");
    assert!(is_well(&applied.state, &good), "{applied:?}");

    let path = node.local(&format!(r"{INCOMING_DIR}\good.json"));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen('{', r#"{"future":{"a":[1]},"#, 1)).unwrap();
    assert_eq!(node.apply_uploaded("good").end.outcome, Outcome::Unchanged);
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    let command =
        format!(r"C:\k\windows-storage-agent.exe apply --request {INCOMING_DIR}\good.json");
    let Answer::Error(failure) = node.answer(&command) else {
        panic!("half a request was carried out");
    };
    assert_eq!(failure.category, FailureCategory::InvalidRequest);
}

#[test]
fn what_is_handed_over_and_is_no_request_is_refused() {
    let node = Node::new();
    for (name, content) in [
        ("request.txt", Some("{}")),
        ("absent.json", None),
        ("garbage.json", Some("this is no JSON")),
    ] {
        let beside = |ending: &str| node.local(&format!(r"{INCOMING_DIR}\{name}{ending}"));
        if let Some(content) = content {
            fs::write(beside(""), content).unwrap();
        }
        fs::write(beside(".answered"), [b' '; 4096]).unwrap();
        fs::write(beside(".handed"), "").unwrap();
        node.until("it is answered", || {
            let answered = fs::read_to_string(beside(".answered")).unwrap();
            let refused: Option<Result<End, Failure>> = serde_json::from_str(&answered).ok();
            refused.is_some_and(|refused| {
                let category = refused.unwrap_err().category;
                assert_eq!(category, FailureCategory::InvalidRequest, "{name}");
                true
            })
        });
        assert!(!beside(".handed").exists(), "{name}");
    }
    // Nobody waits for one of long ago.
    let (old, handed) = (variant(1), node.hand_over("old", &variant(1), 3_000));
    let state = node.applied("first", &variant(0)).state;
    assert_eq!(state.request_id.as_deref(), Some("first"));
    assert!(handed.exists() && !is_well(&node.state(), &old));
}

impl Node {
    /// Hands over a request as if so many seconds ago. Returns the file that does that.
    fn hand_over(&self, id: &str, content: &[u8], seconds: u64) -> PathBuf {
        self.upload(id, content, &sha256(content));
        let answered = format!(r"{INCOMING_DIR}\{id}.json.answered");
        fs::write(self.local(&answered), [b' '; 4096]).unwrap();
        let path = self.local(&format!(r"{INCOMING_DIR}\{id}.json.handed"));
        let file = fs::File::create(&path).unwrap();
        let then = SystemTime::now() - Duration::from_secs(seconds);
        file.set_modified(then).unwrap();
        path
    }
}

#[test]
fn what_was_handed_over_last_is_kept_in_the_end() {
    let node = Node::new();
    node.stop_agent();
    let first = node.hand_over("request-2", &variant(0), 60);
    let last = node.hand_over("request-1", &variant(1), 5);
    node.start_agent();
    node.until("both are done", || !first.exists() && !last.exists());
    node.eventually("the last one is kept", |state| {
        state.request_id.as_deref() == Some("request-1") && is_well(state, &variant(1))
    });
}

/// Windows then reports "The pipe has been ended" to the caller that requested the stop.
#[test]
fn a_service_that_ends_while_it_is_asked_to_stop_has_stopped() {
    let (quits, good) = (standin_for_csi_proxy(Behaviour::Quits), variant(0));
    let node = Node::new();
    node.applied("quits", &quits);
    node.applied("good", &good);
}

#[test]
#[cfg_attr(windows, ignore = "this machine's disk is not filled")]
fn a_full_disk() {
    let (good, better) = (variant(0), variant(1));
    let node = Node::new();
    node.applied("good", &good);
    let process = node.state().csi_proxy.process_id;

    // More than the agent can write; its results still fit.
    let mut large = request_for("better", &better);
    // Each takes a line of the agent's files.
    large
        .flags
        .extend(std::iter::repeat_n("-v".to_owned(), 600));
    fs::write(node.local(&upload_path("better")), &better).unwrap();
    node.upload_request(&large);
    node.host.fill_disk(ROOM as u64).unwrap();
    let full = node.apply_uploaded("better");
    message_of(&full, Outcome::Failed, FailureCategory::DiskFull);
    assert_eq!(full.state.csi_proxy.process_id, process);
    node.host.free_disk().unwrap();

    // The disk is full from the middle of the change on.
    let result = thread::scope(|scope| {
        let apply = scope.spawn(|| node.apply_uploaded("better"));
        node.until("it is changing", || {
            apply.is_finished() || node.local(JOURNAL_FILE).exists()
        });
        node.host.fill_disk(ROOM as u64).unwrap();
        apply.join().unwrap()
    });
    let one_of_both = is_well(&result.state, &good) || is_well(&result.state, &better);
    assert!(one_of_both, "{result:?}");
    node.host.free_disk().unwrap();
    let state = node.eventually("nothing is left to do", |state| {
        let last = state.last_result.as_ref();
        state.unfinished_request_id.is_none() && last.is_some_and(|last| last.id == "better")
    });
    assert!(
        is_well(&state, &good) || is_well(&state, &better),
        "{state:?}"
    );
    // Wine sometimes cannot start a process for a moment after its disk was full. The old process then runs again, and
    // repeating the request is enough.
    let mut again = node.apply_request(&large, Some(&better));
    for _ in 0..2 {
        if is_well(&again.state, &better) {
            break;
        }
        assert!(is_well(&again.state, &good), "{again:?}");
        again = node.apply_request(&large, Some(&better));
    }
    assert!(is_well(&again.state, &better), "{again:?}");
}

#[test]
fn a_lost_old_file() {
    let (good, better, best) = (variant(0), variant(1), variant(2));
    let node = Node::with(Build::FaultInjection);
    node.applied("good", &good);
    node.die_at("replace");
    node.upload("better", &better, &sha256(&better));
    node.apply_uploaded("better");
    node.points();
    fs::remove_file(node.local(&format!("{CSI_PROXY_EXE}.previous"))).unwrap();
    node.start_agent();
    let state = node.eventually("it goes on with what is there", |state| {
        state.unfinished_request_id.is_none() && is_well(state, &better)
    });
    let last = state.last_result.unwrap();
    assert_eq!(
        (last.id.as_str(), last.end.outcome),
        ("better", Outcome::Failed)
    );
    let message = last.end.failure.unwrap().message;
    assert!(message.contains("csi-proxy.exe.previous"), "{message}");
    node.applied("best", &best);
}

/// A scanner or a backup may hold what the agent reads when it starts.
#[test]
fn what_the_agent_has_stored_is_not_given_up_because_another_program_holds_it() {
    let (old, new) = (variant(0), variant(1));
    let node = Node::with(Build::FaultInjection);
    node.bring_tool();
    node.applied("old", &old);
    node.die_at("old file set aside");
    node.apply("new", &new);
    node.points();
    let start_until = |logged: &str| {
        node.start_agent_until(logged, || node.log().contains(logged));
    };
    node.while_tool(&format!("hold {JOURNAL_FILE}"), || {
        start_until(&format!("recovery: reading {JOURNAL_FILE}"));
    });
    let state = node.eventually("what was cut off is undone", |state| {
        state.unfinished_request_id.is_none() && is_well(state, &old)
    });
    assert_eq!(state.last_result.unwrap().id, "new");

    node.stop_agent();
    node.while_tool(&format!("hold {DESIRED_FILE}"), || {
        start_until(&format!("the agent cannot start: reading {DESIRED_FILE}"));
    });
    node.start_agent_until("it is up again", || {
        node.state().agent_service == ServiceState::Running
    });
    node.run("net stop csi-proxy");
    node.eventually("it knows what to keep", |state| is_well(state, &old));
}
