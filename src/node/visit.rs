//! A visit to a node: connect, check the host key, log in, and take steps until nothing is left to do.

mod left_alone;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::sync::Semaphore;
use windows_storage_agent::paths::AGENT_EXE;
use windows_storage_agent::protocol::{ApplyResult, Failure, FailureCategory, NodeState, Outcome};

use crate::deadline;
use crate::node::actions::Actions;
use crate::node::host_key::Judgement;
use crate::node::plan::{Observed, Step, interrupts, is_working, next_step};
use crate::node::rollout::Standing;
use crate::node::session::{Cutter, Line, Session, place, unreachable};
use crate::node::turns::{Turn, Turns};
use crate::node::variables::{fill_in, needs_node};
use crate::node::{Desired, HostKey, NodeError, Phases, Pins, Reason, Target};
use crate::payload::Payload;

pub use left_alone::describe_foreign;

/// How long a whole visit may take: a slow link included.
const VISIT: Duration = Duration::from_secs(20 * 60);
/// How long a server may take from the connection to its host key.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// A visit brings the agent, hands over the request, and looks once more. More steps mean that they have no effect.
const MOST_STEPS: usize = 5;

/// How long a host that has shaken hands may have to wait until others are done: OpenSSH gives two minutes to log in.
const QUEUE: Duration = Duration::from_secs(60);
/// Connections that are being made at one time. Dead hosts hold only these.
const CONCURRENT_CONNECTS: usize = 64;
/// Nodes that are worked on at one time; each may hold some megabytes of a transfer.
const CONCURRENT_WORK: usize = 32;

/// What a visit found and did.
#[derive(Debug, Default)]
pub struct Visited {
    /// What the agent last said; absent where there is no agent and none could be brought.
    pub state: Option<NodeState>,
    /// What went wrong, if anything.
    pub problem: Option<NodeError>,
    /// How far the node is on the way to what is desired.
    pub standing: Standing,
    /// How long the parts of the visit took.
    pub phases: Phases,
}

impl Visited {
    /// Whether nothing is wrong, but that it is not the node's turn.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.problem.is_none() && self.standing == Standing::Waiting
    }
}

/// What visits share.
pub struct Tools {
    /// The programs for nodes.
    pub payload: Payload,
    /// Where host keys are kept.
    pub pins: Pins,
    /// Whose turn it is.
    pub turns: Turns,
    /// The Nodes, for what services want to know of theirs.
    pub nodes: Api<Node>,
    connecting: Semaphore,
    working: Semaphore,
}

impl Tools {
    /// Tools with all places free.
    #[must_use]
    pub fn new(payload: Payload, pins: Pins, turns: Turns, nodes: Api<Node>) -> Self {
        Self {
            payload,
            pins,
            turns,
            nodes,
            connecting: Semaphore::new(CONCURRENT_CONNECTS),
            working: Semaphore::new(CONCURRENT_WORK),
        }
    }
}

