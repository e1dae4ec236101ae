//! A visit to a node: connect, check the host key, log in, and take steps until nothing is left to do.

mod left_alone;
mod steps;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use protocol::NodeState;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::deadline;
use crate::lease::Fence;
use crate::node::actions::Actions;
use crate::node::host_key::Judgement;
use crate::node::rollout::Standing;
use crate::node::session::{Cutter, Line, Session, place, unreachable};
use crate::node::turns::Turns;
use crate::node::variables::{fill_in, needs_node};
use crate::node::{Desired, HostKey, NodeError, Phases, Pins, Reason, Sent, Target, spans};
use crate::payload::Payload;
use crate::serve::VisitGauges;

pub use left_alone::describe_foreign;

/// How long a whole visit may take: a slow link included.
const VISIT: Duration = Duration::from_secs(20 * 60);
/// How long a server may take from the connection to its host key.
pub(in crate::node) const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long a host that has shaken hands may have to wait until others are done: OpenSSH gives two minutes to log in.
const QUEUE: Duration = Duration::from_secs(60);
/// Connections that are being made, or wait for a place to work at, at one time. Dead hosts hold only these.
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
    /// The files that were sent.
    pub sent: Sent,
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
    /// What work on nodes goes past.
    pub fence: Fence,
    /// Where visits are counted while they are there.
    pub(super) counted: VisitGauges,
    connecting: Semaphore,
    working: Semaphore,
    /// [`QUEUE`]; tests have less time.
    queue: Duration,
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
            fence: Fence::open(),
            counted: VisitGauges::default(),
            connecting: Semaphore::new(CONCURRENT_CONNECTS),
            working: Semaphore::new(CONCURRENT_WORK),
            queue: QUEUE,
        }
    }
}

/// Goes to the node and brings it to what is desired. `Err` means that the node was not reached.
pub async fn visit(target: &Target, tools: &Tools) -> Result<Visited, NodeError> {
    let mut counted = tools.counted.begin();
    // The semaphores are never closed; without a permit the visit only is not bounded.
    let mut place = std::pin::pin!(tools.working.acquire());
    let in_time = {
        // Until there is a place to work at: how many hosts wait for one is bounded as well.
        let _permit = tools.connecting.acquire().await.ok();
        let reached = reach(target, tools).await?;
        let place = tokio::time::timeout(tools.queue, &mut place).await;
        place.ok().map(|place| (reached, place))
    };
    let (reached, _place) = if let Some(reached) = in_time {
        reached
    } else {
        // No server waits for ever for a login. The visit keeps its place in the row, and connects anew when it is there.
        let place = place.await;
        (reach(target, tools).await?, place)
    };
    tools.counted.works(&mut counted);
    let Reached {
        session,
        cutter,
        mut phases,
    } = reached;
    let desired = match &target.desired {
        Ok(desired) if needs_node(&desired.request) => filled_in(desired, target, tools).await,
        other => other.clone(),
    };
    let (target, payload, turns) = (target.clone(), tools.payload.clone(), tools.turns.clone());
    let span = tracing::Span::current();
    let work = move || {
        let _entered = span.entered();
        let begin = Instant::now();
        let phase = spans::phase("login").entered();
        let login = session.login(&target.user, &target.key);
        login.map_err(|error| error.in_phase("login"))?;
        phases.ended("login", begin);
        drop(phase);
        let mut actions = Actions::new(session, payload, phases, target.agent_seen);
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

/// A host that is the right one.
struct Reached {
    session: Session,
    cutter: Cutter,
    phases: Phases,
}

/// Connects to the host and makes sure that it is the right one. Nobody has logged in yet.
async fn reach(target: &Target, tools: &Tools) -> Result<Reached, NodeError> {
    let (mut session, key, cutter, mut phases) = connect(target, HANDSHAKE).await?;
    session.go_past(tools.fence.clone());
    let begin = Instant::now();
    let trusted = trust(target, tools, &key);
    let trusted = trusted.instrument(spans::phase("host key")).await;
    trusted.map_err(|error| error.in_phase("host key"))?;
    phases.ended("host key", begin);
    Ok(Reached {
        session,
        cutter,
        phases,
    })
}

/// Makes sure that it is the host's key, as far as that can be known.
async fn trust(target: &Target, tools: &Tools, key: &HostKey) -> Result<(), NodeError> {
    match tools.pins.judge_by(&target.host_keys, &target.node, key) {
        Judgement::Known => Ok(()),
        Judgement::New => {
            tools.pins.pin(&target.node, key).await?;
            tracing::info!(
                key = %key.fingerprint(),
                kind = key.kind(),
                "host key pinned at the first contact"
            );
            Ok(())
        }
        Judgement::Refused(error) => {
            if error.reason == Reason::HostKeyUnknown {
                // The command that accepts a key changes the ConfigMap, so it has to be there.
                tools.pins.make().await?;
            }
            Err(error)
        }
    }
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

pub(in crate::node) async fn connect(
    target: &Target,
    limit: Duration,
) -> Result<(Session, HostKey, Cutter, Phases), NodeError> {
    let kinds = target.host_keys.kinds();
    connect_to((&target.address, target.port), &kinds, limit).await
}

/// Connects and reads the host key, in two steps: the second can be cut, also where a server never stops to send.
/// Whoever drops the cutter cuts the connection; so does an early return from here, or an end of this future.
pub(super) async fn connect_to(
    (address, port): (&str, u16),
    kinds: &[&str],
    limit: Duration,
) -> Result<(Session, HostKey, Cutter, Phases), NodeError> {
    let in_vain = |what: &str| {
        let problem = format!("{what} within {} s", limit.as_secs());
        unreachable(&place(address, port), &problem)
    };
    let kinds: Vec<String> = kinds.iter().map(|&kind| kind.to_owned()).collect();
    let mut phases = Phases::default();
    let begin = Instant::now();
    let host = address.to_owned();
    let opened = blocking(limit, move || Line::open(&host, port));
    let opened = opened.instrument(spans::phase("connect")).await;
    let opened = opened.unwrap_or_else(|| Err(in_vain("no connection")));
    let (line, cutter) = opened.map_err(|error| error.in_phase("connect"))?;
    phases.ended("connect", begin);
    let begin = Instant::now();
    let shaken = blocking(limit, move || {
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        Session::shake_hands(line, &kinds)
    });
    let shaken = shaken.instrument(spans::phase("handshake")).await;
    let shaken = shaken.unwrap_or_else(|| Err(in_vain("no SSH greeting")));
    let (session, key) = shaken.map_err(|error| error.in_phase("handshake"))?;
    phases.ended("handshake", begin);
    Ok((session, key, cutter, phases))
}

/// Runs blocking work on a thread of its own; `None` when time is up. The thread ends when its connection is cut.
pub(in crate::node) async fn blocking<T: Send + 'static>(
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

#[cfg(test)]
mod crowd;
#[cfg(test)]
mod cuts;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod requests;
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
