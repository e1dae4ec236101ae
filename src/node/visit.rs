//! A visit to a node: connect, check the host key, log in, and take steps until nothing is left to do.

use std::time::Duration;

use windows_storage_agent::paths::{
    AGENT_EXE, BOOTSTRAP_DIR, CSI_PROXY_EXE, INCOMING_DIR, to_sftp,
};
use windows_storage_agent::protocol::{Answer, ApplyResult, NodeState, Outcome, Request};

use crate::node::host_key::Judgement;
use crate::node::plan::{Observed, Step, next_step};
use crate::node::session::{Cutter, Line, Output, Session, unreachable};
use crate::node::{Desired, HostKey, NodeError, Pins, Reason, Target};
use crate::payload::{Payload, Program};

/// How long a whole visit may take: a slow link included.
const VISIT: Duration = Duration::from_secs(20 * 60);
/// How long a server may take from the connection to its host key.
const HANDSHAKE: Duration = Duration::from_secs(30);
const COMMAND: Duration = Duration::from_secs(60);
/// How much longer than the agent's own limits its answer may take.
const MARGIN: Duration = Duration::from_secs(60);
/// A visit brings the agent, hands over the request, and looks once more. More steps mean that they have no effect.
const MOST_STEPS: usize = 5;

/// What a visit found and did.
#[derive(Debug, Default)]
pub struct Visited {
    /// What the agent last said; absent where there is no agent and none could be brought.
    pub state: Option<NodeState>,
    /// What went wrong, if anything.
    pub problem: Option<NodeError>,
    /// The request that did not work on the node and was undone.
    pub rolled_back: Option<String>,
}

/// A request that was undone is not handed over again, so that a node is not interrupted again and again.
pub struct Refused<'a> {
    /// The request's identifier.
    pub request_id: &'a str,
    /// How it ended.
    pub error: &'a NodeError,
}

/// Goes to the node and brings it to what is desired. `Err` means that the node was not reached.
pub async fn visit(
    target: &Target,
    payload: &Payload,
    pins: &Pins,
    refused: Option<Refused<'_>>,
) -> Result<Visited, NodeError> {
    let started = tokio::time::Instant::now();
    let (session, key, cutter) = connect(target, HANDSHAKE).await?;
    match pins.judge(&target.node, target.pin.as_ref(), &key) {
        Judgement::Known => {}
        Judgement::New => {
            pins.pin(&target.node, &key).await?;
            tracing::info!(
                key = %key.fingerprint(),
                kind = key.kind(),
                "host key pinned at the first contact"
            );
        }
        Judgement::Changed(error) => return Err(error),
    }
    let refused = refused.map(|refused| (refused.request_id.to_owned(), refused.error.clone()));
    let (target, payload, span) = (target.clone(), payload.clone(), tracing::Span::current());
    let work = move || {
        let _entered = span.entered();
        session.login(&target.user, &target.key)?;
        Ok(Work { session, payload }.carry_out(&target.desired, refused.as_ref()))
    };
    let done = blocking(VISIT.saturating_sub(started.elapsed()), work).await;
    // From here on nothing uses the connection, or time is up.
    drop(cutter);
    done.unwrap_or_else(|| {
        let minutes = VISIT.as_secs() / 60;
        Err(NodeError::new(
            Reason::TimedOut,
            format!(
                "work on the node took longer than {minutes} min and was given up; what runs on the node was left as it was"
            ),
        ))
    })
}

/// Connects and reads the host key, in two steps: the second can be cut, also where a server never stops to send.
/// Whoever drops the cutter cuts the connection; so does an early return from here, or an end of this future.
async fn connect(
    target: &Target,
    limit: Duration,
) -> Result<(Session, HostKey, Cutter), NodeError> {
    let (address, port, pin) = (target.address.clone(), target.port, target.pin.clone());
    let in_vain = |what: &str| {
        let problem = format!("{what} within {} s", limit.as_secs());
        unreachable(&format!("{}:{port}", target.address), &problem)
    };
    let opened = blocking(limit, move || Line::open(&address, port)).await;
    let (line, cutter) = opened.ok_or_else(|| in_vain("no connection"))??;
    let shaken = blocking(limit, move || Session::shake_hands(line, pin.as_ref())).await;
    let (session, key) = shaken.ok_or_else(|| in_vain("no SSH greeting"))??;
    Ok((session, key, cutter))
}

