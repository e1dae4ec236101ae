//! Decides what the gate says: the verdict, but `True` only if nothing that held upgrades can be about to come back. Pure:
//! the current time is an argument.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::gate::operations::Operations;
use crate::index::Listed;
use crate::visible::some_of;

/// How long nothing may hold upgrades before the gate opens after something that held them has disappeared: an object that
/// is deleted and recreated is missing for a moment, and so is a pod between two that its owner creates.
pub const MINUTE: Duration = Duration::from_secs(60);
/// How long after the last list the gate opens: what happened while it ran comes right at the start of the next watch.
pub const AFTER_LISTS: Duration = Duration::from_secs(1);
/// How old lists may be that open the gate: while nothing can be written, they are made anew.
const RECENT: Duration = Duration::from_secs(600);
/// How long a process that has just started keeps an existing reason for holding upgrades.
const START: Duration = Duration::from_secs(30);
/// How many kinds a message names; the rest is only counted.
const NAMED_KINDS: usize = 5;
/// How much of one message is repeated in another: both together fit into a condition.
const MOST_SAID: usize = 32_000;
/// How many nodes a message names; the rest is only counted.
const NAMED_NODES: usize = 10;

/// The result of judging the cluster.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The verdict, with the announced message.
    pub verdict: Verdict,
    /// When it turned to what it is.
    pub turned: Turned,
    /// When this was judged.
    pub at: Instant,
    /// When each kind that the verdict rests on was last listed.
    pub lists: Vec<(&'static str, Option<Listed>)>,
    /// When something last disappeared, rather than got what it lacked, that would hold upgrades if it came back.
    pub gone: Option<Instant>,
    /// The nodes on which an update is in progress.
    pub in_progress: BTreeSet<String>,
    /// Whether `WindowsStorage` held upgrades before this process wrote it; `None` until it has been read.
    pub was_held: Option<bool>,
}

impl Judged {
    /// Returns when something last disappeared. Until all data is known, its parts come and go as they are read.
    fn gone(&self) -> Option<Instant> {
        let known_since = self.turned.known_since?;
        self.gone.filter(|gone| *gone > known_since)
    }

    /// Returns whether a `True` may still be written that was decided before this, on `earlier`.
    pub fn allows_what_was_decided_on(&self, earlier: &Self) -> bool {
        self.turned == earlier.turned && self.in_progress == earlier.in_progress
    }
}

/// When the verdict turned, which the last verdict alone does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// When the process started.
    pub started: Instant,
    /// When all data was first known.
    known_since: Option<Instant>,
    /// "Lists that began after the verdict turned True": when it did, from data that can be read.
    true_since: Option<Instant>,
    /// "False is written at once", also one that was over before the gate saw it: when the verdict was last False.
    pub false_at: Option<Instant>,
}

impl Turned {
    /// Creates it for a process that started at `started`, before its first verdict.
    pub fn new(started: Instant) -> Self {
        Self {
            started,
            known_since: None,
            true_since: None,
            false_at: None,
        }
    }

    /// Processes the next verdict. Every verdict must be passed. `is_readable`: all data that it rests on can be read now.
    pub fn note(&mut self, verdict: &Verdict, is_readable: bool, now: Instant) {
        let was_known = self.known_since.is_some();
        // A False counts, whatever cannot be read now; a True from such data is unknown at first.
        let is_known = verdict.reason != Reason::ReadinessUnknown;
        self.known_since = self.known_since.or(is_known.then_some(now));
        // The lists at the start count for a process whose first verdict this is.
        let turned = if was_known { now } else { self.started };
        let since = self.true_since.or(Some(turned));
        let is_true = verdict.upgradeable == Upgradeable::True;
        self.true_since = since.filter(|_| is_true && is_readable);
        self.false_at = if is_true { self.false_at } else { Some(now) };
    }
}

/// What the condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict, or another reason for holding upgrades.
    pub verdict: Verdict,
    /// Whether an existing `False` stays because it says more.
    pub yields: bool,
    /// When the verdict that it rests on had last been `False`.
    pub false_at: Option<Instant>,
}

