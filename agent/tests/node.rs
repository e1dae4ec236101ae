//! The agent on a real Service Control Manager API (Wine's), with the real csi-proxy.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows only test functions, not their helpers"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use testbed::parts::part;
use testbed::windows_host::{Fleet, WindowsHost};
use windows_storage_agent::document::Service;
use windows_storage_agent::paths::{
    AGENT_EXE, CSI_PROXY_EXE, CSI_PROXY_SERVICE, INCOMING_DIR, JOURNAL_FILE,
};
use windows_storage_agent::protocol::{
    Answer, ApplyResult, DesiredFile, FailureCategory, NodeState, Outcome, Request, ServicePipes,
    ServiceState,
};

const PIPES: [&str; 6] = ["disk", "filesystem", "volume", "smb", "system", "iscsi"];
const COMMAND: &str = r"C:\k\csi-proxy.exe -log_file=C:\var\log\csi-proxy\csi-proxy.log -logtostderr=false -windows-service -v=2";

struct Node {
    host: WindowsHost,
    // Dropped after its hosts.
    _fleet: Fleet,
}

impl Node {
    /// A host on which the agent is installed.
    fn new() -> Self {
        let fleet = Fleet::new().unwrap();
        let host = fleet.add_host("win-1").unwrap();
        let node = Self {
            host,
            _fleet: fleet,
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/build-agent");
        let built = Command::new(script).output().unwrap();
        assert!(built.status.success());
        let agent = fs::read(String::from_utf8(built.stdout).unwrap().trim()).unwrap();
        fs::create_dir_all(node.local(INCOMING_DIR)).unwrap();
        let uploaded = format!(r"{INCOMING_DIR}\agent.exe");
        fs::write(node.local(&uploaded), &agent).unwrap();
        let install = format!("{uploaded} install --sha256 {}", sha256(&agent));
        let Answer::Installed { sha256: installed } = node.answer(&install) else {
            panic!("the agent is not installed");
        };
        assert_eq!(installed, sha256(&agent));
        node
    }

    fn local(&self, path: &str) -> PathBuf {
        self.host
            .drive_c()
            .join(path.trim_start_matches(r"C:\").replace('\\', "/"))
    }

    fn answer(&self, command: &str) -> Answer {
        let output = self.host.run(command).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(text.trim().lines().last().unwrap_or_default())
            .unwrap_or_else(|error| panic!("{command}: {error}: {text}"))
    }

    fn state(&self) -> NodeState {
        match self.answer(&format!("{AGENT_EXE} status")) {
            Answer::Status(state) => state,
            other => panic!("{other:?}"),
        }
    }

    /// Uploads what `id` asks for: this content for csi-proxy.exe.
    fn upload(&self, id: &str, content: &[u8], announced: &str) {
        let upload = format!(r"{INCOMING_DIR}\{id}.exe");
        fs::write(self.local(&upload), content).unwrap();
        let request = Request {
            id: id.to_owned(),
            files: vec![DesiredFile {
                path: CSI_PROXY_EXE.to_owned(),
                sha256: announced.to_owned(),
                upload: Some(upload),
            }],
            services: vec![Service {
                name: CSI_PROXY_SERVICE.to_owned(),
                path: COMMAND.to_owned(),
                node_variables_in_command: vec![],
                powershell_pre_scripts: vec![],
                dependencies: vec![],
                bootstrap: false,
                priority: 2,
            }],
            pipes: vec![ServicePipes {
                service: CSI_PROXY_SERVICE.to_owned(),
                pipes: PIPES
                    .iter()
                    .map(|group| {
                        let alpha = matches!(*group, "system" | "iscsi");
                        format!(
                            "csi-proxy-{group}-{}",
                            if alpha { "v1alpha1" } else { "v1" }
                        )
                    })
                    .collect(),
            }],
            stop_timeout_seconds: 30,
            start_timeout_seconds: 20,
            environment: BTreeMap::new(),
            replace_foreign: false,
        };
        let file = self.local(&format!(r"{INCOMING_DIR}\{id}.json"));
        fs::write(file, serde_json::to_vec(&request).unwrap()).unwrap();
    }

    fn apply_uploaded(&self, id: &str) -> ApplyResult {
        let command = format!(r"{AGENT_EXE} apply --request {INCOMING_DIR}\{id}.json");
        match self.answer(&command) {
            Answer::ApplyResult(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn apply(&self, id: &str, content: &[u8]) -> ApplyResult {
        self.upload(id, content, &sha256(content));
        self.apply_uploaded(id)
    }

    fn eventually(&self, what: &str, wanted: impl Fn(&NodeState) -> bool) -> NodeState {
        let begin = Instant::now();
        loop {
            let state = self.state();
            if wanted(&state) {
                return state;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(30),
                "{what}: {state:?}"
            );
            thread::sleep(Duration::from_millis(100));
        }
    }
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn csi_proxy(version: &str) -> Vec<u8> {
    fs::read(part(&format!("csi-proxy-{version}")).unwrap()).unwrap()
}

/// csi-proxy runs, with all its pipes, from this content.
fn is_well(state: &NodeState, content: &[u8]) -> bool {
    state.services.len() == 1
        && state.services[0].state == ServiceState::Running
        && state.pipes.len() == PIPES.len()
        && state.pipes.iter().all(|pipe| pipe.open)
        && state.files[0].sha256 == Some(sha256(content))
}

#[test]
fn a_life() {
    let (old, new) = (csi_proxy("1.1.3"), csi_proxy("1.3.0"));
    let node = Node::new();
    assert_eq!(node.state().agent_service, ServiceState::Running);

    let first = node.apply("first", &old);
    assert_eq!(first.outcome, Outcome::Applied, "{first:?}");
    assert!(is_well(&first.state, &old), "{first:?}");
    let again = node.apply_uploaded("first");
    assert_eq!(again.outcome, Outcome::Unchanged, "{again:?}");
    let process = again.state.services[0].process_id;
    assert_eq!(process, first.state.services[0].process_id);

    node.host.run("net stop csi-proxy").unwrap();
    node.eventually("csi-proxy is back", |state| {
        is_well(state, &old) && state.services[0].process_id != process
    });

    let upgraded = thread::scope(|scope| {
        node.upload("upgrade", &new, &sha256(&new));
        let other = scope.spawn(|| node.apply_uploaded("upgrade"));
        [node.apply_uploaded("upgrade"), other.join().unwrap()]
    });
    let mut outcomes = upgraded.each_ref().map(|result| result.outcome);
    outcomes.sort_by_key(|outcome| *outcome != Outcome::Applied);
    assert_eq!(
        outcomes,
        [Outcome::Applied, Outcome::Unchanged],
        "{upgraded:?}"
    );
    let interruption = upgraded
        .iter()
        .find_map(|result| result.interruption_milliseconds);
    assert!(
        interruption.is_some_and(|time| time < 10_000),
        "{upgraded:?}"
    );
    let process = node.state().services[0].process_id;

    node.upload("wrong", &old, &"a".repeat(64));
    let wrong = node.apply_uploaded("wrong");
    assert_eq!(wrong.outcome, Outcome::Failed);
    assert_eq!(
        wrong.failure.unwrap().category,
        FailureCategory::HashMismatch
    );
    assert!(is_well(&wrong.state, &new));
    assert_eq!(wrong.state.services[0].process_id, process);

    let junk = node.apply("junk", b"MZ this is no program");
    assert_eq!(junk.outcome, Outcome::RolledBack, "{junk:?}");
    assert!(is_well(&junk.state, &new), "{junk:?}");
    assert_eq!(junk.state.request_id.as_deref(), Some("upgrade"));
    assert_eq!(
        node.state().last_result.unwrap().outcome,
        Outcome::RolledBack
    );
}

#[test]
fn power_fails_in_the_middle() {
    let (old, new) = (csi_proxy("1.1.3"), csi_proxy("1.3.0"));
    let node = Node::new();
    assert_eq!(node.apply("first", &old).outcome, Outcome::Applied);

    node.upload("upgrade", &new, &sha256(&new));
    thread::scope(|scope| {
        let command = format!(r"{AGENT_EXE} apply --request {INCOMING_DIR}\upgrade.json");
        // It ends with the host.
        let host = &node.host;
        scope.spawn(move || host.run(&command).is_ok());
        let begin = Instant::now();
        while !node.local(JOURNAL_FILE).exists() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
        node.host.reboot().unwrap();
        // The result is noted last: it is there when all else is.
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
            (last.id.as_str(), last.outcome),
            ("upgrade", Outcome::RolledBack)
        );
        assert_eq!(state.request_id.as_deref(), Some("first"));

        let second = node.apply_uploaded("upgrade");
        assert_eq!(second.outcome, Outcome::Applied, "{second:?}");
        assert!(is_well(&second.state, &new), "{second:?}");
    });
}
