//! Work on nodes holds the gate.

use super::*;

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
