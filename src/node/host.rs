//! Operates the agent of a node over an SSH session: reads its status, installs it, sends it a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::paths::{
    AGENT_EXE, AGENT_PREFIX, BOOTSTRAP_DIR, CSI_PROXY_EXE, CSI_PROXY_PREFIX, INCOMING_DIR,
    REQUEST_PREFIX, STATE_DIR, is_brought, to_sftp,
};
use protocol::{Answer, ApplyResult, NodeState, Packed, Request, parts};

use crate::node::answer::{answer, brief, parse};
use crate::node::session::{Running, Session};
use crate::node::{Look, NodeError, Phases, PrivateKey, Reason, look, phases};
use crate::payload::{Payload, Program};

/// How long the agent may take to say what it sees.
const COMMAND: Duration = Duration::from_secs(60);
/// How long it may take to install or remove itself. Its own limits come to less: the wait for another install, the end of the
/// service before, a start on a slow disk, and one more where it goes back.
const INSTALL: Duration = Duration::from_secs(4 * 60);
/// How much longer than the agent's own limits its answer may take.
const MARGIN: Duration = Duration::from_secs(60);
/// How long a request's files may take to arrive, from the start of the command that waits for them.
const ARRIVAL: Duration = Duration::from_secs(15 * 60);
/// As many agents that were left behind are removed at one time.
const MOST_SWEPT: usize = 100;
/// Less than what the work on a node may take.
const MOST_SECONDS: u32 = 15 * 60;

/// A host that was connected to, and what can be sent there.
pub struct Host {
    /// The session.
    pub session: Session,
    /// The programs for nodes.
    pub payload: Payload,
    /// How long it all took.
    pub phases: Phases,
    /// Whether the node is known to have an agent.
    pub agent_seen: bool,
    /// The agent's program as it was sent, once it has served its purpose.
    left_over: Option<String>,
}

impl Host {
    /// With a session that is still to log in, or has.
    #[must_use]
    pub fn new(session: Session, payload: Payload, phases: Phases, agent_seen: bool) -> Self {
        Self {
            session,
            payload,
            phases,
            agent_seen,
            left_over: None,
        }
    }