/// Runs blocking work on a thread of its own; `None` when time is up. The thread ends when its connection is cut.
async fn blocking<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match tokio::time::timeout(limit, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The process is ending, or time is up.
        Ok(Err(_)) | Err(_) => None,
    }
}

struct Work {
    session: Session,
    payload: Payload,
}

impl Work {
    fn carry_out(
        &mut self,
        desired: &Result<Desired, NodeError>,
        refused: Option<&(String, NodeError)>,
    ) -> Visited {
        let mut visited = Visited::default();
        if let Err(error) = self.steps(desired, refused, &mut visited) {
            visited.problem = Some(error);
        }
        visited
    }

    fn steps(
        &mut self,
        desired: &Result<Desired, NodeError>,
        refused: Option<&(String, NodeError)>,
        visited: &mut Visited,
    ) -> Result<(), NodeError> {
        let mut observed = self.observe()?;
        for _ in 0..MOST_STEPS {
            if let Observed::State(state) = &observed {
                visited.state = Some((**state).clone());
            }
            let desired = desired.as_ref().map_err(Clone::clone)?;
            observed = match next_step(desired, &observed) {
                Step::Done => return Ok(()),
                Step::BringAgent => {
                    self.bring_agent()?;
                    self.observe()?
                }
                Step::InstallAgent => {
                    self.install(AGENT_EXE, "")?;
                    self.observe()?
                }
                Step::Apply { with_files } => {
                    if let Some((_, error)) = refused.filter(|(id, _)| *id == desired.request.id) {
                        return Err(error.clone());
                    }
                    let result = self.apply(&desired.request, with_files)?;
                    visited.state = Some(result.state.clone());
                    judge_result(&result, visited)?;
                    Observed::State(Box::new(result.state))
                }
            };
        }
        Err(NodeError::new(
            Reason::AgentFailed,
            "the agent reports success, but the node does not come to the state that was asked for; see \
             C:\\var\\log\\windows-storage-agent on the node",
        ))
    }

    fn observe(&mut self) -> Result<Observed, NodeError> {
        if !self.session.exists(&to_sftp(AGENT_EXE))? {
            return Ok(Observed::NoAgent);
        }
        let output = self.session.run(
            &format!("{AGENT_EXE} status --file {CSI_PROXY_EXE}"),
            COMMAND,
        )?;
        match answer(&output) {
            Some(Answer::Status(state)) => Ok(Observed::State(Box::new(state))),
            other => {
                tracing::warn!(answer = ?other, output = %brief(&output), "the agent on the node gives no status; it is brought anew");
                Ok(Observed::SilentAgent)
            }
        }
    }

    fn bring_agent(&mut self) -> Result<(), NodeError> {
        let (agent, content) = read(&self.payload.agent)?;
        let program = format!(r"{BOOTSTRAP_DIR}\agent-{}.exe", &agent.sha256[..16]);
        let partial = format!("{}.part", to_sftp(&program));
        self.session.make_folders(&to_sftp(BOOTSTRAP_DIR))?;
        tracing::info!(
            bytes = content.len(),
            version = agent.version,
            "sending the agent"
        );
        self.session.upload(&partial, &content)?;
        self.session.rename(&partial, &to_sftp(&program))?;
        let installed = self.install(&program, &format!(" --sha256 {}", agent.sha256));
        // What was brought is a copy by now; one that cannot be removed is written over the next time.
        let _ = self.session.remove(&to_sftp(&program));
        installed
    }

