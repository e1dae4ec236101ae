//! Brings one Windows node to its desired state: connect, trust, log in, then see, decide and act until nothing is left to
//! do.

use std::time::Duration;

use protocol::{ApplyResult, End, FailureCategory, NodeState, Outcome};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::lease::Fence;
use crate::node::connect::{HANDSHAKE, connect};
use crate::node::host::Host;
use crate::node::look::look;
use crate::node::payload::Payload;
use crate::node::plan::{
    Done, Step, Why, decide, has_program, is_interruptible, is_kept, is_working,
};
use crate::node::rollout::Standing;
use crate::node::slots::{RolloutSlots, Slot};
use crate::node::{Desired, Look, NodeError, Pins, Purpose, Reason, Target, left_alone, printable};

/// Time limit for the work on a node from the login on, for slow links too.
const WORK: Duration = Duration::from_secs(20 * 60);
/// How many connections may be in progress, or wait for a place to work, at a time. Dead hosts occupy only these, each for up to
/// a minute: a rack of them must not keep the others waiting. sshd gives those that wait two minutes to log in.
const CONCURRENT_CONNECTS: usize = 128;
/// How many nodes have a place to be worked on. Each may hold a piece of a transfer, 1.25 MiB.
const CONCURRENT_WORK: usize = 64;
/// How long a node keeps its place among those. Then its work goes on without one: most is done within seconds, and a host
/// that drips must not keep others waiting until [`WORK`] is over. So at most 64 times 5 are worked on, each on a thread of
/// its own, of which tokio has 512, and with those that connect.
const PLACE: Duration = Duration::from_secs(4 * 60);

/// What was seen and done on a node in one reconcile.
#[derive(Debug, Default)]
pub struct Reconciled {
    /// The last state from the agent; absent if there is none, or if it gave none.
    pub state: Option<NodeState>,
    /// Whether an agent of another version answers, so that csi-proxy may work there.
    pub is_of_another_version: bool,
    /// Whether another owner manages csi-proxy there. If so, nothing was changed on the node.
    pub look: Look,
    /// The last step that was done.
    pub done: Done,
    /// What went wrong, if anything.
    pub problem: Option<NodeError>,
    /// State of the node in the rollout.
    pub standing: Standing,
    /// ID of the key that the host accepted.
    pub ssh_key: String,
}

impl Reconciled {
    /// Returns whether the node only lacks a rollout slot, and nothing is wrong.
    pub fn is_waiting(&self) -> bool {
        self.problem.is_none() && self.standing == Standing::Waiting
    }