    /// Logs in; says with which key.
    pub fn login<'k>(&mut self, user: &str, key: &'k PrivateKey) -> Result<&'k str, NodeError> {
        self.phase("login", |host| host.session.login(user, key))
    }

    /// Asks the agent for the node's state: `None` where there is no agent that gives one. Where one was seen before, it
    /// is asked at once: opening SFTP to look whether it is there takes more round trips than the question.
    pub fn status(&mut self) -> Result<Option<NodeState>, NodeError> {
        self.phase("status", |host| {
            if !host.agent_seen && !host.session.exists(&to_sftp(AGENT_EXE))? {
                return Ok(None);
            }
            host.agent_seen = true;
            let command = format!("{AGENT_EXE} status --file {CSI_PROXY_EXE}");
            let output = host.session.query(&command, COMMAND)?;
            match parse(&output) {
                Some(Answer::Status(state)) => return Ok(Some(state)),
                other if host.session.exists(&to_sftp(AGENT_EXE))? => {
                    tracing::warn!(answer = ?other, output = %brief(&output), "the agent on the node gives no status; it is installed again");
                }
                _ => host.agent_seen = false,
            }
            Ok(None)
        })
    }

    /// Looks whether another owner looks after csi-proxy there, where no agent says so.
    pub fn look(&mut self, replaces: bool) -> Result<Look, NodeError> {
        self.phase("look", |host| look::look(&mut host.session, replaces))
    }

    /// Sends the agent of the payload and installs it. What it says of the node then.
    pub fn install_agent(&mut self) -> Result<Option<NodeState>, NodeError> {
        let program = self.bring_agent()?;
        self.agent_seen = true;
        let sha256 = &self.payload.agent.sha256;
        let command = format!("{program} install --sha256 {sha256}");
        self.install(&command)
    }

    /// Whether an agent is installed there, or something is left of one.
    pub fn has_agent(&mut self) -> Result<bool, NodeError> {
        self.phase("status", |host| {
            Ok(look::has_agent_service(&mut host.session)?
                || host.session.exists(&to_sftp(AGENT_EXE))?
                || host.session.exists(&to_sftp(STATE_DIR))?)
        })
    }

    /// Has an agent that was just sent remove the one that is installed, and csi-proxy unless it is to stay as it is.
    pub fn remove_agent(&mut self, keeps_csi_proxy: bool) -> Result<(), NodeError> {
        let program = self.bring_agent()?;
        self.phase("agent removal", |host| {
            let option = if keeps_csi_proxy {
                " --keep-csi-proxy"
            } else {
                ""
            };
            let command = format!("{program} uninstall{option}");
            let output = host.session.run(&command, INSTALL)?;
            let problem = "the agent could not be removed";
            answer(&output, problem, "", |answer| match answer {
                Answer::Uninstalled {} => Some(()),
                _ => None,
            })
        })?;
        self.clean_up();
        Ok(())
    }

    /// Sends the agent of the payload, to be run from where it is; gives its path.
    fn bring_agent(&mut self) -> Result<String, NodeError> {
        let agent = self.payload.agent.clone();
        // One that was left behind may still run, or be held open: Windows would not let it be written over.
        let program = format!(r"{BOOTSTRAP_DIR}\{AGENT_PREFIX}{}.exe", unique());
        self.phase("agent upload", |host| {
            let content = read(&agent)?;
            let (bytes, version) = (content.len(), &agent.version);
            tracing::info!(bytes, version, "sending the agent");
            // Only this reconcile runs it, when it is whole, and before it changes anything it looks at its own content.
            if !host.session.make_folder(&to_sftp(BOOTSTRAP_DIR))? {
                host.sweep()?;
            }
            host.session.upload(&to_sftp(&program), &content)
        })?;
        self.left_over = Some(to_sftp(&program));
        Ok(program)
    }

    /// Removes agents that earlier reconciles were cut off from, so that they do not fill the disk.
    fn sweep(&mut self) -> Result<(), NodeError> {
        let folder = to_sftp(BOOTSTRAP_DIR);
        let found = self.session.files_in(&folder, MOST_SWEPT)?;
        let names = found.into_iter().flatten().map(|file| file.name);
        for name in names.filter(|name| is_brought(name)) {
            // One that still runs stays for the next time.
            let _ = self.session.remove(&format!("{folder}/{name}"));
        }
        Ok(())
    }

    /// Has the agent that is there put itself in place again, and start as a service.
    pub fn restart_agent(&mut self) -> Result<Option<NodeState>, NodeError> {
        self.install(&format!("{AGENT_EXE} install"))
    }

    fn install(&mut self, command: &str) -> Result<Option<NodeState>, NodeError> {
        let state = self.phase("agent install", |host| {
            let output = host.session.run(command, INSTALL)?;
            let problem = "the agent could not be installed";
            let hint = r"; does a virus scanner hold C:\k?";
            answer(&output, problem, hint, |answer| match answer {
                Answer::Installed { sha256, state } => {
                    tracing::info!(sha256, "the agent is installed and its service runs");
                    Some(state)
                }
                _ => None,
            })
        })?;
        match state {
            Some(state) => Ok(Some(*state)),
            None => self.status(),
        }
    }

    /// Hands the agent a request, with csi-proxy's program where it is not on the node, and waits for the result.
    pub fn apply(&mut self, request: &Request, with_files: bool) -> Result<ApplyResult, NodeError> {
        let limit = limit_of(request);
        let sending = if with_files {
            "csi-proxy upload"
        } else {
            "request"
        };
        let running = self.phase(sending, |host| host.send(request, with_files, limit))?;
        let begin = Instant::now();
        let span = phases::span("apply").entered();
        let output = running.finish(&mut self.session, limit + MARGIN);
        let output = output.map_err(|error| error.in_phase("apply"))?;
        drop(span);
        let hint = r"; see C:\var\log\windows-storage-agent on the node";
        let result = answer(
            &output,
            "the agent gave no result",
            hint,
            |answer| match answer {
                Answer::ApplyResult(result) => Some(result),
                _ => None,
            },
        )?;
        // What is left of the wait: unpacking, and the way there and back.
        let mut rest = begin.elapsed();
        for part in parts::OF_SERVICE {
            if let Some(&took) = result.durations.get(part) {
                let took = Duration::from_millis(took);
                rest = rest.saturating_sub(took);
                self.phases.add(part, took);
            }
        }
        self.phases.add(parts::UNPACK, rest);
        Ok(result)
    }

    /// Sends a request and what it needs, and starts the agent's command that takes them.
    fn send(
        &mut self,
        request: &Request,
        with_files: bool,
        limit: Duration,
    ) -> Result<Running, NodeError> {
        // A command that outlives its connection finds nothing of the next reconcile.
        let unique = unique();
        let mut request = request.clone();
        let mut file = None;
        if with_files {
            let csi_proxy = self.payload.csi_proxy.clone();
            let content = read(&csi_proxy)?;
            let path = announce(&mut request, &csi_proxy, content.len() as u64, &unique);
            let (bytes, version) = (content.len(), &csi_proxy.version);
            tracing::info!(bytes, version, "sending csi-proxy");
            if csi_proxy.packing.is_some() {
                file = Some((path, content));
            } else {
                // It has to be there before the command: nobody unpacks it, and so nobody waits for it.
                self.session.upload(&path, &content)?;
            }
        }
        let text = serde_json::to_vec(&request).map_err(|error| {
            let problem = format!("the request cannot be written: {error}");
            Reason::InvalidServices.error(problem)
        })?;
        let path = format!(r"{INCOMING_DIR}\{REQUEST_PREFIX}{unique}.json");
        self.session.upload(&to_sftp(&path), &text)?;
        let running = self.session.start(&format!(
            "{AGENT_EXE} apply --request {path} --timeout {} --arrival-timeout {}",
            (ARRIVAL + limit).as_secs(),
            ARRIVAL.as_secs()
        ))?;
        if let Some((packed, content)) = file {
            // The command comes up meanwhile, and waits: Windows' server lets nobody read a file before it is closed.
            self.session.upload(&packed, &content).inspect_err(|_| {
                let _ = self.session.remove(&to_sftp(&path));
                self.clean_up();
                // The command would wait for what does not come.
                self.session.give_up();
            })?;
        }
        Ok(running)
    }

    /// Removes what only this reconcile needed.
    pub fn clean_up(&mut self) {
        // What was refused the agent has reported already.
        let _ = self.session.confirm_closed();
        if let Some(path) = self.left_over.take() {
            // What stays is swept the next time.
            let _ = self.session.remove(&path);
            let _ = self.session.remove_folder(&to_sftp(BOOTSTRAP_DIR));
        }
    }

    /// Does a part of the work, and names it in what is logged meanwhile and in its error.
    fn phase<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Self) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let begin = Instant::now();
        let _span = phases::span(name).entered();
        let done = work(self);
        self.phases.add(name, begin.elapsed());
        done.map_err(|error| error.in_phase(name))
    }
}

