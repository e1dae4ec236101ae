//! Conditions whose times move only when their status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::status::sentence::sentence;

/// A condition without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// The condition's type.
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// A word for machines.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

impl NewCondition {
    fn new(
        type_: &'static str,
        status: &'static str,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// The condition as it was.
    pub fn unchanged(type_: &'static str, condition: &Condition) -> Self {
        let status = match condition.status.as_str() {
            "True" => "True",
            "False" => "False",
            _ => "Unknown",
        };
        Self::new(type_, status, &condition.reason, &condition.message)
    }

    /// It is so.
    pub fn yes(type_: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(type_, "True", reason, message)
    }

    /// It is not so.
    pub fn no(type_: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(type_, "False", reason, message)
    }

    /// Nobody knows.
    pub fn unknown(
        type_: &'static str,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(type_, "Unknown", reason, message)
    }
}

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The condition as it is to be written.
pub fn settle(
    previous: &[Condition],
    said: NewCondition,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let since = find(previous, said.type_)
        .filter(|condition| condition.status == said.status)
        .map(|condition| condition.last_transition_time.clone());
    Condition {
        type_: said.type_.to_owned(),
        status: said.status.to_owned(),
        reason: said.reason,
        message: sentence(&said.message).into_owned(),
        observed_generation: generation,
        last_transition_time: since.unwrap_or_else(|| Time(whole_seconds(now))),
    }
}

/// The API server keeps whole seconds: anything finer would look like a difference at every comparison.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The conditions that say something new: another status or another reason.
pub fn news<'a>(previous: &[Condition], current: &'a [Condition]) -> Vec<&'a Condition> {
    current
        .iter()
        .filter(|condition| {
            find(previous, &condition.type_).is_none_or(|before| {
                before.status != condition.status || before.reason != condition.reason
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_status_moves_the_time_and_only_changes_are_news() {
        let start = Timestamp::from_second(100).unwrap();
        let later = Timestamp::from_second(200).unwrap();
        let first = [settle(
            &[],
            NewCondition::no("Ready", "A", "a"),
            None,
            start,
        )];
        let second = [settle(
            &first,
            NewCondition::no("Ready", "A", "b"),
            None,
            later,
        )];
        assert_eq!(second[0].last_transition_time.0, start);
        assert!(news(&first, &second).is_empty());
        let third = [settle(
            &second,
            NewCondition::no("Ready", "B", "b"),
            None,
            later,
        )];
        assert_eq!(third[0].last_transition_time.0, start);
        assert_eq!(news(&second, &third).len(), 1);
        let fourth = [settle(
            &third,
            NewCondition::yes("Ready", "C", "c"),
            None,
            later,
        )];
        assert_eq!(fourth[0].last_transition_time.0, later);
    }
}
