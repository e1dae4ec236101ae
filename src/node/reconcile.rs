//! Brings one Windows node to its desired state: connect, check the host key, wait for a free place, log in, ask the
//! agent for its state, install it if it is missing, compare, take a rollout slot, apply, judge.

use std::time::Duration;

use protocol::{ApplyResult, End, Failure, FailureCategory, NodeState, Outcome};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::http::ReconcileGauges;
use crate::lease::Fence;
use crate::node::answer::agent_failed;
use crate::node::connect::{HANDSHAKE, connect};
use crate::node::host::Host;
use crate::node::payload::Payload;
use crate::node::plan::{
    AgentStep, Comparison, agent_step, compare, has_program, is_interruptible, is_kept, is_working,
    may_replace,
};
use crate::node::rollout::Standing;
use crate::node::slots::{RolloutSlots, Slot};
use crate::node::{
    Desired, Look, NodeError, Phases, Pins, Purpose, Reason, Sent, Target, left_alone, printable,
};

/// Time limit for the work on a node from the login on, for slow links too.
const WORK: Duration = Duration::from_secs(20 * 60);
/// How many connections may be in progress, or wait for a place to work, at a time. Dead hosts occupy only these.
const CONCURRENT_CONNECTS: usize = 64;
/// How many nodes are worked on at a time. Each may hold some megabytes of a transfer.
const CONCURRENT_WORK: usize = 32;
/// How long a node keeps its place among those. Then its work goes on without one: most is done within seconds, and a host
/// that drips must not keep others waiting until [`WORK`] is over.
const PLACE: Duration = Duration::from_secs(2 * 60);

/// What was found and done on a node.
#[derive(Debug, Default)]
pub struct Reconciled {
    /// The last state from the agent; absent if there is no agent and none could be installed.
    pub state: Option<NodeState>,
    /// Whether another owner manages csi-proxy there. If so, nothing was changed on the node.
    pub look: Look,
    /// What went wrong, if anything.
    pub problem: Option<NodeError>,
    /// State of the node in the rollout.
    pub standing: Standing,
    /// ID of the key that the host accepted.
    pub ssh_key: String,
    /// Durations of the phases.
    pub phases: Phases,
    /// The files that were sent.
    pub sent: Sent,
}

impl Reconciled {
    /// Returns whether the node only lacks a rollout slot, and nothing is wrong.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.problem.is_none() && self.standing == Standing::Waiting
    }

    /// Takes over a state from the agent, if there is one.
    fn saw(&mut self, state: Option<&NodeState>, desired: Option<&Desired>) {
        let Some(state) = state else {
            self.standing = Standing::NotInstalled;
            return;
        };
        self.look = Look::Nobody;
        let request = desired.map(|desired| &desired.request);
        let works = request.map_or_else(
            || is_working(state),
            |request| is_interruptible(request, state),
        );
        self.standing = match works {
            false => Standing::NotInstalled,
            true if request.is_some_and(|request| is_kept(request, state)) => Standing::Current,
            true => Standing::Waiting,
        };
        self.state = Some(state.clone());
    }
}

/// What the work on all nodes shares.
pub struct Context {
    /// The programs for nodes.
    pub payload: Payload,
    /// The store of pinned host keys.
    pub pins: Pins,
    /// Rollout slots: the nodes that may be interrupted.
    pub slots: RolloutSlots,
    /// Closed while this process is not the leader.
    pub fence: Fence,
    /// Where reconciles are counted while they run.
    pub(super) gauges: ReconcileGauges,
    pub(super) connecting: Semaphore,
    pub(super) working: Semaphore,
    pub(super) place: Duration,
}

impl Context {
    /// Creates a context with all places free.
    #[must_use]
    pub fn new(payload: Payload, pins: Pins, slots: RolloutSlots) -> Self {
        Self {
            payload,
            pins,
            slots,
            fence: Fence::open(),
            gauges: ReconcileGauges::default(),
            connecting: Semaphore::new(CONCURRENT_CONNECTS),
            working: Semaphore::new(CONCURRENT_WORK),
            place: PLACE,
        }
    }
}