/// A part of a name that nothing on a node has yet.
fn unique() -> String {
    format!("{:016x}", rand::random::<u64>())
}

fn read(program: &Program) -> Result<Arc<Vec<u8>>, NodeError> {
    let read = program.read();
    read.map_err(|error| Reason::PayloadUnusable.error(error.to_string()))
}

/// How long the agent may take with a request: one service after the other, stopped and started, and back again.
fn limit_of(request: &Request) -> Duration {
    let services = u32::try_from(request.services.len()).unwrap_or(u32::MAX);
    let seconds = (request.stop_timeout_seconds)
        .saturating_add(request.start_timeout_seconds)
        .saturating_mul(2)
        .saturating_mul(services.max(1))
        .min(MOST_SECONDS);
    Duration::from_secs(u64::from(seconds)) + MARGIN
}

/// Has a request say where csi-proxy comes and how; gives the path to send it to.
fn announce(request: &mut Request, program: &Program, size: u64, unique: &str) -> String {
    let upload = format!(r"{INCOMING_DIR}\{CSI_PROXY_PREFIX}{unique}.part");
    let packed = program.packing.map(|packing| Packed {
        path: format!(r"{INCOMING_DIR}\{CSI_PROXY_PREFIX}{unique}.zst"),
        format: packing.format,
        size,
        unpacked_size: packing.unpacked_size,
    });
    let mut files = request.files.iter_mut();
    if let Some(file) = files.find(|file| file.sha256 == program.sha256) {
        file.upload = Some(upload.clone());
        file.packed.clone_from(&packed);
    }
    to_sftp(&packed.map_or(upload, |packed| packed.path))
}
