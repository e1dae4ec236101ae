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
            decider: Decider {
                was_held: Some(was_held),
                ..Decider::default()
            },
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
        let written = self.written.as_ref();
        self.said = Some(self.decider.judge(&judged, written, now));
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
    rig.decider.was_held = None;
    assert_eq!(rig.at(0, "open"), UNKNOWN);
    assert_eq!(rig.at(90_000, "open"), UNKNOWN, "it is not known yet");
    rig.decider.was_held = Some(false);
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
fn lists_are_wanted_when_nothing_else_is_waited_for() {
    let mut rig = Rig::new();
    rig.at(0, "held~");
    assert_eq!(rig.wants_lists(), None);
    rig.at(100, "open~");
    assert_eq!(rig.wants_lists(), Some(rig.after(100)));
    rig.at(110, "open");
    assert_eq!(rig.wants_lists(), None, "they are there");
    rig.at(115, "held!");
    rig.at(116, "open~");
    rig.at(60_114, "open~");
    assert_eq!(rig.wants_lists(), None, "not before the minute is over");
    rig.at(60_115, "open~");
    assert_eq!(rig.wants_lists(), Some(rig.after(60_115)));
    rig.at(60_116, "open?");
    assert_eq!(rig.wants_lists(), None, "nothing can be listed");
    let nodes = BTreeSet::from(["win-1".to_owned()]);
    rig.decide(90_000, &open(), READABLE, NOBODY);
    rig.decide(90_000, &open(), READABLE, &nodes);
    assert_eq!(rig.wants_lists(), None, "it would not open yet");
}

#[test]
fn an_operation_that_nobody_could_be_told_of_begins_anew() {
    let mut rig = Rig::new();
    let nodes = BTreeSet::from(["win-1".to_owned()]);
    let mut holds = |milliseconds: u64| {
        let said = rig.decide(milliseconds, &open(), READABLE, &nodes);
        rig.decider.begin_operations_anew();
        said.verdict.reason == Reason::NodeOperationInProgress
    };
    assert!(
        [0, 200_000, 400_000, 699_999]
            .map(&mut holds)
            .iter()
            .all(|it| *it)
    );
}

#[test]
fn one_kind_that_was_not_listed_since_keeps_the_gate_closed() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    let (begun, ended) = (rig.after(6_000), rig.after(7_000));
    let new = Some(Listed { begun, ended });
    let (verdict, now) = (open(), rig.after(60_000));
    for (lists, is_open) in [
        ([("Node", new), ("Pod", Some(rig.listed))], false),
        ([("Node", None), ("Pod", new)], false),
        ([("Node", new), ("Pod", new)], true),
    ] {
        for at in [rig.after(5_000), now] {
            rig.turned.note(&verdict, READABLE, at);
            let judged = Judged {
                verdict: verdict.clone(),
                turned: rig.turned,
                at,
                lists: lists.to_vec(),
                gone: None,
                in_progress: NOBODY.clone(),
                was_held: None,
            };
            rig.said = Some(rig.decider.judge(&judged, rig.written.as_ref(), at));
        }
        let decision = rig.said();
        assert_eq!(decision.verdict == verdict, is_open, "{lists:?}");
    }
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
fn what_another_client_has_closed_opens_from_new_lists_only() {
    let mut rig = Rig::new();
    rig.at(0, "open");
    assert_eq!(rig.at(1_500, "open"), OPEN);
    assert!(rig.judgement().opens, "the lists at the start count");
    rig.at(2_000, "open");
    assert!(!rig.judgement().opens, "it only stays open");
    rig.decider.close(rig.after(3_600_000));
    rig.written = None;
    assert_eq!(rig.at(3_600_000, "open~"), UNKNOWN);
    assert_eq!(rig.wants_lists(), Some(rig.after(3_600_000)));
    rig.at(3_601_000, "open");
    assert_eq!(rig.at(3_602_000, "open"), OPEN);
}

