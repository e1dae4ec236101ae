//! What the gate shall say: the verdict, without flip-flop. Pure, but for the moment that it is given.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::gate::operations::Operations;
use crate::visible::some_of;

/// How long a verdict must stand before it opens the gate where something that held it has gone from sight: watches of
/// different kinds run beside each other, so that for a moment the pieces of one change may be seen apart, and what is
/// deleted and made again is away for a moment.
pub const MOMENT: Duration = Duration::from_secs(1);
/// How long it must stand where all that held the gate is still there and has what it lacked.
pub const BRIEF_MOMENT: Duration = Duration::from_millis(20);
/// The longest that it must stand, where it has gone back and forth.
const LONGEST_MOMENT: Duration = Duration::from_secs(60);
/// How far back going back and forth counts.
const MEMORY: Duration = Duration::from_secs(600);
/// How long a process that has only just started leaves standing why upgrades are held.
const START: Duration = Duration::from_secs(30);
/// How many nodes a message names before it only counts.
const NAMED_NODES: usize = 10;

/// What was judged of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The verdict.
    pub verdict: &'a Verdict,
    /// All that the verdict rests on can be read now.
    pub is_fresh: bool,
    /// How often something that held upgrades has gone from sight, rather than got what it lacked.
    pub departures: u64,
    /// The nodes that are in the middle of an update.
    pub in_progress: &'a BTreeSet<String>,
}

/// What the condition shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict, or what else holds upgrades.
    pub verdict: Verdict,
    /// A `False` that is there already says more, and stays.
    pub yields: bool,
}

/// Decides what the gate shall say: `False` at once, `True` when it has stood for a moment, which is brief where nothing
/// has gone from sight, and the longer the more often it has gone back and forth. A verdict that was right a while ago
/// keeps the gate open, but does not open it.
#[derive(Debug)]
pub struct Decider {
    started: Instant,
    /// What was decided last.
    pub decision: Option<Decision>,
    /// When the verdict has stood long enough to open the gate, where it has not yet.
    pub opens_at: Option<Instant>,
    /// What was written last.
    written: Option<Decision>,
    /// A verdict on the whole cluster has been seen.
    has_judged: bool,
    /// Since when the verdict is one that would open the gate.
    open_since: Option<Instant>,
    /// How often something that held upgrades had gone from sight.
    departures: u64,
    /// When that was the last time, or all came to be known.
    departed: Instant,
    is_known: bool,
    /// When the gate had to be closed after it had been opened.
    closings: Vec<Instant>,
    operations: Operations,
}

impl Decider {
    /// Nothing decided yet, by a process that has started at that moment.
    pub fn new(started: Instant) -> Self {
        Self {
            started,
            decision: None,
            opens_at: None,
            written: None,
            has_judged: false,
            open_since: None,
            departures: 0,
            departed: started,
            is_known: false,
            closings: Vec::new(),
            operations: Operations::default(),
        }
    }

    /// Takes in a verdict and decides.
    pub fn judge(&mut self, judged: &Judged<'_>, now: Instant) {
        let verdict = self.take_in(judged, now);
        let is_held = verdict.upgradeable == Upgradeable::False;
        self.open_since = self.open_since.or(Some(now)).filter(|_| {
            // What stays open opens nothing.
            judged.is_fresh && !is_held && !self.is_open()
        });
        let opens_at = self.open_since.map(|since| self.opening(since));
        self.opens_at = opens_at.filter(|at| *at > now);
        let may_be_said = is_held || self.is_open() || self.open_since.is_some();
        self.decision = Some(if may_be_said && self.opens_at.is_none() {
            let yields = !self.has_judged && now < self.started + START;
            Decision { verdict, yields }
        } else {
            self.written.clone().unwrap_or_else(|| waiting(&verdict))
        });
    }

    /// What is to be said now, if it may be: the verdict, or the nodes that hold upgrades although it would not.
    fn take_in(&mut self, judged: &Judged<'_>, now: Instant) -> Verdict {
        let has_judged = judged.verdict.reason != Reason::ReadinessUnknown;
        self.has_judged |= has_judged;
        let is_known = has_judged && judged.is_fresh;
        let was_known = std::mem::replace(&mut self.is_known, is_known);
        if !was_known || judged.departures != self.departures {
            self.departures = judged.departures;
            self.departed = now;
        }
        self.closings
            .retain(|closing| now.duration_since(*closing) <= MEMORY);
        let holding = self.operations.holding(judged.in_progress, now);
        if judged.verdict.upgradeable == Upgradeable::True && !holding.is_empty() {
            return operation(&holding);
        }
        judged.verdict.clone()
    }

    /// When a verdict that would open the gate since that moment does so.
    fn opening(&self, since: Instant) -> Instant {
        let long = since + moment(self.closings.len());
        if !self.closings.is_empty() {
            return long;
        }
        (since + BRIEF_MOMENT).max(self.departed + MOMENT).min(long)
    }

    /// That was written.
    pub fn wrote(&mut self, decision: Decision, now: Instant) {
        if decision.verdict.upgradeable == Upgradeable::False && self.is_open() {
            self.closings.push(now);
        }
        self.written = Some(decision);
    }

    /// When to judge again though nothing is new.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let yields = self.decision.as_ref().is_some_and(|last| last.yields);
        let insists = Some(self.started + START).filter(|at| yields && *at > now);
        let operations = self.operations.next_end(now);
        let due = [self.opens_at, insists, operations];
        due.into_iter().flatten().min()
    }

    fn is_open(&self) -> bool {
        let written = self.written.as_ref();
        written.is_some_and(|written| written.verdict.upgradeable == Upgradeable::True)
    }
}

/// How long a verdict must stand after the gate has been opened too early so many times.
fn moment(closings: usize) -> Duration {
    let moment = MOMENT.saturating_mul(1 << closings.min(16));
    moment.min(LONGEST_MOMENT)
}

fn operation(nodes: &[&str]) -> Verdict {
    let named = some_of(nodes, NAMED_NODES);
    Verdict {
        upgradeable: Upgradeable::False,
        reason: Reason::NodeOperationInProgress,
        message: format!(
            "csi-proxy is being replaced on {named}; a node holds upgrades for at most five minutes"
        ),
    }
}

fn waiting(verdict: &Verdict) -> Decision {
    let (upgradeable, reason) = (verdict.upgradeable.as_str(), verdict.reason.as_str());
    let message = format!("the first verdict, {upgradeable} ({reason}), has to stand for a moment");
    let verdict = Verdict {
        upgradeable: Upgradeable::False,
        reason: Reason::ReadinessUnknown,
        message,
    };
    Decision {
        verdict,
        yields: true,
    }
}

#[cfg(test)]
mod tests;
