//! Decides what the gate says: the verdict, but `True` only if nothing that held upgrades can be about to come back. Pure:
//! the current time is an argument.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::gate::operations::Operations;
use crate::visible::some_of;

/// How long nothing may hold upgrades before the gate opens after something that held them has disappeared: an object that
/// is deleted and recreated is missing for a moment, and so is a pod between two that its owner creates.
pub const MINUTE: Duration = Duration::from_secs(60);
/// This delay applies instead if everything that held the gate still exists and got what it lacked: watches of different
/// kinds run in parallel, so the parts of one change may arrive separately.
pub const BRIEF_MOMENT: Duration = Duration::from_millis(20);
/// How long a process that has just started keeps an existing reason for holding upgrades.
const START: Duration = Duration::from_secs(30);
/// How long the proof that nothing was missed may take before the condition says that it is missing.
const PROOF: Duration = Duration::from_secs(10);
/// How much of one message is repeated in another: both together fit into a condition.
const MOST_SAID: usize = 32_000;
/// How many nodes a message names; the rest is only counted.
const NAMED_NODES: usize = 10;

/// The result of judging the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The verdict.
    pub verdict: &'a Verdict,
    /// Whether all data that the verdict rests on can be read now.
    pub is_readable: bool,
    /// Whether all of it is known to be current.
    pub is_fresh: bool,
    /// When something last disappeared, rather than got what it lacked, that would hold upgrades if it came back.
    pub gone: Option<Instant>,
    /// The nodes on which an update is in progress.
    pub in_progress: &'a BTreeSet<String>,
}

/// What the condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict, or another reason for holding upgrades.
    pub verdict: Verdict,
    /// Whether an existing `False` stays because it says more.
    pub yields: bool,
}

impl Decision {
    /// Returns whether it holds upgrades.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdict.upgradeable == Upgradeable::False
    }
}

/// What this process found in the condition before it first wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or a condition that holds no upgrades.
    Open,
    /// Only that csi-proxy was being replaced on a node.
    Operation,
    /// Any other condition that holds upgrades. What caused it may have disappeared just before.
    Held,
}

/// Decides what the gate says: `False` at once; `True` only on fresh data, at once if what held upgrades got what it lacked,
/// and after a minute if it disappeared. An older verdict keeps an open gate open, but does not open it.
#[derive(Debug)]
pub struct Decider {
    started: Instant,
    /// The last decision.
    pub decision: Option<Decision>,
    /// When the closed gate opens if the verdict stands and its data is fresh.
    pub opens_at: Option<Instant>,
    /// Whether the data must now be proved current.
    pub wants_proof: bool,
    /// The last decision that was written.
    written: Option<Decision>,
    /// The last decision that held upgrades.
    held: Option<Decision>,
    found: Option<Found>,
    /// Since when the verdict would open the gate.
    open_since: Option<Instant>,
    /// When something last disappeared, since all data was first known.
    gone: Option<Instant>,
    /// When all data was first known.
    known_since: Option<Instant>,
    operations: Operations,
}

impl Decider {
    /// Creates a decider without a decision, for a process that started at `started`.
    pub fn new(started: Instant) -> Self {
        Self {
            started,
            decision: None,
            opens_at: None,
            wants_proof: false,
            written: None,
            held: None,
            found: None,
            open_since: None,
            gone: None,
            known_since: None,
            operations: Operations::default(),
        }
    }

    /// Returns whether it is known what the condition said before this process wrote it.
    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// Records what the condition said before this process wrote it.
    pub fn find(&mut self, found: Found) {
        self.found = Some(found);
    }

