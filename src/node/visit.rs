//! A visit to a node: connect, check the host key, log in, and take steps until nothing is left to do.

use std::time::Duration;

use windows_storage_agent::paths::AGENT_EXE;
use windows_storage_agent::protocol::{ApplyResult, NodeState, Outcome};

use crate::node::actions::Actions;
use crate::node::host_key::Judgement;
use crate::node::plan::{Observed, Step, next_step};
use crate::node::session::{Cutter, Line, Session, place, unreachable};
use crate::node::{Desired, HostKey, NodeError, Pins, Reason, Target};
use crate::payload::Payload;

/// How long a whole visit may take: a slow link included.
const VISIT: Duration = Duration::from_secs(20 * 60);
/// How long a server may take from the connection to its host key.
const HANDSHAKE: Duration = Duration::from_secs(30);
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
        Judgement::Refused(error) => return Err(error),
    }
    let refused = refused.map(|refused| (refused.request_id.to_owned(), refused.error.clone()));
    let (target, payload, span) = (target.clone(), payload.clone(), tracing::Span::current());
    let work = move || {
        let _entered = span.entered();
        session.login(&target.user, &target.key)?;
        Ok(Actions { session, payload }.carry_out(&target.desired, refused.as_ref()))
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
        unreachable(&place(&target.address, port), &problem)
    };
    let opened = blocking(limit, move || Line::open(&address, port)).await;
    let (line, cutter) = opened.ok_or_else(|| in_vain("no connection"))??;
    let shaken = blocking(limit, move || {
        let known: Vec<&str> = pin.iter().map(HostKey::kind).collect();
        Session::shake_hands(line, &known)
    })
    .await;
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

impl Actions {
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

#[cfg(test)]
mod cuts;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod scene;

#[cfg(test)]
mod tests {
    use super::*;

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
