//! What the gate shall say: the verdict, without flip-flop. Pure, but for the moment that it is told.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::gate::operations::Operations;

/// How long a verdict must stand before it opens the gate: watches of different kinds run beside each other, so that for
/// a moment the pieces of one change may be seen apart.
pub const MOMENT: Duration = Duration::from_secs(1);
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

/// Decides what the gate shall say: `False` at once, `True` when it has stood for a moment, the longer the more often it
/// has gone back and forth.
#[derive(Debug)]
pub struct Decider {
    started: Instant,
    /// What was written last.
    last: Option<Wanted>,
    /// A verdict on the whole cluster has been seen.
    judged: bool,
    /// Since when the verdict is one that would open the gate.
    open_since: Option<Instant>,
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
            closings: Vec::new(),
            operations: Operations::default(),
        }
    }

    /// What the gate shall say from now on. `is_fresh` says whether all that the verdict rests on can be read now: a
    /// verdict that was right a while ago keeps the gate open, but does not open it.
    pub fn decide(
        &mut self,
        (verdict, is_fresh): (&Verdict, bool),
        in_progress: &BTreeSet<String>,
        now: Instant,
    ) -> Wanted {
        self.judged |= verdict.reason != Reason::ReadinessUnknown;
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
        if now >= since + moment(self.closings.len()) {
            return wanted;
        }
        self.last.clone().unwrap_or_else(waiting)
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

    /// When the decision may be another though nothing is new.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let opens = self
            .open_since
            .map(|since| since + moment(self.closings.len()));
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
mod tests {
    use super::*;

    const NOBODY: BTreeSet<String> = BTreeSet::new();

    fn verdict(upgradeable: Upgradeable, reason: Reason) -> Verdict {
        Verdict {
            upgradeable,
            reason,
            message: "m".to_owned(),
        }
    }

    fn open() -> Verdict {
        verdict(Upgradeable::True, Reason::DriversRegistered)
    }

    fn held() -> Verdict {
        verdict(Upgradeable::False, Reason::DriversMissing)
    }

    fn unknown() -> Verdict {
        verdict(Upgradeable::False, Reason::ReadinessUnknown)
    }

    struct Rig {
        decider: Decider,
        start: Instant,
    }

    impl Rig {
        fn new() -> Self {
            let start = Instant::now();
            Self {
                decider: Decider::new(start),
                start,
            }
        }

        /// What the gate says so many milliseconds after the start, which is written at once.
        fn at(&mut self, milliseconds: u64, verdict: &Verdict) -> &'static str {
            let now = self.start + Duration::from_millis(milliseconds);
            let wanted = self.decider.decide((verdict, true), &NOBODY, now);
            self.decider.wrote(wanted.clone(), now);
            wanted.reason
        }

        /// The same while not all can be read.
        fn blind(&mut self, milliseconds: u64, verdict: &Verdict) -> &'static str {
            let now = self.start + Duration::from_millis(milliseconds);
            self.decider.decide((verdict, false), &NOBODY, now).reason
        }
    }

    #[test]
    fn false_is_said_at_once_and_true_when_it_has_stood_for_a_moment() {
        let mut rig = Rig::new();
        assert_eq!(rig.at(0, &held()), "DriversMissing");
        assert_eq!(rig.at(100, &open()), "DriversMissing");
        assert!(rig.decider.is_waiting());
        assert_eq!(
            rig.decider.next(rig.start),
            Some(rig.start + Duration::from_millis(1_100))
        );
        assert_eq!(rig.at(1_099, &open()), "DriversMissing");
        assert_eq!(rig.at(1_100, &open()), "DriversRegistered");
        assert!(!rig.decider.is_waiting() && rig.decider.next(rig.start).is_none());
        assert_eq!(rig.at(1_101, &held()), "DriversMissing");
    }

    #[test]
    fn a_verdict_that_was_open_between_two_others_never_opens_the_gate() {
        let mut rig = Rig::new();
        rig.at(0, &held());
        for step in 1..100 {
            let verdict = if step % 2 == 1 { open() } else { held() };
            assert_eq!(rig.at(step * 900, &verdict), "DriversMissing");
        }
    }

    #[test]
    fn the_moment_grows_with_each_time_that_the_gate_was_opened_in_vain_and_is_forgotten_later() {
        let mut rig = Rig::new();
        rig.at(0, &open());
        assert_eq!(rig.at(1_000, &open()), "DriversRegistered");
        rig.at(2_000, &held());
        rig.at(3_000, &open());
        assert_eq!(rig.at(4_000, &open()), "DriversMissing", "two seconds now");
        assert_eq!(rig.at(5_000, &open()), "DriversRegistered");
        for _ in 0..20 {
            rig.at(6_000, &held());
            rig.decider.last = Some(Wanted::of(&open()));
        }
        rig.at(6_000, &held());
        rig.at(7_000, &open());
        assert_eq!(rig.at(66_000, &open()), "DriversMissing");
        assert_eq!(
            rig.at(67_000, &open()),
            "DriversRegistered",
            "never longer than a minute"
        );
        rig.at(68_000, &held());
        rig.at(700_000, &open());
        assert_eq!(rig.at(701_000, &open()), "DriversRegistered");
    }

    #[test]
    fn only_what_can_be_read_at_that_moment_opens_the_gate_and_it_stays_open_without() {
        let mut rig = Rig::new();
        rig.at(0, &held());
        assert_eq!(rig.blind(100, &open()), "DriversMissing");
        assert_eq!(rig.blind(9_000, &open()), "DriversMissing");
        assert!(!rig.decider.is_waiting(), "nothing comes of waiting");
        rig.at(10_000, &open());
        rig.blind(10_500, &open());
        rig.at(10_600, &open());
        assert_eq!(rig.at(11_500, &open()), "DriversMissing", "it begins anew");
        assert_eq!(rig.at(11_600, &open()), "DriversRegistered");
        assert_eq!(rig.blind(20_000, &open()), "DriversRegistered");
    }

    #[test]
    fn what_could_not_be_written_does_not_count_as_open() {
        let mut rig = Rig::new();
        rig.at(0, &held());
        rig.at(1_000, &open());
        let now = rig.start + Duration::from_secs(2);
        let wanted = rig.decider.decide((&open(), true), &NOBODY, now);
        assert_eq!(wanted.reason, "DriversRegistered");
        // The write failed, and by the time of the next attempt the API server is out of reach.
        assert_eq!(rig.blind(3_000, &open()), "DriversMissing");
    }

    #[test]
    fn a_verdict_that_stays_open_may_change_its_words_at_once() {
        let mut rig = Rig::new();
        rig.at(0, &open());
        rig.at(1_000, &open());
        let other = verdict(Upgradeable::True, Reason::NoInTreeVolumes);
        assert_eq!(rig.at(1_001, &other), "NoInTreeVolumes");
    }

    #[test]
    fn a_fresh_process_says_false_first_and_leaves_a_better_false_for_a_while() {
        let mut rig = Rig::new();
        let first = rig.decider.decide((&open(), true), &NOBODY, rig.start);
        assert_eq!(
            (first.upgradeable, first.yields),
            (Upgradeable::False, true)
        );

        let mut rig = Rig::new();
        let first = rig.decider.decide((&unknown(), true), &NOBODY, rig.start);
        assert!(first.yields && first.upgradeable == Upgradeable::False);
        rig.decider.wrote(first, rig.start);
        assert_eq!(rig.decider.next(rig.start), Some(rig.start + START));
        let later = rig
            .decider
            .decide((&unknown(), true), &NOBODY, rig.start + START);
        assert!(!later.yields, "what cannot be read is to be said some time");

        let mut rig = Rig::new();
        rig.at(0, &held());
        let lost = rig.decider.decide((&unknown(), true), &NOBODY, rig.start);
        assert!(
            !lost.yields,
            "this process has judged before, so it is news"
        );
    }

    #[test]
    fn a_node_in_the_middle_of_an_update_holds_what_else_would_go_on() {
        let mut rig = Rig::new();
        let nodes: BTreeSet<String> = (0..12).map(|number| format!("win-{number:02}")).collect();
        rig.at(0, &open());
        rig.at(1_000, &open());
        let now = rig.start + Duration::from_secs(2);
        let busy = rig.decider.decide((&open(), true), &nodes, now);
        assert_eq!(
            (busy.upgradeable, busy.reason),
            (Upgradeable::False, NODE_OPERATION)
        );
        assert!(busy.message.contains("win-00, win-01") && busy.message.contains("and 2 more"));
        let worse = rig.decider.decide((&held(), true), &nodes, now);
        assert_eq!(worse.reason, "DriversMissing", "what holds anyway is said");
        rig.decider.wrote(worse, now);
        let end = rig.decider.next(now).unwrap();
        assert!(end > now && end <= now + crate::gate::operations::LIMIT);
        rig.decider.decide((&open(), true), &nodes, end);
        let after = rig
            .decider
            .decide((&open(), true), &nodes, end + LONGEST_MOMENT);
        assert_eq!(after.upgradeable, Upgradeable::True, "bounded in time");
    }
}
