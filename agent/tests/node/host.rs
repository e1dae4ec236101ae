//! A Windows host with the agent installed, and the operations of tests on it.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use protocol::paths::{AGENT_EXE, AGENT_SERVICE, INCOMING_DIR};
use protocol::{
    Answer, ApplyResult, Failure, FailureCategory, NodeState, Outcome, PipeStatus, Request,
    ServiceState,
};
use sha2::{Digest, Sha256};

#[cfg(windows)]
use crate::native::{Fleet, WindowsHost};
pub use crate::programs::{Build, agent, csi_proxy};
#[cfg(unix)]
use testbed::windows_host::{Fleet, WindowsHost};

/// The pipes that both versions of csi-proxy open.
pub const PIPES: [&str; 6] = [
    "csi-proxy-disk-v1",
    "csi-proxy-filesystem-v1",
    "csi-proxy-volume-v1",
    "csi-proxy-smb-v1",
    "csi-proxy-system-v1alpha1",
    "csi-proxy-iscsi-v1alpha1",
];
/// More than any operation takes on a loaded machine; only failures wait this long.
pub const PATIENCE: Duration = Duration::from_secs(90);
pub const COMMAND: &str = r"C:\k\csi-proxy.exe -log_file=C:\var\log\csi-proxy\csi-proxy.log -logtostderr=false -windows-service -v=2";
/// The file in which a test sets the point at which the build for tests is killed.
pub const FAULT: &str = r"C:\k\windows-storage\fault";
/// The file in which the same build reports heap damage.
pub const HEAP_DAMAGE: &str = r"C:\k\windows-storage\heap.damage";

pub struct Node {
    pub host: WindowsHost,
    // Dropped after the host.
    _fleet: Fleet,
}

impl Node {
    pub fn new() -> Self {
        Self::with(Build::Payload)
    }

    /// Returns a host on which this build of the agent is installed.
    pub fn with(build: Build) -> Self {
        let fleet = Fleet::new().unwrap();
        let host = fleet.add_host("win-1").unwrap();
        let node = Self {
            host,
            _fleet: fleet,
        };
        fs::create_dir_all(node.local(INCOMING_DIR)).unwrap();
        let agent = agent(build);
        assert_eq!(node.install(&agent), Ok(sha256(&agent)));
        node
    }

    /// Uploads an agent and makes it install itself.
    pub fn install(&self, agent: &[u8]) -> Result<String, Failure> {
        match self.try_install(agent) {
            Some(Answer::Installed { sha256, state }) => {
                let seen = state.unwrap();
                assert_eq!(seen.agent_sha256.as_ref(), Some(&sha256));
                Ok(sha256)
            }
            Some(Answer::Error(failure)) => Err(failure),
            other => panic!("{other:?}"),
        }
    }

    /// Like [`Node::install`], where the command may die before it answers.
    pub fn try_install(&self, agent: &[u8]) -> Option<Answer> {
        let uploaded = format!(r"{INCOMING_DIR}\agent.exe");
        fs::write(self.local(&uploaded), agent).unwrap();
        self.try_answer(&format!("{uploaded} install --sha256 {}", sha256(agent)))
    }

