//! Which lists open the gate, and when they are wanted.

use super::*;

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
        assert_eq!(!rig.judge(&judged, now).holds(), is_open);
    }
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
            rig.judge(&judged, at);
        }
        let decision = rig.said();
        assert_eq!(decision.verdict == verdict, is_open, "{lists:?}");
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
