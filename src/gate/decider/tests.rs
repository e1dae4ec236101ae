use super::*;

const NOBODY: &BTreeSet<String> = &BTreeSet::new();
const HELD: &str = "DriversMissing";
const OPEN: &str = "DriversRegistered";

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
    departures: u64,
    was_held: bool,
}

impl Rig {
    fn new() -> Self {
        let start = Instant::now();
        Self {
            decider: Decider::new(start),
            start,
            departures: 0,
            was_held: false,
        }
    }

    fn after(&self, milliseconds: u64) -> Instant {
        self.start + Duration::from_millis(milliseconds)
    }

    /// What the gate says so many milliseconds after the start, which is written at once. What no longer holds it
    /// has gone from sight.
    fn at(&mut self, milliseconds: u64, verdict: &Verdict) -> &'static str {
        let holds = verdict.upgradeable == Upgradeable::False;
        self.departures += u64::from(self.was_held && !holds);
        self.supplied(milliseconds, verdict)
    }

    /// The same where what no longer holds it has got what it lacked.
    fn supplied(&mut self, milliseconds: u64, verdict: &Verdict) -> &'static str {
        self.was_held = verdict.upgradeable == Upgradeable::False;
        let decision = self.decide(milliseconds, verdict, true, NOBODY);
        self.decider
            .wrote(decision.clone(), self.after(milliseconds));
        decision.verdict.reason.as_str()
    }

    /// The same while not all can be read, and nothing can be written.
    fn blind(&mut self, milliseconds: u64, verdict: &Verdict) -> &'static str {
        let decision = self.decide(milliseconds, verdict, false, NOBODY);
        decision.verdict.reason.as_str()
    }

    fn decide(
        &mut self,
        milliseconds: u64,
        verdict: &Verdict,
        is_fresh: bool,
        in_progress: &BTreeSet<String>,
    ) -> Decision {
        let judged = Judged {
            verdict,
            is_fresh,
            departures: self.departures,
            in_progress,
        };
        self.decider.judge(&judged, self.after(milliseconds));
        self.decider.decision().unwrap().clone()
    }

    fn due(&self) -> Option<Instant> {
        self.decider.due(self.start)
    }
}

#[test]
fn false_is_said_at_once_and_true_when_it_has_stood_for_a_moment() {
    let mut rig = Rig::new();
    assert_eq!(rig.at(0, &held()), HELD);
    assert_eq!(rig.at(100, &open()), HELD);
    assert!(rig.decider.opens_at().is_some());
    assert_eq!(rig.due(), Some(rig.after(1_100)));
    assert_eq!(rig.at(1_099, &open()), HELD);
    assert_eq!(rig.at(1_100, &open()), OPEN);
    assert!(rig.decider.opens_at().is_none() && rig.due().is_none());
    let other = verdict(Upgradeable::True, Reason::NoInTreeVolumes);
    let said = rig.at(1_101, &other);
    assert_eq!(
        said, "NoInTreeVolumes",
        "what stays open may say so otherwise"
    );
    assert_eq!(rig.at(1_102, &held()), HELD);
}

#[test]
fn what_was_lacking_and_came_opens_the_gate_after_a_brief_moment() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    assert_eq!(rig.supplied(5_000, &open()), HELD);
    assert_eq!(rig.due(), Some(rig.after(5_020)));
    assert_eq!(rig.supplied(5_019, &open()), HELD);
    assert_eq!(rig.supplied(5_020, &open()), OPEN);
    rig.supplied(6_000, &held());
    rig.supplied(7_000, &open());
    let said = rig.supplied(8_999, &open());
    assert_eq!(
        said, HELD,
        "what has gone back and forth is not trusted so soon"
    );
    assert_eq!(rig.supplied(9_000, &open()), OPEN);
}

#[test]
fn what_went_from_sight_just_before_may_come_back() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    rig.departures += 1;
    rig.supplied(5_000, &held());
    assert_eq!(rig.supplied(5_500, &open()), HELD);
    assert_eq!(rig.supplied(5_999, &open()), HELD);
    assert_eq!(rig.supplied(6_000, &open()), OPEN);
}

#[test]
fn where_much_comes_and_goes_the_gate_opens_nevertheless() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    for step in 0..10 {
        rig.departures += 1;
        assert_eq!(rig.supplied(5_000 + step * 100, &open()), HELD);
    }
    rig.departures += 1;
    assert_eq!(rig.supplied(6_000, &open()), OPEN);
}

