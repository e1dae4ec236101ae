//! The condition that generic tools expect: `Ready` summarizes the other conditions.

use crate::status::conditions::OPERATOR_CONDITION_WRITTEN;
use crate::status::conditions::{NewCondition, no};
use crate::status::rollout::ROLLOUT_PROGRESSING;
use crate::status::sentence::sentence;

/// Reasons of the rollout condition that need an administrator's attention.
const STUCK: [&str; 2] = ["Stopped", "Blocked"];

/// Derives `Ready` from the other conditions: what Flux, Argo CD and kubectl wait for. The settings are in effect on every
/// node; whether OLM has taken over the verdict does not count.
pub fn ready(conditions: &[(&'static str, NewCondition)]) -> Option<(&'static str, NewCondition)> {
    let of_nodes = || {
        let nodes = conditions.iter().find(|(type_, _)| *type_ == "NodesReady");
        nodes.map(|(_, it)| it.clone())
    };
    let ready = first_fault(conditions).or_else(of_nodes);
    ready.map(|it| ("Ready", it))
}

fn first_fault(conditions: &[(&'static str, NewCondition)]) -> Option<NewCondition> {
    let is_wrong = |(type_, it): &&(&str, NewCondition)| match *type_ {
        ROLLOUT_PROGRESSING => STUCK.contains(&it.reason.as_str()),
        // Held upgrades and unready storage are not faults of the administrator's settings.
        "Upgradeable" | "NodesReady" | OPERATOR_CONDITION_WRITTEN => false,
        _ => it.status == "False",
    };
    let mut wrong = conditions.iter().filter(is_wrong);
    let (type_, first) = wrong.next()?;
    let others: Vec<&str> = wrong.map(|(type_, _)| *type_).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        others => format!("; see also {}", others.join(", ")),
    };
    // Formatted like the condition's own message, so that this message changes only with that one.
    let message = sentence(&first.message);
    Some(no(&first.reason, format!("{type_}: {message}{others}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_every_node_is_and_nothing_else_is_wrong() {
        let all = ("NodesReady", "True", "AllReady");
        for (given, expected) in [
            (vec![all], "True AllReady"),
            (vec![("NodesReady", "False", "NotReady")], "False NotReady"),
            (
                vec![
                    all,
                    ("CredentialsValid", "False", "CredentialsMissing"),
                    ("ServicesValid", "False", "InvalidServices"),
                ],
                "False CredentialsMissing",
            ),
            (
                vec![all, ("RolloutProgressing", "False", "Stopped")],
                "False Stopped",
            ),
            (
                vec![all, ("RolloutProgressing", "False", "Paused")],
                "True AllReady",
            ),
            (
                vec![all, (OPERATOR_CONDITION_WRITTEN, "False", "NotFound")],
                "True AllReady",
            ),
            (
                vec![all, ("Upgradeable", "False", "DriversMissing")],
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
            let (_, said) = ready(&conditions).unwrap();
            assert_eq!(format!("{} {}", said.status, said.reason), expected);
            if expected.contains("Missing") {
                let words = "CredentialsValid: Words; see also ServicesValid";
                assert_eq!(said.message, words);
            }
        }
    }
}
