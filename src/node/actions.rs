//! What is done on a node over one SSH session: look, bring the agent, hand it a request.

mod command;
mod delivery;

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::Durations;
use protocol::paths::{AGENT_EXE, BOOTSTRAP_DIR, CSI_PROXY_EXE, to_sftp};
use protocol::{Answer, ApplyResult, NodeState, Request};

use self::command::ApplyCommand;
use crate::node::answer::{answer, brief};
use crate::node::plan::Observed;
use crate::node::session::{Running, Session};
use crate::node::{NodeError, Phases, Reason, spans};
use crate::payload::{Payload, Program};

const COMMAND: Duration = Duration::from_secs(60);

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
    /// The command that takes the request, where it was started before there is one. The session has to be given up
    /// before it is dropped.
    waiting: Option<ApplyCommand>,
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
            waiting: None,
            left_over: Vec::new(),
        }
    }

    /// Asks the agent for the node's state. Where one was seen before, only if nothing answers it is looked whether there
    /// is an agent: opening SFTP takes more round trips than the question. At the first contact it is the other way
    /// round: SFTP is needed anyway where there is none.
    pub fn observe(&mut self) -> Result<Observed, NodeError> {
        let begin = Instant::now();
        let _phase = spans::phase("status").entered();
        let observed = self.look();
        self.phases.ended("status", begin);
        observed.map_err(|error| error.in_phase("status"))
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

    /// Brings the agent of the payload and installs it. On a node without an agent nearly always csi-proxy is missing as
    /// well: where a `request` for it will follow, it travels while the agent comes up, unless there is one, and so does
    /// the command that takes the request.
    pub fn bring_agent(&mut self, request: Option<&Request>) -> Result<Observed, NodeError> {
        let begin = Instant::now();
        let phase = spans::phase("agent upload").entered();
        let (agent, content) = read(&self.payload.agent)?;
        let program = format!(r"{BOOTSTRAP_DIR}\agent-{}.exe", &agent.sha256[..16]);
        tracing::info!(
            bytes = content.len(),
            version = agent.version,
            "sending the agent"
        );
        // Only this visit runs it, when it is whole, and before it changes anything it looks at its own content.
        let folder = to_sftp(BOOTSTRAP_DIR);
        let path = to_sftp(&program);
        let is_new = !self.agent_seen;
        let sent =
            self.session
                .upload_into((&folder, is_new), &path, &content, Session::open_channel);
        let channel = sent.map_err(|error| error.in_phase("agent upload"))?;
        self.left_over.push(path);
        self.phases.ended("agent upload", begin);
        self.agent_seen = true;
        drop(phase);
        let begin = Instant::now();
        let phase = spans::phase("agent install").entered();
        let install = format!("{program} install --sha256 {}", agent.sha256);
        let running = self.session.start_in(channel, &install)?;
        if let Some(request) = request {
            self.prepare_for(request, &program);
        }
        let mut installed = self.finish_install(running);
        let is_full = |error: &NodeError| error.reason == Reason::DiskFull;
        if self.early.is_some() && installed.as_ref().is_err_and(is_full) {
            // There may be room for one of them at a time.
            self.drop_early();
            installed = self
                .session
                .start(&install)
                .and_then(|running| self.finish_install(running));
        }
        self.phases.ended("agent install", begin);
        drop(phase);
        self.seen_after(installed.map_err(|error| error.in_phase("agent install"))?)
    }

    /// Brings and starts what the request will need while the agent is being installed by that program.
    fn prepare_for(&mut self, request: &Request, program: &str) {
        let mut command = ApplyCommand::new(program, request);
        let prepared = self
            .bring_early()
            .and_then(|()| command.start_early(&self.session));
        match prepared {
            Ok(()) => self.waiting = Some(command),
            // What follows tells, if it fails as well.
            Err(error) => {
                tracing::debug!(%error, "csi-proxy could not be brought while the agent came up");
            }
        }
    }

    /// Has the agent that is there put itself in place again, and start as a service.
    pub fn install_again(&mut self) -> Result<Observed, NodeError> {
        let begin = Instant::now();
        let phase = spans::phase("agent install").entered();
        let running = self.session.start(&format!("{AGENT_EXE} install"))?;
        let installed = self.finish_install(running);
        self.phases.ended("agent install", begin);
        drop(phase);
        self.seen_after(installed.map_err(|error| error.in_phase("agent install"))?)
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
        let bringing = if with_files {
            "csi-proxy upload"
        } else {
            "request"
        };
        let phase = spans::phase(bringing).entered();
        let mut command =
            (self.waiting.take()).unwrap_or_else(|| ApplyCommand::new(AGENT_EXE, request));
        let waits_already = command.is_started();
        let brought = self.bring(&mut command, request.clone(), with_files);
        if command.is_started() {
            // It would wait for what does not come.
            self.session.give_up();
        }
        let running = brought.map_err(|error| error.in_phase(bringing))?;
        if !waits_already {
            // Else the command runs one of them.
            self.tidy_up();
        }
        self.phases.ended(bringing, begin);
        drop(phase);
        let begin = Instant::now();
        let _phase = spans::phase("apply").entered();
        let output = running.finish(&self.session, command.limit);
        let output = output.map_err(|error| error.in_phase("apply"))?;
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
