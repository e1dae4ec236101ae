//! What is done on a node over one SSH session: look, bring the agent, hand it a request.

mod delivery;

use std::sync::Arc;
use std::time::{Duration, Instant};

use windows_storage_agent::durations::Durations;
use windows_storage_agent::paths::{
    AGENT_EXE, BOOTSTRAP_DIR, CSI_PROXY_EXE, INCOMING_DIR, REQUEST_PREFIX, to_sftp,
};
use windows_storage_agent::protocol::{Answer, ApplyResult, NodeState, Request};

use self::delivery::announce;
use crate::node::answer::{answer, brief};
use crate::node::plan::Observed;
use crate::node::session::{Running, Session};
use crate::node::{NodeError, Phases, Reason};
use crate::payload::{Payload, Program};

const COMMAND: Duration = Duration::from_secs(60);
/// How much longer than the agent's own limits its answer may take.
const MARGIN: Duration = Duration::from_secs(60);

/// How long a request's files may take to arrive, from the start of the command that waits for them.
const ARRIVAL: Duration = Duration::from_secs(15 * 60);

/// Less than what a whole visit may take.
const MOST_SECONDS: u32 = 15 * 60;

/// A session with a node, and what can be brought there.
pub struct Actions {
    /// The session, logged in.
    pub session: Session,
    /// The programs for nodes.
    pub payload: Payload,
    /// How long it all took.
    pub phases: Phases,
    /// Whether the node is known to have an agent.
    pub agent_seen: bool,
    /// csi-proxy as it travels, and its size, where it came before there was a request for it.
    early: Option<(String, u64)>,
    /// What was brought and has served its purpose, to be removed when that keeps nobody waiting.
    left_over: Vec<String>,
}

impl Actions {
    /// With a session that has logged in.
    #[must_use]
    pub fn new(session: Session, payload: Payload, phases: Phases, agent_seen: bool) -> Self {
        Self {
            session,
            payload,
            phases,
            agent_seen,
            early: None,
            left_over: Vec::new(),
        }
    }

    /// Asks the agent for the node's state. Where one was seen before, only if nothing answers it is looked whether there
    /// is an agent: opening SFTP takes more round trips than the question. At the first contact it is the other way
    /// round: SFTP is needed anyway where there is none.
    pub fn observe(&mut self) -> Result<Observed, NodeError> {
        let begin = Instant::now();
        let observed = self.look();
        self.phases.ended("status", begin);
        observed
    }

    fn look(&mut self) -> Result<Observed, NodeError> {
        if !self.agent_seen && !self.session.exists(&to_sftp(AGENT_EXE))? {
            return Ok(Observed::NoAgent);
        }
        self.agent_seen = true;
        let output = self.session.run(
            &format!("{AGENT_EXE} status --file {CSI_PROXY_EXE}"),
            COMMAND,
        )?;
        match answer(&output) {
            Some(Answer::Status(state)) => Ok(Observed::State(Box::new(state))),
            _ if !self.session.exists(&to_sftp(AGENT_EXE))? => Ok(Observed::NoAgent),
            other => {
                tracing::warn!(answer = ?other, output = %brief(&output), "the agent on the node gives no status; it is brought anew");
                Ok(Observed::SilentAgent)
            }
        }
    }

    /// Brings the agent of the payload and installs it. With `csi_proxy` that travels while the agent comes up, unless
    /// there is one: on a node without an agent nearly always both are missing.
    pub fn bring_agent(&mut self, csi_proxy: bool) -> Result<Observed, NodeError> {
        let begin = Instant::now();
        let (agent, content) = read(&self.payload.agent)?;
        let program = format!(r"{BOOTSTRAP_DIR}\agent-{}.exe", &agent.sha256[..16]);
        tracing::info!(
            bytes = content.len(),
            version = agent.version,
            "sending the agent"
        );
        // Only this visit runs it, when it is whole, and it looks at its own content before all else.
        let folder = to_sftp(BOOTSTRAP_DIR);
        let path = to_sftp(&program);
        self.session
            .upload_into(&folder, !self.agent_seen, &path, &content)?;
        self.left_over.push(path);
        self.phases.ended("agent upload", begin);
        self.agent_seen = true;
        let begin = Instant::now();
        let arguments = format!(" --sha256 {}", agent.sha256);
        let running = self.start_install(&program, &arguments)?;
        if csi_proxy && let Err(error) = self.bring_early() {
            // The request's own upload tells, if it fails as well.
            tracing::debug!(%error, "csi-proxy could not be brought while the agent came up");
        }
        let mut installed = self.finish_install(running);
        let is_full = |error: &NodeError| error.reason == Reason::DiskFull;
        if self.early.is_some() && installed.as_ref().is_err_and(is_full) {
            // There may be room for one of them at a time.
            self.drop_early();
            installed = self
                .start_install(&program, &arguments)
                .and_then(|running| self.finish_install(running));
        }
        self.phases.ended("agent install", begin);
        self.seen_after(installed?)
    }

