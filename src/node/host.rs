//! Operates the agent of a node over an SSH session: reads its status, installs it, sends it a request.

use std::sync::Arc;
use std::time::Duration;

use protocol::paths::{
    AGENT_EXE, AGENT_PREFIX, BOOTSTRAP_DIR, CSI_PROXY_PREFIX, INCOMING_DIR, REQUEST_PREFIX,
    STATE_DIR, is_brought, to_sftp,
};
use protocol::{Answer, ApplyResult, NodeState, Packed, Request};

use crate::node::answer::{answer, brief, is_other_status, parse, unanswered};
use crate::node::payload::{Payload, Program};
use crate::node::session::{Output, Session};
use crate::node::{NodeError, Reason, look};

/// Time limit for the agent's `status` command.
const COMMAND: Duration = Duration::from_secs(60);
/// Time limit for the agent to install or remove itself. The agent's own limits add up to less: waiting for another
/// install, stopping the old service, a start on a slow disk, and another start on a rollback.
const INSTALL: Duration = Duration::from_secs(5 * 60);
/// How much longer than the agent's own limits its answer may take.
const MARGIN: Duration = Duration::from_secs(60);
/// How many leftover agents are removed at a time.
const MOST_SWEPT: usize = 100;

/// A connected host, and the programs that can be sent to it.
pub struct Host {
    /// The session.
    pub session: Session,
    /// The programs for nodes.
    pub payload: Payload,
    /// Whether Windows has named our installed agent in this session. Nothing on the node is run by its path before.
    pub is_installed: bool,
    /// Whether the installed agent is of another version, whose answers have another form.
    pub is_of_another_version: bool,
    /// Path of the uploaded agent, to be removed when the work is done.
    left_over: Option<String>,
}

impl Host {
    /// Creates it from a session, before or after the login.
    pub fn new(session: Session, payload: Payload) -> Self {
        Self {
            session,
            payload,
            is_installed: false,
            is_of_another_version: false,
            left_over: None,
        }
    }

    /// Returns the node's state from the installed agent; `None` if there is none, or if it gives none.
    pub fn status(&mut self) -> Result<Option<NodeState>, NodeError> {
        self.is_installed = look::is_agent_installed(&mut self.session)?;
        if !self.is_installed {
            return Ok(None);
        }
        let output = self.ask_status()?;
        match parse(&output) {
            Some(Answer::Status(state)) => Ok(Some(state)),
            _ if is_other_status(&output) => {
                tracing::info!("the agent on the node is of another version; it is replaced");
                self.is_of_another_version = true;
                Ok(None)
            }
            other => {
                tracing::warn!(answer = ?other, output = %brief(&output), "the agent on the node gives no status; it is installed again");
                Ok(None)
            }
        }
    }

    fn ask_status(&mut self) -> Result<Output, NodeError> {
        self.session.query(&format!("{AGENT_EXE} status"), COMMAND)
    }

    /// Uploads the payload's agent and installs it. Returns the node's state from the new agent.
    pub fn install_agent(&mut self) -> Result<Option<NodeState>, NodeError> {
        let program = self.bring_agent()?;
        let sha256 = &self.payload.agent.sha256;
        let command = format!("{program} install --sha256 {sha256}");
        self.install(&command)
    }

    /// Returns whether an agent is installed, or parts of one are left.
    pub fn has_agent(&mut self) -> Result<bool, NodeError> {
        Ok(look::has_agent_service(&mut self.session)?
            || self.session.exists(&to_sftp(AGENT_EXE))?
            || self.session.exists(&to_sftp(STATE_DIR))?)
    }

    /// Uploads an agent that removes the installed one, and csi-proxy too unless `keeps_csi_proxy`.
    pub fn remove_agent(&mut self, keeps_csi_proxy: bool) -> Result<(), NodeError> {
        let program = self.bring_agent()?;
        let option = if keeps_csi_proxy {
            " --keep-csi-proxy"
        } else {
            ""
        };
        let command = format!("{program} uninstall{option}");
        let output = self.session.run(&command, INSTALL)?;
        let Some(Answer::Uninstalled {}) = answer(&output)? else {
            return Err(unanswered(&output, "the agent could not be removed", ""));
        };
        self.clean_up();
        Ok(())
    }

    /// Uploads the payload's agent, to be run from where it is, and returns its path.
    fn bring_agent(&mut self) -> Result<String, NodeError> {
        let agent = self.payload.agent.clone();
        // Use a new name: a leftover agent may still run or be open, and Windows would refuse to overwrite it.
        let program = format!(r"{BOOTSTRAP_DIR}\{AGENT_PREFIX}{}.exe", unique());
        let content = read(&agent)?;
        let (bytes, version) = (content.len(), &agent.version);
        tracing::info!(bytes, version, "sending the agent");
        // Only this reconcile runs it, once it is complete, and it verifies its own content before it changes anything.
        if !self.session.make_folder(&to_sftp(BOOTSTRAP_DIR))? {
            self.sweep()?;
        }
        self.session.upload(&to_sftp(&program), &content)?;
        self.left_over = Some(to_sftp(&program));
        Ok(program)
    }