impl Decision {
    /// Returns the decision to say what a verdict says.
    pub fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            yields: false,
            false_at: None,
        }
    }

    /// Returns whether it allows upgrades, and the verdict has not been `False` since.
    pub fn is_open(&self, turned: &Turned) -> bool {
        !self.holds() && self.false_at == turned.false_at
    }

    /// Returns whether it holds upgrades.
    pub fn holds(&self) -> bool {
        self.verdict.upgradeable == Upgradeable::False
    }
}

/// Returns whether a condition with these holds upgrades for a reason that may have disappeared just before, and come back:
/// anything but that csi-proxy was being replaced on a node.
pub fn is_held(status: &str, reason: &str) -> bool {
    status != Upgradeable::True.as_str() && reason != Reason::NodeOperationInProgress.as_str()
}

/// What the gate says now, and what it waits for.
#[derive(Debug)]
pub struct Judgement {
    /// What the condition is to say.
    pub decision: Decision,
    /// Whether it may be written over anything but `True`: it rests on lists since the gate was last closed.
    pub opens: bool,
    /// Since when lists are wanted to open the gate; `None` if they are there, or it is not time yet.
    pub wants_lists: Option<Instant>,
    /// When to judge again if nothing changes.
    pub due: Option<Instant>,
}

/// Decides what the gate says: `False` at once; `True` only from lists that began after the verdict turned True, and after a
/// minute if what held upgrades disappeared. An older verdict keeps an open gate open, but does not open it.
#[derive(Debug, Default)]
pub struct Decider {
    /// "After what held upgrades is gone, the condition says what that was": the last decision that held them.
    held: Option<Decision>,
    /// "Each write of True rests on such a list, a repeated one included": when something besides the verdict last closed the
    /// gate, an operation on a node or another client.
    closed_at: Option<Instant>,
    operations: Operations,
}

impl Decider {
    /// Decides on the last verdict, given whether the condition held upgrades before this process wrote it, once that is known,
    /// and the decision that was last written.
    pub fn judge(
        &mut self,
        judged: &Judged,
        was_held: Option<bool>,
        written: Option<&Decision>,
        now: Instant,
    ) -> Judgement {
        let (verdict, turned) = (&judged.verdict, judged.turned);
        let holding = self.operations.holding(&judged.in_progress, now);
        let operation = (!holding.is_empty()).then(|| operation(&holding));
        if operation.is_some() {
            self.closed_at = Some(now);
        }
        let ends = self.operations.next_end(now);
        if verdict.upgradeable == Upgradeable::False {
            let insists = turned.started + START;
            let yields = turned.known_since.is_none() && now < insists;
            let decision = Decision {
                yields,
                ..Decision::of(verdict.clone())
            };
            if judged.verdict.reason != Reason::ReadinessUnknown {
                self.held = Some(decision.clone());
            }
            let due = ends.into_iter().chain(yields.then_some(insists)).min();
            return Judgement {
                decision,
                opens: false,
                wants_lists: None,
                due,
            };
        }
        // Data that was right a while ago keeps an open gate open, unless the verdict was False meanwhile.
        let is_open = written.is_some_and(|written| written.is_open(&turned));
        let begun = judged.lists.iter().filter_map(|(_, list)| list.as_ref());
        let expired = begun.map(|list| list.begun + RECENT).min();
        let expired = expired.filter(|expired| *expired <= now);
        let from = self.opens_from(judged, was_held).filter(|_| !is_open);
        let from = from.map(|from| from.max(expired.unwrap_or(from)));
        let at = from.and_then(|from| opens_at(judged, from));
        let may_be_listed = from.filter(|from| *from <= now);
        // What happened until then has been judged.
        let is_time = at.is_some_and(|at| at <= judged.at);
        if is_open || is_time || (may_be_listed.is_some() && operation.is_some()) {
            let decision = Decision {
                false_at: turned.false_at,
                ..Decision::of(operation.unwrap_or_else(|| verdict.clone()))
            };
            return Judgement {
                decision,
                opens: is_time,
                wants_lists: None,
                due: ends,
            };
        }
        let wants_lists = may_be_listed.filter(|_| at.is_none());
        let due = [from, at, from.map(|from| from + MINUTE), ends];
        let gone_at = judged.gone().map(|gone| gone + MINUTE);
        let said = written.filter(|written| written.holds() && !written.yields);
        let decision = match (wants_lists, &self.held) {
            (Some(from), _) if from + MINUTE <= now => unlisted(&judged.lists, from),
            (_, Some(held)) if from.is_some() && from == gone_at => gone(held),
            _ => said.map_or_else(|| unopened(verdict), Clone::clone),
        };
        Judgement {
            decision,
            opens: false,
            wants_lists,
            due: due.into_iter().flatten().filter(|at| *at > now).min(),
        }
    }