    /// Has the agent that is there put itself in place again, and start as a service.
    pub fn install_again(&mut self) -> Result<Observed, NodeError> {
        let begin = Instant::now();
        let running = self.start_install(AGENT_EXE, "")?;
        let installed = self.finish_install(running);
        self.phases.ended("agent install", begin);
        self.seen_after(installed?)
    }

    fn start_install(&mut self, program: &str, arguments: &str) -> Result<Running, NodeError> {
        self.session.start(&format!("{program} install{arguments}"))
    }

    fn finish_install(&mut self, running: Running) -> Result<Option<Box<NodeState>>, NodeError> {
        let output = running.finish(&self.session, COMMAND)?;
        match answer(&output) {
            Some(Answer::Installed { sha256, state }) => {
                tracing::info!(sha256, "the agent is installed and its service runs");
                Ok(state)
            }
            Some(Answer::Error(failure)) => Err(NodeError::from_agent(&failure, false)),
            _ => Err(NodeError::new(
                Reason::AgentFailed,
                format!(
                    "the agent could not be installed: {}; does a virus scanner hold C:\\k?",
                    brief(&output)
                ),
            )),
        }
    }

    /// What an agent has said of the node when it was installed; one that has not is asked.
    fn seen_after(&mut self, state: Option<Box<NodeState>>) -> Result<Observed, NodeError> {
        match state {
            Some(state) => Ok(Observed::State(state)),
            None => self.observe(),
        }
    }

    /// Hands the agent a request, with csi-proxy's binary where it is not on the node, and waits for the result.
    ///
    /// The agent's command starts while the files travel, and unpacks what has come.
    pub fn apply(&mut self, request: &Request, with_files: bool) -> Result<ApplyResult, NodeError> {
        let begin = Instant::now();
        let mut request = request.clone();
        let visit = format!("{:016x}", rand::random::<u64>());
        let path = format!(r"{INCOMING_DIR}\{REQUEST_PREFIX}{visit}.json");
        let seconds = request
            .stop_timeout_seconds
            .saturating_add(request.start_timeout_seconds)
            .saturating_mul(2)
            // One service after the other, and back again.
            .saturating_mul(
                u32::try_from(request.services.len())
                    .unwrap_or(u32::MAX)
                    .max(1),
            )
            .min(MOST_SECONDS);
        let limit = Duration::from_secs(u64::from(seconds)) + MARGIN;
        let command = format!(
            "{AGENT_EXE} apply --request {path} --timeout {} --arrival-timeout {}",
            (ARRIVAL + limit).as_secs(),
            ARRIVAL.as_secs()
        );
        if with_files && self.payload.csi_proxy.packing.is_none() {
            // What is not packed has to be there before the command: nobody unpacks it, and so nobody waits for it.
            let (csi_proxy, content) = read(&self.payload.csi_proxy)?;
            let upload = announce(&mut request, &csi_proxy, content.len() as u64, &visit);
            self.session.upload(&to_sftp(&upload), &content)?;
        }
        let running = self.bring(&path, request, with_files, &visit, &command)?;
        self.tidy_up();
        self.phases.ended(
            if with_files {
                "csi-proxy upload"
            } else {
                "request"
            },
            begin,
        );
        let begin = Instant::now();
        let output = running.finish(&self.session, limit + MARGIN)?;
        let took = begin.elapsed();
        match answer(&output) {
            Some(Answer::ApplyResult(result)) => {
                self.note(&result.durations, took);
                Ok(result)
            }
            Some(Answer::Error(failure)) => Err(NodeError::from_agent(&failure, false)),
            _ => Err(NodeError::new(
                Reason::AgentFailed,
                format!(
                    "the agent gave no result: {}; see C:\\var\\log\\windows-storage-agent on the node",
                    brief(&output)
                ),
            )),
        }
    }
}

impl Actions {
    /// What the agent's service says of its time, and what is left of the wait for it: unpacking what had arrived last, and
    /// the way there and back.
    fn note(&mut self, durations: &Durations, waited: Duration) {
        let service: Vec<_> = durations
            .named()
            .into_iter()
            .filter(|(name, _)| *name != "unpack")
            .filter_map(|(name, took)| Some((name, Duration::from_millis(took?))))
            .collect();
        let sum: Duration = service.iter().map(|(_, took)| *took).sum();
        self.phases.add("unpack", waited.saturating_sub(sum));
        for (name, took) in service {
            self.phases.add(name, took);
        }
    }
}

fn read(program: &Program) -> Result<(Program, Arc<Vec<u8>>), NodeError> {
    let content = program
        .read()
        .map_err(|error| NodeError::new(Reason::PayloadUnusable, error.to_string()))?;
    Ok((program.clone(), content))
}
