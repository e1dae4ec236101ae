//! The conditions that tools know of any operator: `Available`, `Progressing` and `Degraded`. They sum up the others, which say more.

use crate::status::conditions::{NewCondition, no, yes};
use crate::status::rollout::ROLLOUT_PROGRESSING;
use crate::status::sentence::sentence;

/// How the condition of the rollout says that it needs an administrator.
const STUCK: [&str; 4] = ["Stopped", "StepBlocked", "Blocked", "WindowInvalid"];

/// What the three say where the others say that.
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
        // Whether upgrades may go on, and whether storage is ready, is no fault of what the administrator has set up.
        "Upgradeable" | "NodesReady" => false,
        _ => it.status == "False",
    };
    let mut wrong = conditions.iter().filter(is_wrong);
    let Some((type_, first)) = wrong.next() else {
        return no(
            "AsExpected",
            "what you provide can be used, and the rollout goes on",
        );
    };
    let others: Vec<&str> = wrong.map(|(type_, _)| *type_).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        others => format!("; see also {}", others.join(", ")),
    };
    // As the condition itself has it, so that it says the same when that stays as it was.
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