/// Goes to the node and brings it to what is desired. `Err` means that the node was not reached.
pub async fn visit(target: &Target, tools: &Tools) -> Result<Visited, NodeError> {
    let connected = {
        // The semaphores are never closed; without a permit the visit only is not bounded.
        let _permit = tools.connecting.acquire().await.ok();
        connect(target, HANDSHAKE).await
    };
    let (session, key, cutter, mut phases) = connected?;
    let begin = Instant::now();
    match tools.pins.judge_by(&target.host_keys, &target.node, &key) {
        Judgement::Known => {}
        Judgement::New => {
            tools.pins.pin(&target.node, &key).await?;
            tracing::info!(
                key = %key.fingerprint(),
                kind = key.kind(),
                "host key pinned at the first contact"
            );
        }
        Judgement::Refused(error) => {
            if error.reason == Reason::HostKeyUnknown {
                // The command that accepts a key changes the ConfigMap, so it has to be there.
                tools.pins.make().await?;
            }
            return Err(error);
        }
    }
    let desired = match &target.desired {
        Ok(desired) if needs_node(&desired.request) => filled_in(desired, target, tools).await,
        other => other.clone(),
    };
    let Ok(_permit) = tokio::time::timeout(QUEUE, tools.working.acquire()).await else {
        return Err(NodeError::new(
            Reason::TimedOut,
            format!(
                "{CONCURRENT_WORK} other nodes were worked on for more than {} s; this one comes later",
                QUEUE.as_secs()
            ),
        ));
    };
    phases.ended("host key", begin);
    let (target, payload, turns) = (target.clone(), tools.payload.clone(), tools.turns.clone());
    let span = tracing::Span::current();
    let work = move || {
        let _entered = span.entered();
        let begin = Instant::now();
        session.login(&target.user, &target.key)?;
        phases.ended("login", begin);
        let mut actions = Actions {
            session,
            payload,
            phases,
        };
        Ok(actions.carry_out(&target.node, &desired, &turns))
    };
    let done = blocking(VISIT, work).await;
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

/// What is desired of this very node: with what its services want to know of the Node object.
async fn filled_in(
    desired: &Desired,
    target: &Target,
    tools: &Tools,
) -> Result<Desired, NodeError> {
    let unread = |problem: String| {
        NodeError::new(
            Reason::UnresolvedCommand,
            format!("the values of nodeVariablesInCommand cannot be read: {problem}"),
        )
    };
    let node = deadline::call("read Node", tools.nodes.get(&target.node))
        .await
        .map_err(|error| unread(error.to_string()))?;
    let node = serde_json::to_value(&node).map_err(|error| unread(error.to_string()))?;
    let request = fill_in(&desired.request, &node)?;
    Ok(Desired {
        request,
        ..desired.clone()
    })
}

/// Connects and reads the host key, in two steps: the second can be cut, also where a server never stops to send.
/// Whoever drops the cutter cuts the connection; so does an early return from here, or an end of this future.
async fn connect(
    target: &Target,
    limit: Duration,
) -> Result<(Session, HostKey, Cutter, Phases), NodeError> {
    let (address, port) = (target.address.clone(), target.port);
    let policy = target.host_keys.clone();
    let in_vain = |what: &str| {
        let problem = format!("{what} within {} s", limit.as_secs());
        unreachable(&place(&target.address, port), &problem)
    };
    let mut phases = Phases::default();
    let begin = Instant::now();
    let opened = blocking(limit, move || Line::open(&address, port)).await;
    let (line, cutter) = opened.ok_or_else(|| in_vain("no connection"))??;
    phases.ended("connect", begin);
    let begin = Instant::now();
    let shaken = blocking(limit, move || Session::shake_hands(line, &policy.kinds())).await;
    let (session, key) = shaken.ok_or_else(|| in_vain("no SSH greeting"))??;
    phases.ended("handshake", begin);
    Ok((session, key, cutter, phases))
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
        node: &str,
        desired: &Result<Desired, NodeError>,
        turns: &Turns,
    ) -> Visited {
        let mut visited = Visited {
            standing: Standing::OutOfReach,
            ..Visited::default()
        };
        if let Err(error) = self.steps(node, desired, turns, &mut visited) {
            visited.problem = Some(error);
        }
        visited.phases = self.phases.clone();
        visited
    }

    fn steps(
        &mut self,
        node: &str,
        desired: &Result<Desired, NodeError>,
        turns: &Turns,
        visited: &mut Visited,
    ) -> Result<(), NodeError> {
        let mut observed = self.observe()?;
        let mut turn: Option<Turn> = None;
        let mut brought = false;
        let mut changed = false;
        for _ in 0..MOST_STEPS {
            visited.standing = Standing::Bare;
            let desired = desired.as_ref().map_err(Clone::clone);
            let mut kept = false;
            if let Observed::State(state) = &observed {
                kept = desired.as_ref().is_ok_and(|desired| {
                    state.request_id.as_deref() == Some(desired.request.id.as_str())
                });
                let works = desired.as_ref().map_or_else(
                    |_| is_working(state),
                    |desired| interrupts(&desired.request, state),
                );
                visited.standing = match (works, kept) {
                    (true, true) => Standing::Current,
                    (true, false) => Standing::Waiting,
                    (false, _) => Standing::Bare,
                };
                visited.state = Some((**state).clone());
                if turn.is_none() && state.unfinished_request_id.is_none() {
                    turns.is_settled(node);
                }
            }
            let desired = desired?;
            let mut step = next_step(desired, &observed, turn.is_some());
            if step == Step::AwaitTurn {
                turn = turns.take(node);
                step = next_step(desired, &observed, turn.is_some());
            }
            changed |= matches!(
                step,
                Step::BringAgent | Step::InstallAgent | Step::Apply { .. }
            );
            observed = match step {
                Step::Done => {
                    visited.standing = Standing::Current;
                    if changed {
                        tracing::info!("the node is as desired after {}", self.phases);
                    } else {
                        tracing::debug!("the node is as desired, seen in {}", self.phases);
                    }
                    return Ok(());
                }
                Step::AwaitTurn => {
                    visited.standing = Standing::Waiting;
                    return Ok(());
                }
                Step::LeaveUndone => {
                    visited.standing = Standing::Failed;
                    return Err(left_alone::undone(desired, visited.state.as_ref()));
                }
                Step::LeaveForeign => {
                    return Err(left_alone::foreign(desired, visited.state.as_ref()));
                }
                Step::LeaveToAgent => {
                    return Err(left_alone::to_agent(
                        &desired.request,
                        visited.state.as_ref(),
                    ));
                }
                Step::BringAgent if brought => {
                    return Err(NodeError::new(
                        Reason::AgentFailed,
                        "the agent was brought and installed, and still gives no state that makes sense; see \
                         C:\\var\\log\\windows-storage-agent on the node",
                    ));
                }
                Step::BringAgent => {
                    brought = true;
                    self.bring_agent()?;
                    self.observe()?
                }
                Step::InstallAgent => {
                    self.install(AGENT_EXE, "")?;
                    self.observe()?
                }
                Step::Apply { with_files } => {
                    if let Some(turn) = &mut turn {
                        turn.begin();
                    }
                    let applied = self.apply(&desired.request, with_files);
                    if let Some(turn) = &mut turn
                        && is_end_known(&applied)
                    {
                        turn.settle();
                    }
                    let result = applied?;
                    visited.state = Some(result.state.clone());
                    judge_result(&result, (kept, turn.is_some()), visited)?;
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

/// `kept` says that the node was kept to the very request before: then only a repair has failed, not an update.
/// `interrupting` says that something worked there before.
fn judge_result(
    result: &ApplyResult,
    (kept, interrupting): (bool, bool),
    visited: &mut Visited,
) -> Result<(), NodeError> {
    let failure = || {
        let unknown = || Failure {
            category: FailureCategory::Unknown,
            message: "the agent does not say why".to_owned(),
        };
        result.failure.clone().unwrap_or_else(unknown)
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
        Outcome::RolledBack if !kept => {
            visited.standing = Standing::Failed;
            Err(NodeError::from_agent(&failure(), true))
        }
        Outcome::Failed if !kept && interrupting && has_touched(&failure()) => {
            // Worse than undone: going back was not complete either.
            visited.standing = Standing::Failed;
            Err(NodeError::new(
                Reason::RolledBack,
                format!(
                    "{}; it is not tried again before spec.rollout.resume of WindowsStorage changes or there is another version",
                    NodeError::from_agent(&failure(), false)
                ),
            ))
        }
        Outcome::RolledBack | Outcome::Failed | Outcome::Unknown => {
            Err(NodeError::from_agent(&failure(), false))
        }
    }
}

/// Whether it is known what has become of csi-proxy. What ends before the agent has the request interrupts nothing.
fn is_end_known(applied: &Result<ApplyResult, NodeError>) -> bool {
    match applied {
        Ok(result) => result.state.unfinished_request_id.is_none(),
        Err(error) => matches!(error.reason, Reason::DiskFull | Reason::PayloadUnusable),
    }
}

/// Whether the agent had begun to change the node when it failed in that way.
fn has_touched(failure: &Failure) -> bool {
    match failure.category {
        FailureCategory::ServiceStart
        | FailureCategory::ServiceStop
        | FailureCategory::PipesMissing
        | FailureCategory::AccessDenied
        | FailureCategory::Unknown => true,
        FailureCategory::InvalidRequest
        | FailureCategory::Unsupported
        | FailureCategory::UploadMissing
        | FailureCategory::HashMismatch
        | FailureCategory::DiskFull
        | FailureCategory::FileInUse
        | FailureCategory::Foreign
        | FailureCategory::PreScript
        | FailureCategory::Interrupted
        | FailureCategory::AgentUnavailable
        | FailureCategory::Internal => false,
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
    use windows_storage_agent::durations::Durations;

    use super::*;

    #[test]
    fn what_could_not_be_undone_is_a_failed_update_and_what_touched_nothing_is_none() {
        let judged = |category, interrupting| {
            let result = ApplyResult {
                id: "request".to_owned(),
                outcome: Outcome::Failed,
                failure: Some(Failure {
                    category,
                    message: "words".to_owned(),
                }),
                interruption_milliseconds: None,
                durations: Durations::default(),
                state: NodeState::default(),
            };
            let mut visited = Visited {
                standing: Standing::Waiting,
                ..Visited::default()
            };
            let error = judge_result(&result, (false, interrupting), &mut visited).unwrap_err();
            (visited.standing, error.reason)
        };
        assert_eq!(
            judged(FailureCategory::ServiceStart, true),
            (Standing::Failed, Reason::RolledBack)
        );
        assert_eq!(
            judged(FailureCategory::ServiceStart, false),
            (Standing::Waiting, Reason::CSIProxyFailed),
            "nothing worked there before"
        );
        assert_eq!(
            judged(FailureCategory::FileInUse, true),
            (Standing::Waiting, Reason::CSIProxyFailed)
        );
    }

    #[test]
    fn a_repair_that_fails_is_no_failed_update() {
        let result = ApplyResult {
            id: "request".to_owned(),
            outcome: Outcome::RolledBack,
            failure: None,
            interruption_milliseconds: None,
            durations: Durations::default(),
            state: NodeState::default(),
        };
        let judged = |kept| {
            let mut visited = Visited {
                standing: Standing::Current,
                ..Visited::default()
            };
            let error = judge_result(&result, (kept, true), &mut visited).unwrap_err();
            (visited.standing, error.reason)
        };
        assert_eq!(judged(false), (Standing::Failed, Reason::RolledBack));
        assert_eq!(judged(true), (Standing::Current, Reason::CSIProxyFailed));
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
