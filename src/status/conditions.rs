//! Updates conditions so that their transition times change only when their status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::status::sentence::sentence;

/// Whether the verdict is written to the `OperatorCondition`. Absent if the operator has no `OperatorCondition`.
pub const OPERATOR_CONDITION_WRITTEN: &str = "OperatorConditionWritten";

/// A condition without its type and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason code.
    pub reason: String,
    /// The message for people.
    pub message: String,
}

/// Returns a condition with status True.
pub fn yes(reason: &str, message: impl Into<String>) -> NewCondition {
    condition("True", reason, message)
}

/// Returns a condition with status False.
pub fn no(reason: &str, message: impl Into<String>) -> NewCondition {
    condition("False", reason, message)
}

/// Returns a condition with status Unknown.
pub fn unknown(reason: &str, message: impl Into<String>) -> NewCondition {
    condition("Unknown", reason, message)
}

/// Returns the previous condition.
pub fn unchanged(before: &Condition) -> NewCondition {
    condition(&before.status, &before.reason, &before.message)
}

/// Returns a condition with this status.
pub fn condition(status: &str, reason: &str, message: impl Into<String>) -> NewCondition {
    NewCondition {
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// How many objects a message names before it counts the rest.
pub const NAMED: usize = 5;

/// Whether a condition reports a fault. Some conditions are False without one: an idle rollout, or csi-proxy where it is
/// not needed.
pub fn is_fault(condition: &Condition) -> bool {
    const FINE: [&str; 6] = [
        "Complete",
        "NotManaged",
        "NotNeeded",
        "NotUsed",
        "Pinned",
        "Removed",
    ];
    condition.status != "True" && !FINE.contains(&condition.reason.as_str())
}

/// Returns the condition with this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Merges new conditions with the previous ones and keeps transition times of unchanged statuses.
pub fn settle(
    previous: &[Condition],
    new: impl IntoIterator<Item = (&'static str, NewCondition)>,
    (generation, now): (Option<i64>, Timestamp),
) -> Vec<Condition> {
    // The API server's precision: a finer time would differ at every comparison.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let settle = |(type_, new): (&str, NewCondition)| {
        let same = find(previous, type_).filter(|before| before.status == new.status);
        let since = same.map(|before| before.last_transition_time.clone());
        Condition {
            type_: type_.to_owned(),
            status: new.status,
            reason: new.reason,
            message: sentence(&new.message).into_owned(),
            observed_generation: generation,
            last_transition_time: since.unwrap_or(Time(now)),
        }
    };
    new.into_iter().map(settle).collect()
}

/// Returns the conditions with a new status or reason.
pub fn news<'a>(previous: &[Condition], current: &'a [Condition]) -> Vec<&'a Condition> {
    let said = |condition: &Condition| (condition.status.clone(), condition.reason.clone());
    let is_new = |now: &&Condition| find(previous, &now.type_).map(said) != Some(said(now));
    current.iter().filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_status_moves_the_time_and_only_changes_are_news() {
        let [start, later] = [100, 200].map(|second| Timestamp::from_second(second).unwrap());
        let mut before = Vec::new();
        for (new, now, since, is_news) in [
            (no("A", "a"), start, start, true),
            (no("A", "b"), later, start, false),
            (no("B", "b"), later, start, true),
            (yes("C", "c"), later, later, true),
        ] {
            let after = settle(&before, [("Ready", new)], (None, now));
            assert_eq!(after[0].last_transition_time.0, since);
            assert_eq!(news(&before, &after).len(), usize::from(is_news));
            before = after;
        }
    }
}
