mod lists;
mod operations;

use super::*;

const READABLE: bool = true;
const NOBODY: &BTreeSet<String> = &BTreeSet::new();
const HELD: &str = "DriversMissing";
const OPEN: &str = "DriversRegistered";
const UNKNOWN: &str = "ReadinessUnknown";

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

fn overridden() -> Verdict {
    verdict(Upgradeable::True, Reason::Override)
}

struct Rig {
    decider: Decider,
    was_held: Option<bool>,
    turned: Turned,
    /// The last judgement.
    said: Option<Judgement>,
    /// The decision that was last written.
    written: Option<Decision>,
    start: Instant,
    gone: Option<Instant>,
    listed: Listed,
}

impl Rig {
    /// Returns a process that found nothing in the condition.
    fn new() -> Self {
        Self::finding(false)
    }

    fn finding(was_held: bool) -> Self {
        let start = Instant::now();
        Self {
            decider: Decider::default(),
            was_held: Some(was_held),
            turned: Turned::new(start),
            said: None,
            written: None,
            start,
            gone: None,
            listed: Listed {
                begun: start,
                ended: start + Duration::from_millis(500),
            },
        }
    }

    fn after(&self, milliseconds: u64) -> Instant {
        self.start + Duration::from_millis(milliseconds)
    }

    /// Lists everything in no time.
    fn list(&mut self, milliseconds: u64) {
        let (begun, ended) = (self.after(milliseconds), self.after(milliseconds));
        self.listed = Listed { begun, ended };
    }

    /// Returns what the gate says this many milliseconds after the start, and writes it. The verdict is `open`, `held`,
    /// `unknown` or `overridden`. `!` means that something that held upgrades disappeared; `?` that not everything can be
    /// read and nothing can be written; `~` that lists which are wanted do not come.
    fn at(&mut self, milliseconds: u64, judged: &str) -> &'static str {
        let gone = judged.ends_with('!').then(|| self.after(milliseconds));
        self.gone = gone.or(self.gone);
        let verdict = match judged.trim_end_matches(['!', '?', '~']) {
            "open" => open(),
            "held" => held(),
            "overridden" => overridden(),
            _ => unknown(),
        };
        let is_readable = !judged.ends_with('?');
        let mut decision = self.decide(milliseconds, &verdict, is_readable, NOBODY);
        if !judged.ends_with('~') && self.wants_lists().is_some() {
            self.list(milliseconds);
            decision = self.decide(milliseconds, &verdict, is_readable, NOBODY);
        }
        if is_readable {
            self.written = Some(decision.clone());
        }
        decision.verdict.reason.as_str()
    }

    fn decide(
        &mut self,
        milliseconds: u64,
        verdict: &Verdict,
        is_readable: bool,
        in_progress: &BTreeSet<String>,
    ) -> Decision {
        let now = self.after(milliseconds);
        self.turned.note(verdict, is_readable, now);
        let judged = self.judged(milliseconds, verdict, in_progress);
        self.judge(&judged, now)
    }

    fn judge(&mut self, judged: &Judged, now: Instant) -> Decision {
        let written = self.written.as_ref();
        self.said = Some(self.decider.judge(judged, self.was_held, written, now));
        self.said()
    }

    /// Returns what was judged this many milliseconds after the start.
    fn judged(
        &self,
        milliseconds: u64,
        verdict: &Verdict,
        in_progress: &BTreeSet<String>,
    ) -> Judged {
        Judged {
            verdict: verdict.clone(),
            turned: self.turned,
            at: self.after(milliseconds),
            lists: vec![("Node", Some(self.listed)), ("Pod", Some(self.listed))],
            gone: self.gone,
            in_progress: in_progress.clone(),
            was_held: None,
        }
    }

    fn judgement(&self) -> &Judgement {
        self.said.as_ref().unwrap()
    }

    fn wants_lists(&self) -> Option<Instant> {
        self.judgement().wants_lists
    }

    fn said(&self) -> Decision {
        self.judgement().decision.clone()
    }

    fn due(&self) -> Option<Instant> {
        self.judgement().due
    }

    /// Runs steps: the time, the verdict, and what the gate must say then.
    fn says(&mut self, case: &str, steps: &str) {
        for step in steps.split(", ") {
            let [at, judged, said] = step.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{step}");
            };
            let said = match said {
                "open" => OPEN,
                "held" => HELD,
                "overridden" => "Override",
                _ => UNKNOWN,
            };
            assert_eq!(self.at(at.parse().unwrap(), judged), said, "{case}: {step}");
        }
    }
}

