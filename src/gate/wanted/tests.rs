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

fn judged(verdict: &Verdict) -> Judged<'_> {
    Judged {
        verdict,
        is_fresh: true,
        departures: 0,
    }
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

    /// What the gate says so many milliseconds after the start, which is written at once. What no longer holds it
    /// has gone from sight.
    fn at(&mut self, milliseconds: u64, verdict: &Verdict) -> &'static str {
        let holds = verdict.upgradeable == Upgradeable::False;
        self.departures += u64::from(self.was_held && !holds);
        self.supplied(milliseconds, verdict)
    }

    /// The same where what no longer holds it has got what it lacked.
    fn supplied(&mut self, milliseconds: u64, verdict: &Verdict) -> &'static str {
        let now = self.start + Duration::from_millis(milliseconds);
        self.was_held = verdict.upgradeable == Upgradeable::False;
        let judged = Judged {
            departures: self.departures,
            ..judged(verdict)
        };
        let wanted = self.decider.decide(&judged, &NOBODY, now);
        self.decider.wrote(wanted.clone(), now);
        wanted.reason
    }

    /// The same while not all can be read.
    fn blind(&mut self, milliseconds: u64, verdict: &Verdict) -> &'static str {
        let now = self.start + Duration::from_millis(milliseconds);
        let judged = Judged {
            is_fresh: false,
            departures: self.departures,
            verdict,
        };
        self.decider.decide(&judged, &NOBODY, now).reason
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
fn what_was_lacking_and_came_opens_the_gate_after_a_brief_moment() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    assert_eq!(rig.supplied(5_000, &open()), "DriversMissing");
    assert_eq!(
        rig.decider.next(rig.start),
        Some(rig.start + Duration::from_millis(5_020))
    );
    assert_eq!(rig.supplied(5_019, &open()), "DriversMissing");
    assert_eq!(rig.supplied(5_020, &open()), "DriversRegistered");
    rig.supplied(6_000, &held());
    rig.supplied(7_000, &open());
    assert_eq!(
        rig.supplied(8_999, &open()),
        "DriversMissing",
        "what has gone back and forth is not trusted so soon"
    );
    assert_eq!(rig.supplied(9_000, &open()), "DriversRegistered");
}

#[test]
fn what_went_from_sight_just_before_may_come_back() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    rig.departures += 1;
    rig.supplied(5_000, &held());
    assert_eq!(rig.supplied(5_500, &open()), "DriversMissing");
    assert_eq!(rig.supplied(5_999, &open()), "DriversMissing");
    assert_eq!(rig.supplied(6_000, &open()), "DriversRegistered");
}

#[test]
fn where_much_comes_and_goes_the_gate_opens_nevertheless() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    for step in 0..10 {
        rig.departures += 1;
        assert_eq!(rig.supplied(5_000 + step * 100, &open()), "DriversMissing");
    }
    rig.departures += 1;
    assert_eq!(rig.supplied(6_000, &open()), "DriversRegistered");
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
fn what_comes_into_sight_again_is_not_trusted_so_soon() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    rig.blind(5_000, &held());
    rig.blind(9_000, &held());
    assert_eq!(rig.supplied(10_000, &open()), "DriversMissing");
    assert_eq!(
        rig.supplied(10_999, &open()),
        "DriversMissing",
        "something may have gone while nobody could look"
    );
    assert_eq!(rig.supplied(11_000, &open()), "DriversRegistered");
}

#[test]
fn what_could_not_be_written_does_not_count_as_open() {
    let mut rig = Rig::new();
    rig.at(0, &held());
    rig.at(1_000, &open());
    let now = rig.start + Duration::from_secs(2);
    let wanted = rig.decider.decide(&judged(&open()), &NOBODY, now);
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
    let first = rig.decider.decide(&judged(&open()), &NOBODY, rig.start);
    assert_eq!(
        (first.upgradeable, first.yields),
        (Upgradeable::False, true)
    );

    let mut rig = Rig::new();
    let first = rig.decider.decide(&judged(&unknown()), &NOBODY, rig.start);
    assert!(first.yields && first.upgradeable == Upgradeable::False);
    rig.decider.wrote(first, rig.start);
    assert_eq!(rig.decider.next(rig.start), Some(rig.start + START));
    let later = rig
        .decider
        .decide(&judged(&unknown()), &NOBODY, rig.start + START);
    assert!(!later.yields, "what cannot be read is to be said some time");

    let mut rig = Rig::new();
    rig.at(0, &held());
    let lost = rig.decider.decide(&judged(&unknown()), &NOBODY, rig.start);
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
    let busy = rig.decider.decide(&judged(&open()), &nodes, now);
    assert_eq!(
        (busy.upgradeable, busy.reason),
        (Upgradeable::False, NODE_OPERATION)
    );
    assert!(busy.message.contains("win-00, win-01") && busy.message.contains("and 2 more"));
    let worse = rig.decider.decide(&judged(&held()), &nodes, now);
    assert_eq!(worse.reason, "DriversMissing", "what holds anyway is said");
    rig.decider.wrote(worse, now);
    let end = rig.decider.next(now).unwrap();
    assert!(end > now && end <= now + crate::gate::operations::LIMIT);
    rig.decider.decide(&judged(&open()), &nodes, end);
    let after = rig
        .decider
        .decide(&judged(&open()), &nodes, end + LONGEST_MOMENT);
    assert_eq!(after.upgradeable, Upgradeable::True, "bounded in time");
}