#[test]
fn lists_of_long_ago_open_nothing_that_could_not_be_written_then() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    rig.at(1_000, "open");
    // Nothing can be written for half an hour.
    for at in [601_100, 1_800_000] {
        let said = rig.decide(at, &open(), READABLE, NOBODY);
        assert!(said.holds());
        assert_eq!(rig.wants_lists(), Some(rig.after(601_000)), "once");
    }
    rig.list(1_801_000);
    assert!(rig.decide(1_801_999, &open(), READABLE, NOBODY).holds());
    assert!(!rig.decide(1_802_000, &open(), READABLE, NOBODY).holds());
}

#[test]
fn what_happened_until_a_second_after_the_lists_is_judged_before_it_opens() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    rig.at(1_000, "open");
    let judged = rig.judged(1_999, &open(), NOBODY);
    for (judged, is_open) in [(judged, false), (rig.judged(2_000, &open(), NOBODY), true)] {
        let now = rig.after(9_000);
        let said = rig.decider.judge(&judged, rig.written.as_ref(), now);
        assert_eq!(!said.decision.holds(), is_open);
    }
}

#[test]
fn what_could_not_be_written_does_not_count_as_open() {
    let mut rig = Rig::new();
    rig.at(0, "held");
    rig.at(1_000, "open");
    let decision = rig.decide(2_000, &open(), READABLE, NOBODY);
    assert_eq!(decision.verdict, open());
    // The write failed, and at the next attempt the API server is unreachable. After that, the lists are old.
    assert_eq!(rig.at(3_000, "open?"), HELD);
    assert_eq!(rig.at(4_000, "open~"), HELD);
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

#[test]
fn a_node_in_the_middle_of_an_update_holds_what_else_would_go_on() {
    let mut rig = Rig::new();
    let nodes: BTreeSet<String> = (0..12).map(|number| format!("win-{number:02}")).collect();
    rig.at(0, "open");
    assert_eq!(rig.at(1_500, "open"), OPEN);
    let during = rig.decide(2_000, &open(), READABLE, &nodes).verdict;
    assert_eq!(during.upgradeable, Upgradeable::False);
    assert_eq!(during.reason, Reason::NodeOperationInProgress);
    let message = during.message;
    assert!(message.contains("win-00, win-01") && message.contains("and 2 more"));
    let worse = rig.decide(2_000, &held(), READABLE, &nodes);
    assert_eq!(worse.verdict, held(), "what holds anyway is said");
    rig.written = Some(worse);
    let end = rig.due().unwrap();
    assert_eq!(end, rig.after(2_000) + crate::gate::operations::LIMIT);
    rig.decide(302_000, &open(), READABLE, &nodes);
    rig.list(302_000);
    let after = rig.decide(303_000, &open(), READABLE, &nodes);
    assert_eq!(after.verdict, open(), "bounded in time");
}

#[test]
fn the_end_of_an_update_opens_after_lists_and_no_minute_is_lost_by_it() {
    let mut rig = Rig::new();
    let nodes = BTreeSet::from(["win-1".to_owned()]);
    rig.at(0, "open");
    rig.at(1_500, "open");
    let during = rig.decide(2_000, &open(), READABLE, &nodes);
    rig.written = Some(during);
    assert_eq!(rig.at(3_000, "open~"), "NodeOperationInProgress");
    assert_eq!(rig.wants_lists(), Some(rig.after(2_000)));
    rig.at(3_000, "open");
    assert_eq!(rig.at(4_000, "open"), OPEN);

    rig.at(4_100, "held");
    rig.at(5_000, "open!");
    let during = rig.decide(6_000, &open(), READABLE, &nodes).verdict;
    assert_eq!(
        during.reason,
        Reason::DriversMissing,
        "which counts at a restart"
    );
    assert_eq!(rig.at(65_000, "open"), HELD);
    assert_eq!(rig.at(66_000, "open"), OPEN);
}