    pub fn local(&self, path: &str) -> PathBuf {
        self.host
            .drive_c()
            .join(path.trim_start_matches(r"C:\").replace('\\', "/"))
    }

    /// Returns the output of a command.
    pub fn ask(&self, command: &str) -> String {
        let output = self.host.run(command).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn answer(&self, command: &str) -> Answer {
        let output = self.host.run(command).unwrap();
        answer_in(&output).unwrap_or_else(|| panic!("no answer to {command}: {output:?}"))
    }

    pub fn try_answer(&self, command: &str) -> Option<Answer> {
        answer_in(&self.host.run(command).unwrap())
    }

    pub fn state(&self) -> NodeState {
        match self.answer(&format!("{AGENT_EXE} status")) {
            Answer::Status(state) => state,
            other => panic!("{other:?}"),
        }
    }

    /// Applies a request that is already uploaded.
    pub fn apply_uploaded(&self, id: &str) -> ApplyResult {
        let command = format!(r"{AGENT_EXE} apply --request {INCOMING_DIR}\{id}.json");
        match self.answer(&command) {
            Answer::ApplyResult(result) => result,
            other => panic!("{other:?}"),
        }
    }

    /// Uploads a request `id` with this content for csi-proxy.exe.
    pub fn upload(&self, id: &str, content: &[u8], announced: &str) {
        let mut request = request(id);
        announced.clone_into(&mut request.sha256);
        fs::write(self.local(&upload_path(id)), content).unwrap();
        self.upload_request(&request);
    }

    pub fn upload_request(&self, request: &Request) {
        let file = self.local(&format!(r"{INCOMING_DIR}\{}.json", request.id));
        fs::write(file, serde_json::to_vec(request).unwrap()).unwrap();
    }

    pub fn apply(&self, id: &str, content: &[u8]) -> ApplyResult {
        self.upload(id, content, &sha256(content));
        self.apply_uploaded(id)
    }

    /// Applies this content for csi-proxy, and checks that it works.
    pub fn applied(&self, id: &str, content: &[u8]) -> ApplyResult {
        let result = self.apply(id, content);
        assert_eq!(result.end.outcome, Outcome::Applied, "{result:?}");
        assert!(is_well(&result.state, content), "{result:?}");
        result
    }

    /// Applies a request, and uploads its content if given.
    pub fn apply_request(&self, request: &Request, content: Option<&[u8]>) -> ApplyResult {
        if let Some(content) = content {
            fs::write(self.local(&upload_path(&request.id)), content).unwrap();
        }
        self.upload_request(request);
        self.apply_uploaded(&request.id)
    }

    /// Runs a Windows command that must succeed.
    pub fn run(&self, command: &str) -> String {
        let output = self.host.run(command).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command}: {output:?}");
        text
    }

    /// Starts the agent's service, as Windows does after a crash, and waits until it accepts calls: `net start` returns as
    /// soon as the service reports that it is starting.
    pub fn start_agent(&self) {
        let line = "agent is up";
        let before = self.lines(line);
        self.start_agent_until(line, || self.lines(line) > before);
    }

    /// Starts the agent's service while it is set to be killed once, and waits until it reaches that point.
    pub fn start_agent_to_die(&self) {
        self.start_agent_until("the agent dies", || !self.local(FAULT).exists());
    }

    /// Starts the agent's service until `holds` returns true. A start is refused while the previous process has not quite
    /// ended, and under Wine a program sometimes ends right after its start, which Windows would restart.
    pub fn start_agent_until(&self, what: &str, holds: impl Fn() -> bool) {
        const PATIENCE: Duration = Duration::from_secs(10);
        let started: Cell<Option<Instant>> = Cell::new(None);
        self.until(what, || {
            if holds() {
                return true;
            }
            if started.get().is_none_or(|at| at.elapsed() > PATIENCE) {
                let output = self
                    .host
                    .run(&format!("net start {AGENT_SERVICE}"))
                    .unwrap();
                if output.status.success() {
                    started.set(Some(Instant::now()));
                } else {
                    eprintln!("the agent is not started: {output:?}");
                }
            }
            holds()
        });
    }

    /// Stops the agent's service, and waits until its work is finished: `net stop` returns before that.
    pub fn stop_agent(&self) {
        let line = "agent stops";
        let before = self.lines(line);
        self.run(&format!("net stop {AGENT_SERVICE}"));
        self.until(line, || self.lines(line) > before);
    }

    /// Returns how often the agent has logged this.
    fn lines(&self, line: &str) -> usize {
        self.log().matches(line).count()
    }

    /// Returns a service's configuration: the lines of its registry key that the agent could change.
    pub fn configuration(&self, service: &str) -> String {
        let key = format!(r"reg query HKLM\SYSTEM\CurrentControlSet\Services\{service}");
        let names = ["ImagePath", "Start", "Description", "DependOn"];
        self.run(&key)
            .lines()
            .map(str::trim)
            .filter(|line| names.iter().any(|name| line.starts_with(name)))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Sets the point at which the agent is killed: its number, or the beginning of its name.
    pub fn die_at(&self, point: &str) {
        fs::write(self.local(FAULT), point).unwrap();
    }

    /// Returns the points that the agent has passed since the last call.
    pub fn points(&self) -> Vec<String> {
        let trace = self.local(&format!("{FAULT}.trace"));
        let passed = fs::read_to_string(&trace).unwrap_or_default();
        let _ = fs::remove_file(trace);
        let _ = fs::remove_file(self.local(FAULT));
        passed.lines().map(str::to_owned).collect()
    }

    pub fn log(&self) -> String {
        let log = self.local(r"C:\var\log\windows-storage-agent\agent.log");
        fs::read_to_string(log).unwrap_or_default()
    }

    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < PATIENCE, "{what}\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn eventually(&self, what: &str, wanted: impl Fn(&NodeState) -> bool) -> NodeState {
        let begin = Instant::now();
        loop {
            let state = self.state();
            if wanted(&state) {
                return state;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{what}: {state:?}\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let damage = fs::read_to_string(self.local(HEAP_DAMAGE)).unwrap_or_default();
        if !thread::panicking() {
            assert_eq!(damage, "", "the agent has damaged its heap");
        }
    }
}

fn answer_in(output: &Output) -> Option<Answer> {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim().lines().last()?).ok()
}

pub fn upload_path(id: &str) -> String {
    format!(r"{INCOMING_DIR}\{id}.exe")
}

/// Returns a request for csi-proxy; the program's hash is to be filled in.
pub fn request(id: &str) -> Request {
    Request {
        id: id.to_owned(),
        attempt: String::new(),
        sha256: String::new(),
        upload: Some(upload_path(id)),
        packed: None,
        flags: COMMAND.split(' ').skip(1).map(str::to_owned).collect(),
        replace_foreign: false,
        pipes: PIPES.map(str::to_owned).to_vec(),
        stop_timeout_seconds: 30,
        // Longer than it takes on a loaded machine; only a failure waits this long.
        start_timeout_seconds: 120,
    }
}

/// Returns a request for this content of csi-proxy.exe.
pub fn request_for(id: &str, content: &[u8]) -> Request {
    Request {
        sha256: sha256(content),
        ..request(id)
    }
}

pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Returns the message of a request that ended with this outcome and failure category.
#[track_caller]
pub fn message_of(result: &ApplyResult, outcome: Outcome, category: FailureCategory) -> &str {
    assert_eq!(result.end.outcome, outcome, "{result:?}");
    let failure = result.end.failure.as_ref().unwrap();
    assert_eq!(failure.category, category, "{result:?}");
    &failure.message
}

/// Returns whether csi-proxy runs with this content and answers on all its pipes.
pub fn is_well(state: &NodeState, content: &[u8]) -> bool {
    state.csi_proxy.state == ServiceState::Running
        && state.pipes.len() == PIPES.len()
        && state.pipes.iter().all(PipeStatus::answers)
        && state.csi_proxy.sha256 == Some(sha256(content))
}