    /// Removes agents that interrupted reconciles left behind, so that they do not fill the disk.
    fn sweep(&mut self) -> Result<(), NodeError> {
        let folder = to_sftp(BOOTSTRAP_DIR);
        let found = self.session.files_in(&folder, MOST_SWEPT)?;
        let names = found.into_iter().flatten().map(|file| file.name);
        for name in names.filter(|name| is_brought(name)) {
            // An agent that still runs is removed next time.
            let _ = self.session.remove(&format!("{folder}/{name}"));
        }
        Ok(())
    }

    /// Has the installed agent install itself again and start as a service.
    pub fn restart_agent(&mut self) -> Result<Option<NodeState>, NodeError> {
        self.install(&format!("{AGENT_EXE} install"))
    }

    fn install(&mut self, command: &str) -> Result<Option<NodeState>, NodeError> {
        let output = self.session.run(command, INSTALL)?;
        let Some(Answer::Installed { sha256, state }) = answer(&output)? else {
            let hint = r"; does a virus scanner hold C:\k?";
            let problem = "the agent could not be installed";
            return Err(unanswered(&output, problem, hint));
        };
        tracing::info!(sha256, "the agent is installed and its service runs");
        if let Some(state) = state {
            return Ok(Some(*state));
        }
        // It says why.
        match answer(&self.ask_status()?)? {
            Some(Answer::Status(state)) => Ok(Some(state)),
            _ => Ok(None),
        }
    }

    /// Sends the agent a request, with csi-proxy's program if `with_program`, and waits for the result.
    pub fn apply(
        &mut self,
        request: &Request,
        with_program: bool,
    ) -> Result<ApplyResult, NodeError> {
        // Unique names: a command that outlives its connection must not find files of the next reconcile.
        let unique = unique();
        let mut request = request.clone();
        if with_program {
            let csi_proxy = self.payload.csi_proxy.clone();
            let content = read(&csi_proxy)?;
            let path = announce(&mut request, &csi_proxy, &unique);
            let (bytes, version) = (content.len(), &csi_proxy.version);
            tracing::info!(bytes, version, "sending csi-proxy");
            self.session.upload(&path, &content)?;
        }
        // Plain data always serializes.
        let text = serde_json::to_vec(&request).unwrap_or_default();
        let path = format!(r"{INCOMING_DIR}\{REQUEST_PREFIX}{unique}.json");
        self.session.upload(&to_sftp(&path), &text)?;
        let limit = limit_of(&request);
        let seconds = limit.as_secs();
        let command = format!("{AGENT_EXE} apply --request {path} --timeout {seconds}");
        let output = self.session.run(&command, limit + MARGIN)?;
        let Some(Answer::ApplyResult(result)) = answer(&output)? else {
            let hint = r"; see C:\var\log\windows-storage-agent on the node";
            return Err(unanswered(&output, "the agent gave no result", hint));
        };
        Ok(result)
    }

    /// Removes files that only this reconcile needed.
    pub fn clean_up(&mut self) {
        if let Some(path) = self.left_over.take() {
            // What cannot be removed now is swept next time.
            let _ = self.session.remove(&path);
            let _ = self.session.remove_folder(&to_sftp(BOOTSTRAP_DIR));
        }
    }
}

/// Returns a random part of a name, which nothing on a node has yet.
fn unique() -> String {
    format!("{:016x}", rand::random::<u64>())
}

fn read(program: &Program) -> Result<Arc<Vec<u8>>, NodeError> {
    let read = program.read();
    read.map_err(|error| Reason::PayloadUnusable.error(error.to_string()))
}

/// Returns the agent's time limit for a request: csi-proxy is stopped and started, and again on a rollback.
fn limit_of(request: &Request) -> Duration {
    let seconds = request.stop_timeout_seconds + request.start_timeout_seconds;
    Duration::from_secs(2 * u64::from(seconds)) + MARGIN
}

/// Sets in a request where and how csi-proxy arrives. Returns the path to upload it to.
fn announce(request: &mut Request, program: &Program, unique: &str) -> String {
    let upload = format!(r"{INCOMING_DIR}\{CSI_PROXY_PREFIX}{unique}.part");
    let packed = program.packed.as_ref().map(|packed| Packed {
        path: format!(r"{INCOMING_DIR}\{CSI_PROXY_PREFIX}{unique}.zst"),
        unpacked_size: packed.unpacked_size,
    });
    request.upload = Some(upload.clone());
    request.packed.clone_from(&packed);
    to_sftp(&packed.map_or(upload, |packed| packed.path))
}