    fn install(&mut self, program: &str, arguments: &str) -> Result<(), NodeError> {
        let output = self
            .session
            .run(&format!("{program} install{arguments}"), COMMAND)?;
        match answer(&output) {
            Some(Answer::Installed { sha256 }) => {
                tracing::info!(sha256, "the agent is installed and its service runs");
                Ok(())
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

    fn apply(&mut self, request: &Request, with_files: bool) -> Result<ApplyResult, NodeError> {
        let mut request = request.clone();
        if with_files {
            let (csi_proxy, content) = read(&self.payload.csi_proxy)?;
            let upload = format!(r"{INCOMING_DIR}\csi-proxy-{}.part", &csi_proxy.sha256[..16]);
            tracing::info!(
                bytes = content.len(),
                version = csi_proxy.version,
                "sending csi-proxy"
            );
            self.session.upload(&to_sftp(&upload), &content)?;
            for file in request
                .files
                .iter_mut()
                .filter(|file| file.sha256 == csi_proxy.sha256)
            {
                file.upload = Some(upload.clone());
            }
        }
        let text = serde_json::to_vec(&request).map_err(|error| {
            NodeError::new(
                Reason::InvalidServices,
                format!("the request cannot be written: {error}"),
            )
        })?;
        let path = format!(r"{INCOMING_DIR}\request-{}.json", &request.id[..16]);
        self.session.upload(&to_sftp(&path), &text)?;
        let seconds = request
            .stop_timeout_seconds
            .saturating_add(request.start_timeout_seconds)
            .saturating_mul(2);
        let limit = Duration::from_secs(u64::from(seconds)) + MARGIN;
        let command = format!(
            "{AGENT_EXE} apply --request {path} --timeout {}",
            limit.as_secs()
        );
        let output = self.session.run(&command, limit + MARGIN)?;
        // The agent keeps what it has taken; a file that stays behind here it removes later by itself.
        let _ = self.session.remove(&to_sftp(&path));
        match answer(&output) {
            Some(Answer::ApplyResult(result)) => Ok(result),
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

fn read(program: &Program) -> Result<(Program, Vec<u8>), NodeError> {
    let content = program
        .read()
        .map_err(|error| NodeError::new(Reason::PayloadUnusable, error.to_string()))?;
    Ok((program.clone(), content))
}

fn judge_result(result: &ApplyResult, visited: &mut Visited) -> Result<(), NodeError> {
    let failure = |default: &str| {
        result
            .failure
            .clone()
            .unwrap_or_else(|| windows_storage_agent::protocol::Failure {
                category: windows_storage_agent::protocol::FailureCategory::Unknown,
                message: default.to_owned(),
            })
    };
    match result.outcome {
        Outcome::Applied => {
            tracing::info!(
                interruption_ms = result.interruption_milliseconds,
                "csi-proxy is in place and its pipes are open"
            );
            Ok(())
        }
        Outcome::Unchanged => Ok(()),
        Outcome::RolledBack => {
            visited.rolled_back = Some(result.id.clone());
            Err(NodeError::from_agent(
                &failure("the agent undid the change"),
                true,
            ))
        }
        Outcome::Failed | Outcome::Unknown => Err(NodeError::from_agent(
            &failure("the agent reports a failure"),
            false,
        )),
    }
}

/// The answer is the last line of standard output; a shell may have put a byte-order mark before it.
fn answer(output: &Output) -> Option<Answer> {
    let line = output
        .stdout
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    serde_json::from_str(line.trim_start_matches('\u{feff}')).ok()
}

fn brief(output: &Output) -> String {
    let text = if output.stderr.trim().is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    let text = crate::node::error::printable(text);
    let start: String = text.chars().take(300).collect();
    if start.is_empty() {
        format!("it printed nothing and ended with status {}", output.status)
    } else {
        format!(
            "it said \"{start}\" and ended with status {}",
            output.status
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stdout: &str, stderr: &str) -> Output {
        Output {
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            status: 1,
        }
    }

    #[test]
    fn the_last_line_is_the_answer_whatever_the_shell_adds() {
        let text = "Welcome\r\n\u{feff}{\"kind\":\"Installed\",\"sha256\":\"x\"}\r\n\r\n";
        assert_eq!(
            answer(&output(text, "")),
            Some(Answer::Installed {
                sha256: "x".to_owned()
            })
        );
        assert_eq!(answer(&output("{\"kind\":\"Installed\"", "")), None);
        assert_eq!(answer(&output("", "")), None);
    }

    #[test]
    fn nothing_printed_is_said_in_words() {
        assert!(brief(&output(" \n", "")).contains("printed nothing"));
        assert!(brief(&output("", "not recognized")).contains("not recognized"));
    }

    #[tokio::test]
    async fn a_server_that_never_stops_to_send_is_cut_off() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let flood = tokio::task::spawn_blocking(move || {
            use std::io::Write;
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(&[b'A'; 4096]).is_ok() {}
        });
        let target = Target::of_test_host(port);
        let Err(error) = connect(&target, Duration::from_millis(300)).await else {
            panic!("there is no SSH server")
        };
        assert_eq!(error.reason, Reason::Unreachable);
        let ended = tokio::time::timeout(Duration::from_secs(10), flood).await;
        assert!(ended.is_ok(), "the connection is still open");
    }
}
