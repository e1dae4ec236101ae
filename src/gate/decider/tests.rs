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
}

impl Rig {
    fn new() -> Self {
        let start = Instant::now();
        Self {
            decider: Decider::new(start),
            start,
            departures: 0,
        }
    }

    fn after(&self, milliseconds: u64) -> Instant {
        self.start + Duration::from_millis(milliseconds)
    }

    /// What the gate says so many milliseconds after the start, which is written at once: of a verdict that is `open` or
    /// `held`; with `!` where something that held has gone from sight; with `?` where not all can be read, and nothing be
    /// written.
    fn at(&mut self, milliseconds: u64, judged: &str) -> &'static str {
        self.departures += u64::from(judged.ends_with('!'));
        let is_open = judged.starts_with("open");
        let verdict = if is_open { open() } else { held() };
        let is_fresh = !judged.ends_with('?');
        let decision = self.decide(milliseconds, &verdict, is_fresh, NOBODY);
        if is_fresh {
            self.decider
                .wrote(decision.clone(), self.after(milliseconds));
        }
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
        self.decider.decision.clone().unwrap()
    }

    fn due(&self) -> Option<Instant> {
        self.decider.due(self.start)
    }
}

#[test]
fn false_is_said_at_once_and_true_when_it_has_stood_for_long_enough() {
    // When, what is judged, and what the gate says then.
    for (case, steps) in [
        (
            "what went from sight may come back within a second",
            "0 held held, 100 open! held, 1099 open held, 1100 open open, 1101 held held",
        ),
        (
            "also where it went before the last of what held",
            "0 held held, 5000 held! held, 5500 open held, 5999 open held, 6000 open open",
        ),
        (
            "where much comes and goes it opens nevertheless",
            "0 held held, 5000 open! held, 5400 open! held, 5900 open! held, 6000 open! open",
        ),
        (
            "what was lacking and came opens it soon, but not once it has gone back and forth",
            "0 held held, 5000 open held, 5019 open held, 5020 open open, 6000 held held, 7000 open held, \
             8999 open held, 9000 open open, 10000 held held, 700000 open! held, 701000 open open",
        ),
        (
            "a process that has only just started waits as well",
            "0 open unknown, 999 open unknown, 1000 open open",
        ),
        (
            "only what can be read opens it, and it stays open without",
            "0 held held, 100 open? held, 9000 open? held, 10000 open! held, 10500 open? held, \
             10600 open held, 11500 open held, 11600 open open, 20000 open? open",
        ),
        (
            "something may have gone while nobody could look",
            "0 held held, 5000 held? held, 9000 held? held, 10000 open held, 10999 open held, 11000 open open",
        ),
    ] {
        let mut rig = Rig::new();
        for step in steps.split(", ") {
            let [at, judged, said] = step.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{step}");
            };
            let said = match said {
                "open" => OPEN,
                "held" => HELD,
                _ => "ReadinessUnknown",
            };
            assert_eq!(rig.at(at.parse().unwrap(), judged), said, "{case}: {step}");
        }
    }
}

#[test]
fn it_is_judged_again_when_the_verdict_has_stood_long_enough() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    rig.at(100, "open!");
    assert_eq!(rig.decider.opens_at, Some(rig.after(1_100)));
    assert_eq!(rig.due(), Some(rig.after(1_100)));
    rig.at(200, "open?");
    assert!(rig.due().is_none(), "nothing comes of waiting");
    rig.at(300, "open");
    rig.at(2_000, "open");
    assert!(rig.decider.opens_at.is_none() && rig.due().is_none());
    let other = verdict(Upgradeable::True, Reason::NoInTreeVolumes);
    let said = rig.decide(2_001, &other, true, NOBODY).verdict;
    assert_eq!(said, other, "what stays open may say so otherwise");
}

#[test]
fn a_verdict_that_was_open_between_two_others_never_opens_the_gate() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    for step in 1..100 {
        let judged = if step % 2 == 1 { "open!" } else { "held" };
        assert_eq!(rig.at(step * 900, judged), HELD);
    }
}

#[test]
fn the_gate_waits_for_at_most_a_minute_however_often_it_was_opened_too_early() {
    let mut rig = Rig::new();
    for _ in 0..20 {
        let opened = Decision {
            verdict: open(),
            yields: false,
        };
        rig.decider.wrote(opened, rig.after(6_000));
        rig.at(6_000, "held");
    }
    rig.at(7_000, "open!");
    assert_eq!(rig.at(66_999, "open"), HELD);
    assert_eq!(rig.at(67_000, "open"), OPEN);
}

#[test]
fn what_could_not_be_written_does_not_count_as_open() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    rig.at(1_000, "open!");
    let decision = rig.decide(2_000, &open(), true, NOBODY);
    assert_eq!(decision.verdict, open());
    // The write failed, and by the time of the next attempt the API server is out of reach.
    assert_eq!(rig.at(3_000, "open?"), HELD);
}

#[test]
fn a_fresh_process_says_false_first_and_leaves_a_better_false_for_a_while() {
    for first in [open(), unknown()] {
        let mut rig = Rig::new();
        let decision = rig.decide(0, &first, true, NOBODY);
        assert!(decision.yields && decision.verdict.upgradeable == Upgradeable::False);
    }
    let mut rig = Rig::new();
    rig.decide(0, &unknown(), true, NOBODY);
    assert_eq!(rig.due(), Some(rig.start + START));
    let later = rig.decide(30_000, &unknown(), true, NOBODY);
    assert!(!later.yields, "what cannot be read is to be said some time");

    let mut rig = Rig::new();
    rig.at(0, "held");
    let lost = rig.decide(0, &unknown(), true, NOBODY);
    assert!(!lost.yields, "this process has judged before: it is news");
}

#[test]
fn a_node_in_the_middle_of_an_update_holds_what_else_would_go_on() {
    let mut rig = Rig::new();
    let nodes: BTreeSet<String> = (0..12).map(|number| format!("win-{number:02}")).collect();
    rig.at(0, "open");
    assert_eq!(rig.at(1_000, "open"), OPEN);
    let during = rig.decide(2_000, &open(), true, &nodes).verdict;
    assert_eq!(during.upgradeable, Upgradeable::False);
    assert_eq!(during.reason, Reason::NodeOperationInProgress);
    let message = during.message;
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