/// Connects to the node and brings it to its desired state. `Err` means that the login did not succeed.
pub async fn reconcile_node(target: &Target, context: &Context) -> Result<Reconciled, NodeError> {
    let mut gauge = context.gauges.begin();
    // The semaphores are never closed; without a permit, the work would only be unbounded.
    let connecting = context.connecting.acquire().await;
    let address = (&*target.address, target.port);
    let mut connected = connect(address, &target.host_keys, HANDSHAKE).await?;
    let trusted = context.pins.trust(target, &connected.key);
    connected.phases.time("host key", trusted).await?;
    let working = context.working.acquire().await;
    drop(connecting);
    context.gauges.works(&mut gauge);
    connected.session.fence = context.fence.clone();
    let (payload, slots) = (context.payload.clone(), context.slots.clone());
    let target = target.clone();
    let span = tracing::Span::current();
    let work = move |session, phases| {
        let _entered = span.entered();
        let host = Host::new(session, payload, phases);
        work_on(host, &target, &slots)
    };
    let mut work = Box::pin(connected.work(WORK, "work on the node", work));
    if let Ok(done) = timeout(context.place, &mut work).await {
        return done;
    }
    drop(working);
    work.await
}

/// Logs in and does the work of the target's purpose. `Err` means that the login did not succeed.
fn work_on(mut host: Host, target: &Target, slots: &RolloutSlots) -> Result<Reconciled, NodeError> {
    let ssh_key = host.login(&target.user, &target.key)?;
    let mut found = Reconciled {
        ssh_key: ssh_key.to_owned(),
        standing: Standing::Unreachable,
        ..Reconciled::default()
    };
    let done = match target.purpose {
        Purpose::Reconcile => bring_to_desired(&mut host, target, slots, &mut found),
        Purpose::Release => take_away(&mut host, &target.node, true, slots, &mut found),
        Purpose::Remove => take_away(&mut host, &target.node, false, slots, &mut found),
    };
    found.problem = done.err();
    host.clean_up();
    // Everything is done, so wait for no further answer.
    host.session.give_up();
    found.sent = host.session.sent;
    found.phases = host.phases;
    Ok(found)
}

/// Removes the agent, and csi-proxy too unless `keeps_csi_proxy`, in a rollout slot: what is missed afterwards must be
/// missed on few nodes first.
fn take_away(
    host: &mut Host,
    node: &str,
    keeps_csi_proxy: bool,
    slots: &RolloutSlots,
    found: &mut Reconciled,
) -> Result<(), NodeError> {
    let state = host.status()?;
    found.saw(state.as_ref(), None);
    // Without an answer from an agent, no change that waits for this operator is in progress.
    if state.as_ref().is_none_or(is_at_rest) {
        slots.mark_settled(node);
    }
    if state.is_some() || host.has_agent()? {
        let Some(mut slot) = slots.take(node) else {
            found.standing = Standing::Waiting;
            return Ok(());
        };
        // Where csi-proxy stays, nothing is interrupted, and a node whose release fails again and again holds up no other.
        if !keeps_csi_proxy {
            slot.begin();
        }
        host.remove_agent(keeps_csi_proxy)?;
        slot.settle();
        let kept = if keeps_csi_proxy { "kept" } else { "removed" };
        tracing::info!("the agent is removed, csi-proxy is {kept}");
    }
    found.state = None;
    found.standing = Standing::Current;
    Ok(())
}