    /// Derives the state in the rollout from the state of the node.
    fn stand(&mut self, desired: Option<&Desired>) {
        let Some(state) = &self.state else {
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
    pub(super) connecting: Semaphore,
    pub(super) working: Semaphore,
    pub(super) place: Duration,
}

impl Context {
    /// Creates a context with all places free.
    pub fn new(payload: Payload, pins: Pins, slots: RolloutSlots) -> Self {
        Self {
            payload,
            pins,
            slots,
            fence: Fence::open(),
            connecting: Semaphore::new(CONCURRENT_CONNECTS),
            working: Semaphore::new(CONCURRENT_WORK),
            place: PLACE,
        }
    }
}

/// Connects to the node and brings it to its desired state. `Err` means that the login did not succeed.
pub async fn reconcile_node(target: &Target, context: &Context) -> Result<Reconciled, NodeError> {
    // The semaphores are never closed; without a permit, the work would only be unbounded.
    let connecting = context.connecting.acquire().await;
    let address = (&*target.address, target.port);
    let mut connected = connect(address, &target.host_keys, HANDSHAKE).await?;
    let key = &connected.session.host_key;
    context.pins.trust(target, key).await?;
    let working = context.working.acquire().await;
    drop(connecting);
    connected.session.fence = context.fence.clone();
    let (payload, slots) = (context.payload.clone(), context.slots.clone());
    let target = target.clone();
    let span = tracing::Span::current();
    let work = move |session| {
        let _entered = span.entered();
        let host = Host::new(session, payload);
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
fn work_on(host: Host, target: &Target, slots: &RolloutSlots) -> Result<Reconciled, NodeError> {
    let ssh_key = host.session.login(&target.user, &target.key)?.to_owned();
    let mut work = Work {
        host,
        target,
        slots,
        slot: None,
        found: Reconciled {
            ssh_key,
            standing: Standing::Unreachable,
            ..Reconciled::default()
        },
    };
    let done = work.see().and_then(|()| match target.purpose {
        Purpose::Reconcile => work.bring_to_desired(),
        Purpose::Release => work.take_away(true),
        Purpose::Remove => work.take_away(false),
    });
    work.host.clean_up();
    // Everything is done, so wait for no further answer.
    work.host.session.give_up();
    Ok(Reconciled {
        problem: done.err(),
        ..work.found
    })
}

/// The work on one node.
struct Work<'a> {
    host: Host,
    target: &'a Target,
    slots: &'a RolloutSlots,
    /// The rollout slot, once one was needed.
    slot: Option<Slot>,
    found: Reconciled,
}

impl Work<'_> {
    /// Asks the agent for the node's state, and looks for another owner of csi-proxy where the agent never had a request.
    fn see(&mut self) -> Result<(), NodeError> {
        let (host, found) = (&mut self.host, &mut self.found);
        let desired = self.target.desired.as_deref().ok();
        found.state = host.status()?;
        found.is_of_another_version = host.is_of_another_version;
        found.stand(desired);
        if let (false, Some(desired)) = (self.target.is_given, desired) {
            let replaces = desired.request.replace_foreign;
            found.look = match &found.state {
                Some(state) if state.request_id.is_none() => Look::of(&state.foreign, replaces),
                None if !host.is_installed => {
                    look(&mut host.session, replaces, self.target.is_ours)?
                }
                _ => Look::Nobody,
            };
        }
        // Where no agent is, none changes anything; one that gives no state may be in the middle of a change.
        let is_settled = match &found.state {
            Some(state) => is_at_rest(state),
            None => !host.is_installed,
        };
        if is_settled {
            self.slots.mark_settled(&self.target.node);
        }
        Ok(())
    }

    /// Decides from what was seen and acts, until nothing is left to do.
    fn bring_to_desired(&mut self) -> Result<(), NodeError> {
        let desired = self.target.desired.as_ref().map_err(Clone::clone)?;
        loop {
            let step = decide(desired, &self.found);
            if let Step::Install { interrupts: true } | Step::Apply { interrupts: true } = step
                && !self.takes_slot()
            {
                return Ok(());
            }
            match step {
                // An agent that has nothing to do yet is removed again; that interrupts nothing.
                Step::Leave if self.found.state.is_some() => return self.host.remove_agent(true),
                Step::Leave => return Ok(()),
                Step::Restart => self.restart()?,
                Step::Install { .. } => {
                    self.slot.iter_mut().for_each(Slot::begin);
                    self.found.state = self.host.install_agent()?;
                    self.found.done = Done::Installed;
                    if self.found.state.as_ref().is_some_and(is_at_rest) {
                        self.slot.iter_mut().for_each(Slot::settle);
                    }
                }
                Step::Apply { .. } => self.apply(desired)?,
                Step::Finish => {
                    self.found.standing = Standing::Current;
                    self.slots.mark_settled(&self.target.node);
                    if self.found.done != Done::Nothing {
                        tracing::info!("the node is as desired");
                    }
                    return Ok(());
                }
                Step::Stop(why) => {
                    if why == Why::Undone {
                        self.found.standing = Standing::Failed;
                    }
                    let state = self.found.state.as_ref();
                    return Err(left_alone::explain(why, &desired.request, state));
                }
            }
            self.found.stand(Some(desired));
        }
    }

    /// Removes the agent, and csi-proxy too unless `keeps_csi_proxy`, in a rollout slot: what is missed afterwards must be
    /// missed on few nodes first.
    fn take_away(&mut self, keeps_csi_proxy: bool) -> Result<(), NodeError> {
        if self.found.state.is_some() || self.host.has_agent()? {
            if !self.takes_slot() {
                return Ok(());
            }
            // Where csi-proxy stays, nothing is interrupted, and a node whose release fails again and again holds up no other.
            if !keeps_csi_proxy {
                self.slot.iter_mut().for_each(Slot::begin);
            }
            self.host.remove_agent(keeps_csi_proxy)?;
            self.slot.iter_mut().for_each(Slot::settle);
            let kept = if keeps_csi_proxy { "kept" } else { "removed" };
            tracing::info!("the agent is removed, csi-proxy is {kept}");
        }
        self.found.state = None;
        self.found.standing = Standing::Current;
        Ok(())
    }

    /// Takes the node's rollout slot, unless it has it. Without one, the node waits.
    fn takes_slot(&mut self) -> bool {
        if self.slot.is_none() {
            self.slot = self.slots.take(&self.target.node);
        }
        if self.slot.is_none() {
            self.found.standing = Standing::Waiting;
        }
        self.slot.is_some()
    }

    /// Restarts the installed agent. If that fails, the state stays as it was seen before.
    fn restart(&mut self) -> Result<(), NodeError> {
        let state = self.found.state.as_ref();
        if let Some(why) = state.and_then(|state| state.agent_problem.as_ref()) {
            let why = printable(why);
            tracing::warn!(%why, "the agent on the node does not answer; it is restarted");
        }
        self.found.done = Done::Restarted;
        match self.host.restart_agent() {
            Ok(Some(state)) => self.found.state = Some(state),
            Ok(None) => tracing::warn!("the agent was restarted without success"),
            Err(error) if error.reason == Reason::AgentFailed => {
                tracing::warn!(%error, "the agent cannot be restarted");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends the request, and judges its result.
    fn apply(&mut self, desired: &Desired) -> Result<(), NodeError> {
        let state = self.found.state.as_ref();
        let request = &desired.request;
        let was_kept = state.is_some_and(|state| is_kept(request, state));
        let with_program = !state.is_some_and(|state| has_program(request, state));
        self.slot.iter_mut().for_each(Slot::begin);
        let applied = self.host.apply(request, with_program);
        if is_end_known(&applied) {
            self.slot.iter_mut().for_each(Slot::settle);
        }
        let result = applied?;
        self.found.state = Some(result.state);
        self.found.done = Done::Applied;
        judge(&result.end, was_kept, self.slot.is_some()).inspect_err(|error| {
            if error.reason == Reason::RolledBack {
                self.found.standing = Standing::Failed;
            }
        })
    }
}

/// Returns whether the agent is not in the middle of a request.
fn is_at_rest(state: &NodeState) -> bool {
    state.unfinished_request_id.is_none()
}

/// Returns what went wrong with a request. `was_kept`: the agent had the same request before, so a repair failed, not
/// an update. `interrupting`: something worked there before.
fn judge(end: &End, was_kept: bool, interrupting: bool) -> Result<(), NodeError> {
    let unsaid = || FailureCategory::Other.failure("the agent does not say why");
    let failure = end.failure.clone().unwrap_or_else(unsaid);
    let failed = || NodeError::from_agent(&failure, Reason::CSIProxyFailed);
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
        _ if failure.category.is_of_the_host() => Err(failed()),
        Outcome::RolledBack if !was_kept => {
            Err(NodeError::from_agent(&failure, Reason::RolledBack))
        }
        // Worse than a rollback: the rollback was incomplete too.
        Outcome::Failed if !was_kept && interrupting && end.incomplete => Err(Reason::RolledBack
            .error(format!(
                "{}; it is tried again while csi-proxy does not work there, or after spec.rollout.resume of WindowsStorage changes",
                failed()
            ))),
        Outcome::RolledBack | Outcome::Failed => Err(failed()),
    }
}

/// Returns whether the state of csi-proxy is known. Errors before the agent has the request interrupt nothing.
fn is_end_known(applied: &Result<ApplyResult, NodeError>) -> bool {
    match applied {
        Ok(result) => is_at_rest(&result.state),
        Err(error) => matches!(error.reason, Reason::DiskFull | Reason::PayloadUnusable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_that_was_undone_or_left_broken_is_not_tried_again() {
        use FailureCategory::{Interrupted, Other, Untrusted};
        use Outcome::{Failed, RolledBack};
        use Reason::CSIProxyFailed;
        let (undone, broken) = ((RolledBack, false), (Failed, true));
        for ((outcome, incomplete), category, was_kept, interrupting, reason) in [
            (undone, Other, false, true, Reason::RolledBack),
            // A repair is not an update.
            (undone, Other, true, true, CSIProxyFailed),
            (broken, Other, false, true, Reason::RolledBack),
            (broken, Other, true, true, CSIProxyFailed),
            // The version was not at fault.
            (undone, Interrupted, false, true, CSIProxyFailed),
            (broken, Interrupted, false, true, CSIProxyFailed),
            // Nothing worked there before.
            (broken, Other, false, false, CSIProxyFailed),
            // Nothing was changed, for example because others could modify the program.
            ((Failed, false), Untrusted, false, true, Reason::AgentFailed),
        ] {
            let end = End {
                incomplete,
                ..End::bad(outcome, category.failure("words"))
            };
            let error = judge(&end, was_kept, interrupting).unwrap_err();
            assert_eq!(error.reason, reason, "{end:?} {was_kept} {interrupting}");
            // Where nothing works it is tried again: see `plan`.
            let says = error
                .message
                .contains("while csi-proxy does not work there");
            assert_eq!(says, incomplete && reason == Reason::RolledBack, "{error}");
        }
    }
}