    /// Closes the gate until lists show that it may open: another client has closed it, or changed what says so.
    pub fn close(&mut self, now: Instant) {
        self.closed_at = Some(now);
    }

    /// Has operations begin anew: none goes on while nobody can be told of it.
    pub fn begin_operations_anew(&mut self) {
        self.operations = Operations::default();
    }

    /// Returns since when lists must have begun that open the gate; `None` if this process must not open it.
    fn opens_from(&self, judged: &Judged, was_held: Option<bool>) -> Option<Instant> {
        let since = judged.turned.true_since?;
        let since = since.max(self.closed_at.unwrap_or(since));
        let was_held = was_held?;
        if judged.verdict.reason == Reason::Override {
            return Some(since);
        }
        let known = judged.turned.known_since.filter(|_| was_held);
        let gone = judged.gone().max(known);
        Some(gone.map_or(since, |gone| since.max(gone + MINUTE)))
    }
}

/// Returns when the gate opens: when each list that began at `from` or later is complete and old enough.
fn opens_at(judged: &Judged, from: Instant) -> Option<Instant> {
    let mut ended = from;
    for (_, list) in &judged.lists {
        let list = list.filter(|list| list.begun >= from)?;
        ended = ended.max(list.ended);
    }
    // What is first known is opened at once: no condition that says True is to say False for a second.
    let is_first = from == judged.turned.started;
    Some(if is_first { ended } else { ended + AFTER_LISTS })
}

/// Returns the decision after what held upgrades has disappeared. It says what that was, and how long the gate waits for it.
fn gone(held: &Decision) -> Decision {
    let said: String = held.verdict.message.chars().take(MOST_SAID).collect();
    let mut gone = held.clone();
    gone.verdict.message = format!(
        "what held upgrades is gone; upgrades are allowed one minute after it was last seen, unless it comes back: {said}"
    );
    gone
}

fn unlisted(lists: &[(&'static str, Option<Listed>)], from: Instant) -> Decision {
    let late = lists
        .iter()
        .filter(|(_, list)| list.is_none_or(|list| list.begun < from));
    let late: Vec<&str> = late.map(|(kind, _)| *kind).collect();
    let message = format!(
        "the verdict is True; it is written once everything has been listed anew, at most every five minutes while the \
         verdict changes again and again. Not listed yet: {}",
        some_of(&late, NAMED_KINDS)
    );
    unknown(message, false)
}

fn operation(nodes: &[&str]) -> Verdict {
    let named = some_of(nodes, NAMED_NODES);
    let message = format!(
        "csi-proxy is being replaced on {named}; a node holds upgrades for at most five minutes"
    );
    hold(Reason::NodeOperationInProgress, message)
}

/// Returns the decision on a verdict that may not open the gate yet.
fn unopened(verdict: &Verdict) -> Decision {
    let (upgradeable, reason) = (verdict.upgradeable.as_str(), verdict.reason.as_str());
    let message = format!(
        "waiting for the verdict, {upgradeable} ({reason}), to be stable: briefly, or for one minute if upgrades were held"
    );
    unknown(message, true)
}

fn unknown(message: String, yields: bool) -> Decision {
    Decision {
        yields,
        ..Decision::of(hold(Reason::ReadinessUnknown, message))
    }
}

/// Returns the verdict that holds upgrades for this reason.
fn hold(reason: Reason, message: String) -> Verdict {
    Verdict {
        upgradeable: Upgradeable::False,
        reason,
        message,
    }
}

#[cfg(test)]
mod tests;