/// Runs the steps after the login. Each may be the last.
fn bring_to_desired(
    host: &mut Host,
    target: &Target,
    slots: &RolloutSlots,
    found: &mut Reconciled,
) -> Result<(), NodeError> {
    let mut slot: Option<Slot> = None;
    let mut changed = false;
    // Takes a slot if necessary, and returns whether work that interrupts csi-proxy may begin.
    let take_slot = |slot: &mut Option<Slot>| {
        *slot = slot.take().or_else(|| slots.take(&target.node));
        slot.is_some()
    };

    let desired = &target.desired;
    let mut state = host.status()?;
    found.saw(state.as_ref(), desired.as_ref().ok());
    if state.as_ref().is_some_and(is_at_rest) {
        slots.mark_settled(&target.node);
    }
    let desired = desired.as_ref().map_err(Clone::clone)?;

    if !target.is_given {
        found.look = match &state {
            // An agent that never received a request found another owner before it had anything to do, so it is removed again.
            Some(state) if state.request_id.is_none() => {
                let mut foreign = state.foreign.iter();
                let other =
                    foreign.find(|it| !(desired.request.replace_foreign && may_replace(it)));
                other.map_or(Look::Nobody, Look::owner_of)
            }
            None if !host.is_installed => {
                host.look(desired.request.replace_foreign, target.is_ours)?
            }
            _ => Look::Nobody,
        };
        if let Look::Owner(_) = found.look {
            return match state {
                // It has nothing to do yet, so nothing is interrupted.
                Some(_) => host.remove_agent(true),
                None => Ok(()),
            };
        }
    }
    let step = agent_step(desired, state.as_ref(), host.is_installed);
    if step != AgentStep::Keep {
        if step == (AgentStep::Install { interrupts: true }) {
            if !take_slot(&mut slot) {
                found.standing = Standing::Waiting;
                return Ok(());
            }
            slot.iter_mut().for_each(Slot::begin);
        }
        changed = true;
        state = match step {
            AgentStep::Restart => restart(host, desired, state.as_ref())?,
            AgentStep::Keep | AgentStep::Install { .. } => host.install_agent()?,
        };
        if state.as_ref().is_some_and(is_at_rest) {
            slot.iter_mut().for_each(Slot::settle);
        }
        found.saw(state.as_ref(), Some(desired));
    }
    let is_right = |state: &NodeState| has_right_agent(desired, state);
    let mut state = state
        .filter(is_right)
        .ok_or_else(|| no_progress("the agent was installed but does not report a valid state"))?;

    if let Comparison::Differs { interrupts } = compare(desired, &state) {
        if interrupts && !take_slot(&mut slot) {
            found.standing = Standing::Waiting;
            return Ok(());
        }
        changed = true;
        slot.iter_mut().for_each(Slot::begin);
        let with_program = !has_program(&desired.request, &state);
        let applied = host.apply(&desired.request, with_program);
        if is_end_known(&applied) {
            slot.iter_mut().for_each(Slot::settle);
        }
        let result = applied?;
        found.state = Some(result.state.clone());
        let was_kept = is_kept(&desired.request, &state);
        judge(&result.end, was_kept, slot.is_some()).inspect_err(|error| {
            if error.reason == Reason::RolledBack {
                found.standing = Standing::Failed;
            }
        })?;
        state = result.state;
        found.saw(Some(&state), Some(desired));
    }

    match compare(desired, &state) {
        Comparison::Same => {
            found.standing = Standing::Current;
            slots.mark_settled(&target.node);
            if changed {
                tracing::info!("the node is as desired after {}", host.phases);
            } else {
                tracing::debug!("the node is as desired, seen in {}", host.phases);
            }
            Ok(())
        }
        Comparison::Broken => Err(left_alone::to_agent(&state)),
        Comparison::Foreign => Err(left_alone::foreign(&desired.request, &state)),
        Comparison::Undone => {
            found.standing = Standing::Failed;
            Err(left_alone::undone(&state))
        }
        Comparison::Differs { .. } => Err(no_progress(
            "the agent reports success, but the node does not come to the state that was asked for",
        )),
    }
}

fn has_right_agent(desired: &Desired, state: &NodeState) -> bool {
    agent_step(desired, Some(state), true) == AgentStep::Keep
}

