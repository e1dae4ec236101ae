//! The conditions that generic tools expect: `Ready`, `Available`, `Progressing` and `Degraded`. They summarize the other
//! conditions.

use crate::status::cluster::OPERATOR_CONDITION_WRITTEN;
use crate::status::conditions::{NewCondition, no, yes};
use crate::status::rollout::ROLLOUT_PROGRESSING;
use crate::status::sentence::sentence;

/// Reasons of the rollout condition that need an administrator's attention.
const STUCK: [&str; 2] = ["Stopped", "Blocked"];

/// Derives these conditions from the others.
pub fn summary(
    conditions: &[(&'static str, NewCondition)],
) -> impl Iterator<Item = (&'static str, NewCondition)> {
    let find = |type_: &str| {
        let mut all = conditions.iter();
        all.find(|(other, _)| *other == type_)
            .map(|(_, it)| it.clone())
    };
    // What Flux, Argo CD and kubectl wait for: the settings are in effect. Whether OLM has taken over the verdict is not.
    let is_own = |(type_, _): &&(&str, NewCondition)| *type_ != OPERATOR_CONDITION_WRITTEN;
    let stuck = degraded(conditions.iter().filter(is_own));
    let stuck = (stuck.status == "True").then(|| NewCondition {
        status: "False".to_owned(),
        ..stuck
    });
    let ready = stuck.or_else(|| find("NodesReady"));
    let available = find("NodesReady").map(|it| ("Available", it));
    let progressing = find(ROLLOUT_PROGRESSING).map(|it| ("Progressing", it));
    let ready = ready.map(|it| ("Ready", it)).into_iter();
    ready
        .chain(available)
        .chain(progressing)
        .chain([("Degraded", degraded(conditions.iter()))])
}

fn degraded<'a>(
    conditions: impl Iterator<Item = &'a (&'static str, NewCondition)>,
) -> NewCondition {
    let is_wrong = |(type_, it): &&(&str, NewCondition)| match *type_ {
        ROLLOUT_PROGRESSING => STUCK.contains(&it.reason.as_str()),
        // Held upgrades and unready storage are not faults of the administrator's settings.
        "Upgradeable" | "NodesReady" => false,
        _ => it.status == "False",
    };
    let mut wrong = conditions.filter(is_wrong);
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

    #[test]
    fn it_is_ready_once_every_node_is_and_nothing_else_is_wrong() {
        let ready = ("NodesReady", "True", "AllReady");
        for (given, expected) in [
            (vec![ready], "True AllReady"),
            (vec![("NodesReady", "False", "NotReady")], "False NotReady"),
            (
                vec![ready, ("CredentialsValid", "False", "CredentialsMissing")],
                "False CredentialsMissing",
            ),
            (
                vec![ready, ("RolloutProgressing", "False", "Stopped")],
                "False Stopped",
            ),
            (
                vec![ready, (OPERATOR_CONDITION_WRITTEN, "False", "NotFound")],
                "True AllReady",
            ),
            (
                vec![ready, ("Upgradeable", "False", "DriversMissing")],
                "True AllReady",
            ),
        ] {
            let condition = |(type_, status, reason): (&'static str, &str, &str)| {
                let status = status.to_owned();
                (
                    type_,
                    NewCondition {
                        status,
                        ..no(reason, "words")
                    },
                )
            };
            let conditions: Vec<_> = given.into_iter().map(condition).collect();
            let (type_, said) = summary(&conditions).next().unwrap();
            let said = format!("{} {}", said.status, said.reason);
            assert_eq!((type_, said.as_str()), ("Ready", expected));
        }
    }
}
