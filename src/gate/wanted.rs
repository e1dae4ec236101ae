//! What the gate shall say: the verdict, without flip-flop. Pure, but for the moment that it is told.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::gate::operations::Operations;

/// How long a verdict must stand before it opens the gate where something that held it has gone from sight: watches of
/// different kinds run beside each other, so that for a moment the pieces of one change may be seen apart, and what is
/// deleted and made anew is away for a moment.
pub const MOMENT: Duration = Duration::from_secs(1);
/// How long it must stand where all that held the gate is still there and has what it lacked.
pub const BRIEF_MOMENT: Duration = Duration::from_millis(20);
/// The longest that it must stand, where it has gone back and forth.
const LONGEST_MOMENT: Duration = Duration::from_secs(60);
/// How far back going back and forth counts.
const MEMORY: Duration = Duration::from_secs(600);
/// How long a process that has only just started leaves standing why upgrades are held.
const START: Duration = Duration::from_secs(30);
/// The reason that only the gate knows.
const NODE_OPERATION: &str = "NodeOperationInProgress";
/// How many nodes a message names before it only counts.
const NAMED_NODES: usize = 10;

/// What the condition shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether upgrades may go on.
    pub upgradeable: Upgradeable,
    /// A word for machines.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
    /// A `False` that is there already says more, and stays.
    pub yields: bool,
}

impl Wanted {
    fn of(verdict: &Verdict) -> Self {
        Self {
            upgradeable: verdict.upgradeable,
            reason: verdict.reason.as_str(),
            message: verdict.message.clone(),
            yields: false,
        }
    }

    fn operation(nodes: &[&str]) -> Self {
        let named = &nodes[..nodes.len().min(NAMED_NODES)];
        let more = match nodes.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Self {
            upgradeable: Upgradeable::False,
            reason: NODE_OPERATION,
            message: format!(
                "csi-proxy is being replaced on {}{more}; a node holds upgrades for at most five minutes",
                named.join(", ")
            ),
            yields: false,
        }
    }

    fn waiting(verdict: &Verdict) -> Self {
        Self {
            upgradeable: Upgradeable::False,
            reason: Reason::ReadinessUnknown.as_str(),
            message: format!(
                "the first verdict, {} ({}), has to stand for a moment",
                verdict.upgradeable.as_str(),
                verdict.reason.as_str()
            ),
            yields: true,
        }
    }
}

/// What was judged of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The verdict.
    pub verdict: &'a Verdict,
    /// All that the verdict rests on can be read now.
    pub is_fresh: bool,
    /// How often something that held upgrades has gone from sight, rather than got what it lacked.
    pub departures: u64,
}

/// Decides what the gate shall say: `False` at once, `True` when it has stood for a moment, which is brief where nothing
/// has gone from sight, and the longer the more often it has gone back and forth.
#[derive(Debug)]
pub struct Decider {
    started: Instant,
    /// What was written last.
    last: Option<Wanted>,
    /// A verdict on the whole cluster has been seen.
    judged: bool,
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
            last: None,
            judged: false,
            open_since: None,
            departures: 0,
            departed: started,
            is_known: false,
            closings: Vec::new(),
            operations: Operations::default(),
        }
    }

    /// What the gate shall say from now on. A verdict that was right a while ago keeps the gate open, but does not open
    /// it.
    pub fn decide(
        &mut self,
        judged: &Judged<'_>,
        in_progress: &BTreeSet<String>,
        now: Instant,
    ) -> Wanted {
        let (verdict, is_fresh) = (judged.verdict, judged.is_fresh);
        self.judged |= verdict.reason != Reason::ReadinessUnknown;
        let is_known = is_fresh && verdict.reason != Reason::ReadinessUnknown;
        let was_known = std::mem::replace(&mut self.is_known, is_known);
        if !was_known || judged.departures != self.departures {
            self.departures = judged.departures;
            self.departed = now;
        }
        let holding = self.operations.holding(in_progress, now);
        let mut wanted = Wanted::of(verdict);
        if verdict.upgradeable == Upgradeable::True && !holding.is_empty() {
            wanted = Wanted::operation(&holding);
        }
        wanted.yields = !self.judged && now < self.started + START;
        if wanted.upgradeable == Upgradeable::False || self.was_open() {
            self.open_since = None;
            return wanted;
        }
        let waiting = || Wanted::waiting(verdict);
        if !is_fresh {
            self.open_since = None;
            return self.last.clone().unwrap_or_else(waiting);
        }
        let since = *self.open_since.get_or_insert(now);
        self.forget_old_closings(now);
        if now >= self.opens(since) {
            return wanted;
        }
        self.last.clone().unwrap_or_else(waiting)
    }

    /// When a verdict that would open the gate since that moment does so.
    fn opens(&self, since: Instant) -> Instant {
        let long = since + moment(self.closings.len());
        if !self.closings.is_empty() {
            return long;
        }
        (since + BRIEF_MOMENT).max(self.departed + MOMENT).min(long)
    }

    /// It was written.
    pub fn wrote(&mut self, wanted: Wanted, now: Instant) {
        match wanted.upgradeable {
            Upgradeable::True => self.open_since = None,
            Upgradeable::False if self.was_open() => self.closings.push(now),
            Upgradeable::False => {}
        }
        self.last = Some(wanted);
    }

    fn was_open(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|last| last.upgradeable == Upgradeable::True)
    }

    /// Whether a verdict that would open the gate has not stood long enough yet.
    pub fn is_waiting(&self) -> bool {
        self.open_since.is_some()
    }

    /// When a verdict that would open the gate has stood long enough.
    pub fn opening(&self) -> Option<Instant> {
        self.open_since.map(|since| self.opens(since))
    }

    /// When the decision may be another though nothing is new.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let opens = self.opening();
        let yields = self.last.as_ref().is_some_and(|last| last.yields);
        let insists = yields.then_some(self.started + START);
        [opens, insists, self.operations.next_end(now)]
            .into_iter()
            .flatten()
            .min()
    }

    fn forget_old_closings(&mut self, now: Instant) {
        self.closings
            .retain(|closing| now.duration_since(*closing) <= MEMORY);
    }
}

/// How long a verdict must stand after the gate has been opened in vain so many times.
fn moment(closings: usize) -> Duration {
    MOMENT
        .saturating_mul(1 << closings.min(16))
        .min(LONGEST_MOMENT)
}

#[cfg(test)]
mod tests;