#[test]
fn false_is_said_at_once_and_true_when_nothing_can_be_on_its_way_back() {
    for (case, steps) in [
        (
            "what was lacking and came opens it soon, however often it has gone and come",
            "0 held held, 5000 open held, 5999 open held, 6000 open open, 7000 held held, 8000 open held, \
             9000 open open, 9100 held held, 9200 open held, 10200 open open",
        ),
        (
            "what went from sight may come back within a minute",
            "0 held held, 100 open! held, 60100 open held, 61099 open held, 61100 open open, 61101 held held",
        ),
        (
            "also where it went before the last of what held",
            "0 held held, 5000 held! held, 9000 open held, 65000 open held, 66000 open open",
        ),
        (
            "the last to go counts",
            "0 held held, 1000 open! held, 30000 held held, 50000 open! held, 110000 open held, 111000 open open",
        ),
        (
            "it counts for a minute",
            "0 held held, 1000 held! held, 62000 open held, 63000 open open",
        ),
        (
            "the administrator need not wait",
            "0 held held, 100 held! held, 200 overridden held, 1200 overridden overridden",
        ),
        (
            "what could not be read for a while opens as it would have before",
            "0 held held, 1000 unknown unknown, 2000 open unknown, 3000 open open, 4000 held held, 5000 unknown! unknown, \
             6000 open held, 65000 open held, 66000 open open, 67000 unknown unknown, 68000 open unknown, 69000 open open",
        ),
        (
            "only what can be read opens it, and it stays open without",
            "0 held held, 100 open? held, 9000 open? held, 10000 open held, 11000 open open, 20000 open? open",
        ),
        (
            "nor does it open before everything was listed anew, and it stays open without",
            "0 held held, 100 open~ held, 9000 open~ held, 9010 open held, 10010 open open, 20000 open~ open",
        ),
    ] {
        Rig::new().says(case, steps);
    }
}

#[test]
fn what_the_condition_said_before_the_process_decides_how_long_it_waits() {
    for (was_held, steps) in [
        (false, "0 unknown unknown, 499 open unknown, 500 open open"),
        (false, "0 unknown unknown, 1000 open open"),
        (
            true,
            "0 unknown unknown, 1000 open unknown, 61000 open unknown, 62000 open open, 63000 held held, 64000 open held, \
             65000 open open",
        ),
        (
            true,
            "0 unknown unknown, 1000 held held, 2000 open held, 61000 open held, 62000 open open",
        ),
        (true, "0 unknown unknown, 1000 overridden overridden"),
        (
            false,
            // What appears and disappears before all data is known has held nothing.
            "0 unknown! unknown, 1000 open! open",
        ),
        (
            false,
            // What is seen while a watch fails has held something.
            "0 unknown unknown, 1000 held? held, 20000 unknown! unknown, 22000 open held, 80000 open held, 81000 open open",
        ),
    ] {
        Rig::finding(was_held).says(&format!("{was_held}"), steps);
    }
    let mut rig = Rig::new();
    rig.was_held = None;
    assert_eq!(rig.at(0, "open"), UNKNOWN);
    assert_eq!(rig.at(90_000, "open"), UNKNOWN, "it is not known yet");
    rig.was_held = Some(false);
    assert_eq!(rig.at(90_001, "open"), OPEN);
}

#[test]
fn a_pod_that_comes_back_within_the_minute_never_opens_the_gate() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    for step in 1..100 {
        let judged = if step % 2 == 1 { "open!" } else { "held" };
        assert_eq!(rig.at(step * 59_000, judged), HELD);
    }
}