/// Restarts the installed agent. If that does not help, uploads and installs it again.
fn restart(
    host: &mut Host,
    desired: &Desired,
    before: Option<&NodeState>,
) -> Result<Option<NodeState>, NodeError> {
    if let Some(why) = before.and_then(|state| state.agent_problem.as_ref()) {
        let why = printable(why);
        tracing::warn!(%why, "the agent on the node does not answer; it is restarted");
    }
    match host.restart_agent() {
        Ok(Some(state)) if has_right_agent(desired, &state) => return Ok(Some(state)),
        Ok(_) => tracing::warn!("the agent was restarted without success; it is installed again"),
        Err(error) if error.reason == Reason::AgentFailed => {
            tracing::warn!(%error, "the agent cannot be restarted; it is installed again");
        }
        Err(error) => return Err(error),
    }
    host.install_agent()
}

/// Returns whether the agent is not in the middle of a request.
fn is_at_rest(state: &NodeState) -> bool {
    state.unfinished_request_id.is_none()
}

fn no_progress(problem: &str) -> NodeError {
    agent_failed(format!(
        "{problem}; see C:\\var\\log\\windows-storage-agent on the node"
    ))
}

/// Returns what went wrong with a request. `was_kept`: the agent had the same request before, so a repair failed, not
/// an update. `interrupting`: something worked there before.
fn judge(end: &End, was_kept: bool, interrupting: bool) -> Result<(), NodeError> {
    let failure = end.failure.clone().unwrap_or_else(|| Failure {
        category: FailureCategory::Internal,
        message: "the agent does not say why".to_owned(),
    });
    match end.outcome {
        Outcome::Applied => {
            tracing::info!(
                interruption_ms = end.interruption_milliseconds,
                "csi-proxy is in place and its pipes are open"
            );
            Ok(())
        }
        Outcome::Unchanged => Ok(()),
        // The version is not at fault, so it is retried.
        _ if failure.category.is_of_the_host() => Err(NodeError::from_agent(&failure, false)),
        Outcome::RolledBack if !was_kept => Err(NodeError::from_agent(&failure, true)),
        // Worse than a rollback: the rollback was incomplete too.
        Outcome::Failed if !was_kept && interrupting && end.incomplete => Err(Reason::RolledBack
            .error(format!(
                "{}; it is retried after spec.rollout.resume of WindowsStorage changes",
                NodeError::from_agent(&failure, false)
            ))),
        Outcome::RolledBack | Outcome::Failed => Err(NodeError::from_agent(&failure, false)),
    }
}

/// Returns whether the state of csi-proxy is known. Errors before the agent has the request interrupt nothing.
fn is_end_known(applied: &Result<ApplyResult, NodeError>) -> bool {
    match applied {
        Ok(result) => result.state.unfinished_request_id.is_none(),
        Err(error) => matches!(error.reason, Reason::DiskFull | Reason::PayloadUnusable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_that_was_undone_or_left_broken_is_not_tried_again() {
        use FailureCategory::{AccessDenied, PipesHeld, ServiceStart};
        use Outcome::{Failed, RolledBack};
        use Reason::CSIProxyFailed;
        let (undone, broken) = ((RolledBack, false), (Failed, true));
        for ((outcome, incomplete), category, was_kept, interrupting, reason) in [
            (undone, ServiceStart, false, true, Reason::RolledBack),
            // A repair is not an update.
            (undone, ServiceStart, true, true, CSIProxyFailed),
            (broken, ServiceStart, false, true, Reason::RolledBack),
            (broken, ServiceStart, true, true, CSIProxyFailed),
            // The version was not at fault.
            (undone, PipesHeld, false, true, CSIProxyFailed),
            (broken, PipesHeld, false, true, CSIProxyFailed),
            // Nothing worked there before.
            (broken, ServiceStart, false, false, CSIProxyFailed),
            // Nothing was changed, for example because others could modify the program.
            (
                (Failed, false),
                AccessDenied,
                false,
                true,
                Reason::AgentFailed,
            ),
        ] {
            let end = End {
                incomplete,
                ..End::bad(outcome, category.failure("words"))
            };
            let error = judge(&end, was_kept, interrupting).unwrap_err();
            assert_eq!(error.reason, reason, "{end:?} {was_kept} {interrupting}");
        }
    }
}
