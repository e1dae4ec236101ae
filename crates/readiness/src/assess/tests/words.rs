//! Tests of the verdict's message and its length limit.

use std::collections::BTreeSet;

use super::*;
use crate::assess::verdict::{hold, name_volumes};
use crate::index::{Name, list};

/// The maximum message length of an `OperatorCondition`.
const LIMIT: usize = 32_768;

#[test]
fn a_message_fills_the_condition_and_never_exceeds_it() {
    let held = |message: String, gate| hold(Reason::DriversMissing, message, gate).message;
    let fits = "ä".repeat(LIMIT);
    assert_eq!(held(fits.clone(), UpgradeGate::Enforce), fits);
    let cut = held("ä".repeat(LIMIT + 1), UpgradeGate::Enforce);
    assert_eq!(cut, format!("{}…", "ä".repeat(LIMIT - 1)));
    let accepted = held(fits, UpgradeGate::Ignore);
    assert_eq!(accepted.chars().count(), LIMIT);
    assert!(accepted.starts_with("the administrator accepts the risk"));
}

#[test]
fn volumes_are_named_with_the_time_at_which_they_are_lost() {
    let group = |count, named: &[&str]| (count, named.iter().map(ToString::to_string).collect());
    let today = (Some(Loss::Today), group(2, &["a", "b"]));
    let at = |version: &str, group| (Some(Loss::At(version.parse().unwrap())), group);
    let said = |groups: &[_]| name_volumes(groups.iter().cloned().collect(), true);
    let broken =
        "2 volumes cannot be mounted already today; draining their nodes will show it: a; b";
    assert_eq!(said(std::slice::from_ref(&today)), broken);
    assert_eq!(
        said(&[at("1.31", group(1, &["c"])), today.clone()]),
        format!("{broken}. 1 volume breaks at the upgrade to 1.31: c")
    );
    assert_eq!(
        said(&[at("4.18", group(7, &["c", "d"]))]),
        "7 volumes break at the upgrade to 4.18: c; d; and 5 more"
    );
    // None of them is among the first ten.
    assert_eq!(
        said(&[today, at("1.31", group(3, &[]))]),
        format!("{broken}. 3 volumes break at the upgrade to 1.31")
    );
}

#[test]
fn ten_nodes_are_named_and_only_more_are_counted() {
    let names = |count: usize| -> BTreeSet<Name> {
        (0..count)
            .map(|number| format!("w{number:02}").into())
            .collect()
    };
    let ten = "w00, w01, w02, w03, w04, w05, w06, w07, w08, w09";
    assert_eq!(list(&names(0)), "");
    assert_eq!(list(&names(1)), "w00");
    assert_eq!(list(&names(10)), ten);
    assert_eq!(list(&names(11)), format!("{ten} and 1 more"));
}