    /// Processes a verdict and decides.
    pub fn judge(&mut self, judged: &Judged<'_>, now: Instant) {
        self.note_gone(judged, now);
        let holding = self.operations.holding(judged.in_progress, now);
        let verdict = judged.verdict;
        self.wants_proof = false;
        self.opens_at = None;
        if verdict.upgradeable == Upgradeable::False {
            self.open_since = None;
            let has_judged = self.known_since.is_some();
            let decision = Decision {
                verdict: verdict.clone(),
                yields: !has_judged && now < self.started + START,
            };
            if verdict.reason != Reason::ReadinessUnknown {
                self.held = Some(decision.clone());
            }
            self.decision = Some(decision);
            return;
        }
        let operation = (!holding.is_empty()).then(|| operation(&holding));
        let is_open = self.is_open();
        // Data that was right a while ago keeps an open gate open.
        let since = self.open_since.or(Some(now));
        self.open_since = since.filter(|_| judged.is_readable && !is_open);
        self.opens_at = (self.open_since).and_then(|since| self.opening(since, verdict));
        let is_time = self.opens_at.is_some_and(|at| at <= now);
        let may_be_said = is_open || (is_time && (judged.is_fresh || operation.is_some()));
        self.decision = Some(if may_be_said {
            self.opens_at = None;
            Decision {
                verdict: operation.unwrap_or_else(|| verdict.clone()),
                yields: false,
            }
        } else {
            let soon = now + BRIEF_MOMENT;
            self.wants_proof = !judged.is_fresh && self.opens_at.is_some_and(|at| at <= soon);
            self.waiting(verdict, now)
        });
    }

    fn note_gone(&mut self, judged: &Judged<'_>, now: Instant) {
        let is_known = judged.verdict.reason != Reason::ReadinessUnknown && judged.is_readable;
        self.known_since = self.known_since.or(is_known.then_some(now));
        // Until all data is known, its parts come and go as they are read.
        self.gone =
            (judged.gone).filter(|gone| self.known_since.is_some_and(|since| *gone > since));
    }

    /// Returns when the gate opens if the verdict would open it since `since`; `None` if this process must not open it.
    fn opening(&self, since: Instant, verdict: &Verdict) -> Option<Instant> {
        let found_held = self.found? == Found::Held;
        let soon = since + BRIEF_MOMENT;
        if verdict.reason == Reason::Override {
            return Some(soon);
        }
        let known = self.known_since.filter(|_| found_held);
        let gone = self.gone.max(known);
        Some(gone.map_or(soon, |gone| soon.max(gone + MINUTE)))
    }

    /// Records that this decision was written.
    pub fn wrote(&mut self, decision: Decision) {
        if !decision.holds() {
            self.found = Some(Found::Open);
        }
        self.written = Some(decision);
    }

    /// Returns when to judge again if nothing changes.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let yields = self.decision.as_ref().is_some_and(|last| last.yields);
        let insists = Some(self.started + START).filter(|at| yields && *at > now);
        let opens_at = self.opens_at.filter(|at| *at > now);
        let operations = self.operations.next_end(now);
        let due = [opens_at, insists, operations];
        due.into_iter().flatten().min()
    }

    fn is_open(&self) -> bool {
        let written = self.written.as_ref();
        written.is_some_and(|written| !written.holds())
    }

    /// Returns the decision while the verdict would open the gate but has not opened it yet.
    fn waiting(&self, verdict: &Verdict, now: Instant) -> Decision {
        let (held, opens_at) = (self.held.as_ref(), self.opens_at);
        if opens_at.is_some_and(|at| at + PROOF <= now) {
            return unproved();
        }
        let gone_at = self.gone.map(|gone| gone + MINUTE);
        if let Some(held) = held.filter(|_| opens_at.is_some() && opens_at == gone_at) {
            return gone(held);
        }
        let written = self.written.clone();
        written
            .filter(|written| !written.yields)
            .unwrap_or_else(|| unopened(verdict))
    }
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

fn unproved() -> Decision {
    let message =
        "the verdict is True, but it is not confirmed yet that no watch has missed a change";
    unknown(message.to_owned(), false)
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

/// Returns the decision on the first verdict of a process, before it may open the gate.
fn unopened(verdict: &Verdict) -> Decision {
    let (upgradeable, reason) = (verdict.upgradeable.as_str(), verdict.reason.as_str());
    let message = format!(
        "waiting for the first verdict, {upgradeable} ({reason}), to be stable: briefly, or for one minute if upgrades were held"
    );
    unknown(message, true)
}

fn unknown(message: String, yields: bool) -> Decision {
    let verdict = Verdict {
        upgradeable: Upgradeable::False,
        reason: Reason::ReadinessUnknown,
        message,
    };
    Decision { verdict, yields }
}

#[cfg(test)]
mod tests;