#[test]
fn while_it_waits_it_is_said_what_for() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    rig.at(100, "open!");
    let said = rig.said().verdict;
    assert!(said.message.ends_with("unless it comes back: m"));
    rig.at(200, "open");
    assert_eq!(rig.said().verdict, said, "once");
    rig.at(300, "held");
    rig.at(400, "open");
    let message = rig.said().verdict.message;
    assert_eq!(message, said.message, "what held before all that");

    let mut rig = Rig::new();
    rig.at(0, "held");
    rig.at(100, "open~");
    assert_eq!(rig.at(60_099, "open~"), HELD);
    assert_eq!(rig.at(60_100, "open~"), UNKNOWN);
    let said = rig.said().verdict;
    let ends = said.message.ends_with("Not listed yet: Node, Pod");
    assert!(ends, "{}", said.message);
    assert_eq!(rig.at(60_101, "open"), UNKNOWN);
    assert_eq!(rig.said().verdict, said, "once");
    assert_eq!(rig.at(61_101, "open"), OPEN);
}

#[test]
fn it_is_judged_again_when_the_minute_is_over() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    rig.at(100, "open!");
    assert_eq!(rig.due(), Some(rig.after(60_100)));
    rig.at(200, "open?");
    assert!(rig.due().is_none(), "nothing comes of waiting");
    rig.at(300, "open");
    rig.at(60_100, "open~");
    assert_eq!(rig.due(), Some(rig.after(120_100)), "then it is said");
    rig.at(60_150, "open");
    assert_eq!(rig.due(), Some(rig.after(61_150)));
    rig.at(61_150, "open");
    assert!(rig.due().is_none());
    let other = verdict(Upgradeable::True, Reason::NoInTreeVolumes);
    let said = rig.decide(61_200, &other, READABLE, NOBODY).verdict;
    assert_eq!(said, other, "what stays open may say so otherwise");
}

#[test]
fn an_open_gate_closes_for_a_false_that_was_over_before_it_could_be_written() {
    let mut rig = Rig::new();
    rig.at(0, "open");
    assert_eq!(rig.at(1_500, "open"), OPEN);
    // The gate waits for the API server while a volume that blocks comes and is deleted.
    rig.turned.note(&held(), READABLE, rig.after(2_000));
    assert_eq!(rig.at(3_000, "open!"), UNKNOWN);
    assert_eq!(rig.at(60_000, "open"), UNKNOWN);
    rig.at(63_000, "open");
    assert_eq!(rig.at(64_500, "open"), OPEN);
    // Writing it fails, or its answer is lost.
    let closed = rig.decide(70_000, &held(), READABLE, NOBODY);
    assert_eq!(closed.verdict, held());
    assert_eq!(rig.at(71_000, "open!"), HELD);
    assert_eq!(rig.at(130_000, "open"), HELD);
    rig.at(131_500, "open");
    assert_eq!(rig.at(132_600, "open"), OPEN);
}

#[test]
fn a_true_is_written_only_while_the_verdict_has_been_true_all_the_time() {
    let judged = |turned| Judged {
        verdict: open(),
        turned,
        at: Instant::now(),
        lists: Vec::new(),
        gone: None,
        in_progress: BTreeSet::new(),
        was_held: None,
    };
    let start = Instant::now();
    let mut turned = Turned::new(start);
    let mut note = |verdict| {
        turned.note(&verdict, READABLE, Instant::now());
        judged(turned)
    };
    let decided = note(open());
    let mut later = note(open());
    assert!(later.allows_what_was_decided_on(&decided));
    later.in_progress.insert("win-1".to_owned());
    assert!(!later.allows_what_was_decided_on(&decided));
    note(held());
    assert!(!note(open()).allows_what_was_decided_on(&decided));
}

#[test]
fn a_fresh_process_says_false_first_and_leaves_a_better_false_for_a_while() {
    for first in [open(), unknown()] {
        let mut rig = Rig::new();
        let decision = rig.decide(0, &first, READABLE, NOBODY);
        assert!(decision.yields && decision.verdict.upgradeable == Upgradeable::False);
    }
    let mut rig = Rig::new();
    rig.decide(0, &unknown(), READABLE, NOBODY);
    assert_eq!(rig.due(), Some(rig.start + START));
    let later = rig.decide(30_000, &unknown(), READABLE, NOBODY);
    assert!(!later.yields, "what cannot be read is to be said some time");

    let mut rig = Rig::new();
    rig.at(0, "held");
    let lost = rig.decide(0, &unknown(), READABLE, NOBODY);
    assert!(!lost.yields, "this process has judged before: it is news");
}
