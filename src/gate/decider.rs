//! What the gate shall say: the verdict, but `True` only when nothing can be on its way back. Pure, but for the moment that
//! it is given.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::gate::operations::Operations;
use crate::visible::some_of;

/// How long nothing may hold upgrades before the gate opens where something that held them has gone from sight: what is
/// deleted and made again is away for a moment, and so is a pod between two that its owner makes.
pub const MINUTE: Duration = Duration::from_secs(60);
/// How long where all that held the gate is still there and has what it lacked: watches of different kinds run beside each
/// other, so that the pieces of one change may be seen apart.
pub const BRIEF_MOMENT: Duration = Duration::from_millis(20);
/// How long a process that has only just started leaves standing why upgrades are held.
const START: Duration = Duration::from_secs(30);
/// How long the proof that nothing was missed may take before it is said that it is missing.
const PROOF: Duration = Duration::from_secs(10);
/// How much of a message is said again in another one: both together are no longer than a condition takes.
const MOST_SAID: usize = 32_000;
/// How many nodes a message names before it only counts.
const NAMED_NODES: usize = 10;

/// What was judged of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The verdict.
    pub verdict: &'a Verdict,
    /// All that the verdict rests on can be read now.
    pub is_readable: bool,
    /// All of it is known to be the present.
    pub is_fresh: bool,
    /// When something has gone from sight the last time, rather than got what it lacked, that would hold upgrades if it
    /// came back.
    pub gone: Option<Instant>,
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

impl Decision {
    /// Whether it holds upgrades.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdict.upgradeable == Upgradeable::False
    }
}

/// What this process has found in the condition when it began to write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or what holds no upgrades.
    Open,
    /// That csi-proxy was being replaced on a node, and nothing else held upgrades.
    Operation,
    /// Anything else that holds them. What did may have gone from sight a moment before.
    Held,
}

/// Decides what the gate shall say: `False` at once; `True` on fresh data, at once where what held has got what it lacked,
/// and after a minute where it has gone from sight. A verdict that was right a while ago keeps the gate open, but does not
/// open it.
#[derive(Debug)]
pub struct Decider {
    started: Instant,
    /// A single pass does not wait.
    is_once: bool,
    /// What was decided last.
    pub decision: Option<Decision>,
    /// When the gate opens if the verdict stands and its data is fresh, where it is not open.
    pub opens_at: Option<Instant>,
    /// It is time to have it shown that what is known is the present.
    pub wants_proof: bool,
    /// What was written last.
    written: Option<Decision>,
    /// What has held upgrades last, before nothing did.
    held: Option<Decision>,
    found: Option<Found>,
    /// Since when the verdict is one that would open the gate.
    open_since: Option<Instant>,
    /// When something had gone from sight the last time, since all was known for the first time.
    gone: Option<Instant>,
    /// When all was known for the first time.
    known_since: Option<Instant>,
    operations: Operations,
}

impl Decider {
    /// Nothing decided yet, by a process that has started at that moment.
    pub fn new(started: Instant, is_once: bool) -> Self {
        Self {
            started,
            is_once,
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

    /// Whether it is known what the condition said before this process wrote it.
    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// The condition said that before this process wrote it.
    pub fn find(&mut self, found: Found) {
        self.found = Some(found);
    }

    /// Takes in a verdict and decides.
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
        // What is open stays so on data that was right a while ago.
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
        // Before all is known, its pieces come and go as they are read.
        self.gone =
            (judged.gone).filter(|gone| self.known_since.is_some_and(|since| *gone > since));
    }

    /// When a verdict that would open the gate since that moment does so; never, where this process must not.
    fn opening(&self, since: Instant, verdict: &Verdict) -> Option<Instant> {
        let found_held = self.found? == Found::Held;
        if self.is_once && self.found? != Found::Open {
            return None;
        }
        let soon = since + BRIEF_MOMENT;
        if verdict.reason == Reason::Override {
            return Some(soon);
        }
        let known = self.known_since.filter(|_| found_held);
        let gone = self.gone.max(known);
        Some(gone.map_or(soon, |gone| soon.max(gone + MINUTE)))
    }

    /// That was written.
    pub fn wrote(&mut self, decision: Decision) {
        if !decision.holds() {
            self.found = Some(Found::Open);
        }
        self.written = Some(decision);
    }

    /// When to judge again though nothing is new.
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

    /// What is said while the verdict would open the gate and has not yet.
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

/// What held upgrades has gone from sight. It says what that was, and for how long it is waited for.
fn gone(held: &Decision) -> Decision {
    let said: String = held.verdict.message.chars().take(MOST_SAID).collect();
    let mut gone = held.clone();
    gone.verdict.message = format!(
        "what held upgrades is no longer there, and they may go on a minute after it was last seen if it does not come \
         back: {said}"
    );
    gone
}

fn unproved() -> Decision {
    let message =
        "the verdict is True, and it could not be proved yet that no watch has missed anything";
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

/// The first verdict of a process, before it may open the gate.
fn unopened(verdict: &Verdict) -> Decision {
    let (upgradeable, reason) = (verdict.upgradeable.as_str(), verdict.reason.as_str());
    let message = format!(
        "the first verdict, {upgradeable} ({reason}), has to stand for a moment, or for a minute where upgrades were held"
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