#[test]
fn a_verdict_that_was_open_between_two_others_never_opens_the_gate() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    for step in 1..100 {
        let verdict = if step % 2 == 1 { open() } else { held() };
        assert_eq!(rig.at(step * 900, &verdict), HELD);
    }
}

#[test]
fn the_moment_grows_with_each_time_that_the_gate_was_opened_too_early_and_is_forgotten_later() {
    let mut rig = Rig::new();
    rig.at(0, &open());
    assert_eq!(rig.at(1_000, &open()), OPEN);
    rig.at(2_000, &held());
    rig.at(3_000, &open());
    assert_eq!(rig.at(4_000, &open()), HELD, "two seconds now");
    assert_eq!(rig.at(5_000, &open()), OPEN);
    for _ in 0..20 {
        rig.at(6_000, &held());
        let opened = Decision {
            verdict: open(),
            yields: false,
        };
        rig.decider.wrote(opened, rig.after(6_000));
    }
    rig.at(6_000, &held());
    rig.at(7_000, &open());
    assert_eq!(rig.at(66_000, &open()), HELD);
    assert_eq!(rig.at(67_000, &open()), OPEN, "never longer than a minute");
    rig.at(68_000, &held());
    rig.at(700_000, &open());
    assert_eq!(rig.at(701_000, &open()), OPEN);
}

#[test]
fn only_what_can_be_read_at_that_moment_opens_the_gate_and_it_stays_open_without() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    assert_eq!(rig.blind(100, &open()), HELD);
    assert_eq!(rig.blind(9_000, &open()), HELD);
    assert!(rig.due().is_none(), "nothing comes of waiting");
    rig.at(10_000, &open());
    rig.blind(10_500, &open());
    rig.at(10_600, &open());
    assert_eq!(rig.at(11_500, &open()), HELD, "it begins again");
    assert_eq!(rig.at(11_600, &open()), OPEN);
    assert_eq!(rig.blind(20_000, &open()), OPEN);
}

#[test]
fn what_comes_into_sight_again_is_not_trusted_so_soon() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    rig.blind(5_000, &held());
    rig.blind(9_000, &held());
    assert_eq!(rig.supplied(10_000, &open()), HELD);
    let said = rig.supplied(10_999, &open());
    assert_eq!(
        said, HELD,
        "something may have gone while nobody could look"
    );
    assert_eq!(rig.supplied(11_000, &open()), OPEN);
}

#[test]
fn what_could_not_be_written_does_not_count_as_open() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    rig.at(1_000, &open());
    let decision = rig.decide(2_000, &open(), true, NOBODY);
    assert_eq!(decision.verdict, open());
    // The write failed, and by the time of the next attempt the API server is out of reach.
    assert_eq!(rig.blind(3_000, &open()), HELD);
}

#[test]
fn a_fresh_process_says_false_first_and_leaves_a_better_false_for_a_while() {
    for first in [open(), unknown()] {
        let mut rig = Rig::new();
        let decision = rig.decide(0, &first, true, NOBODY);
        assert!(decision.yields && decision.verdict.upgradeable == Upgradeable::False);
    }
    let mut rig = Rig::new();
    rig.supplied(0, &unknown());
    assert_eq!(rig.due(), Some(rig.start + START));
    let later = rig.decide(30_000, &unknown(), true, NOBODY);
    assert!(!later.yields, "what cannot be read is to be said some time");

    let mut rig = Rig::new();
    rig.at(0, &held());
    let lost = rig.decide(0, &unknown(), true, NOBODY);
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
    let Verdict {
        upgradeable,
        reason,
        message,
    } = rig.decide(2_000, &open(), true, &nodes).verdict;
    assert_eq!(upgradeable, Upgradeable::False);
    assert_eq!(reason.as_str(), "NodeOperationInProgress");
    assert!(message.contains("win-00, win-01") && message.contains("and 2 more"));
    let worse = rig.decide(2_000, &held(), true, &nodes);
    assert_eq!(worse.verdict, held(), "what holds anyway is said");
    rig.decider.wrote(worse, rig.after(2_000));
    let end = rig.decider.due(rig.after(2_000)).unwrap();
    assert_eq!(end, rig.after(2_000) + crate::gate::operations::LIMIT);
    rig.decide(302_000, &open(), true, &nodes);
    let after = rig.decide(362_000, &open(), true, &nodes);
    assert_eq!(after.verdict, open(), "bounded in time");
}
