//! The conditions that generic tools expect: `Available`, `Progressing` and `Degraded`. They summarize the other
//! conditions.

use crate::status::conditions::{NewCondition, no, yes};
use crate::status::rollout::ROLLOUT_PROGRESSING;
use crate::status::sentence::sentence;

/// Reasons of the rollout condition that need an administrator's attention.
const STUCK: [&str; 2] = ["Stopped", "Blocked"];

/// Derives the three conditions from the others.
pub fn summary(
    conditions: &[(&'static str, NewCondition)],
) -> impl Iterator<Item = (&'static str, NewCondition)> {
    let find = |type_: &str| {
        let mut all = conditions.iter();
        all.find(|(other, _)| *other == type_)
            .map(|(_, it)| it.clone())
    };
    let available = find("NodesReady").map(|it| ("Available", it));
    let progressing = find(ROLLOUT_PROGRESSING).map(|it| ("Progressing", it));
    available
        .into_iter()
        .chain(progressing)
        .chain([("Degraded", degraded(conditions))])
}

fn degraded(conditions: &[(&'static str, NewCondition)]) -> NewCondition {
    let is_wrong = |(type_, it): &&(&str, NewCondition)| match *type_ {
        ROLLOUT_PROGRESSING => STUCK.contains(&it.reason.as_str()),
        // Held upgrades and unready storage are not faults of the administrator's settings.
        "Upgradeable" | "NodesReady" => false,
        _ => it.status == "False",
    };
    let mut wrong = conditions.iter().filter(is_wrong);
    let Some((type_, first)) = wrong.next() else {
        return no(
            "AsExpected",
            "the configuration is valid, and the rollout is not blocked",
        );
    };
    let others: Vec<&str> = wrong.map(|(type_, _)| *type_).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        others => format!("; see also {}", others.join(", ")),
    };
    // Formatted like the condition's own message, so that this message changes only with that one.
    let message = sentence(&first.message);
    yes(&first.reason, format!("{type_}: {message}{others}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_one_place() {
        for (given, expected) in [
            (
                &[("CredentialsValid", "True", "Valid")][..],
                "False AsExpected",
            ),
            (
                &[
                    ("Upgradeable", "False", "DriversMissing"),
                    ("NodesReady", "False", "NodesNotReady"),
                    ("RolloutProgressing", "False", "Complete"),
                ],
                "False AsExpected",
            ),
            (
                &[("RolloutProgressing", "False", "Paused")],
                "False AsExpected",
            ),
            (
                &[("RolloutProgressing", "False", "Stopped")],
                "True Stopped",
            ),
            (
                &[
                    ("CredentialsValid", "False", "CredentialsMissing"),
                    ("ServicesValid", "False", "InvalidServices"),
                ],
                "True CredentialsMissing",
            ),
        ] {
            let conditions: Vec<_> = given
                .iter()
                .map(|&(type_, status, reason)| {
                    let status = status.to_owned();
                    let condition = NewCondition {
                        status,
                        ..no(reason, "words")
                    };
                    (type_, condition)
                })
                .collect();
            let all: Vec<_> = summary(&conditions).collect();
            let (type_, degraded) = all.last().unwrap();
            let said = format!("{} {}", degraded.status, degraded.reason);
            assert_eq!((*type_, said.as_str()), ("Degraded", expected), "{given:?}");
            if given.len() == 2 {
                let words = "CredentialsValid: Words; see also ServicesValid";
                assert_eq!(degraded.message, words);
            }
        }
    }
}
