//! The one condition of ours among those of an `OperatorCondition`.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{GateCondition, OperatorCondition, UPGRADEABLE};
use crate::assess::report::Upgradeable;
use crate::gate::wanted::Wanted;
use crate::visible::visible;

/// Whether something is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The condition says so already.
    Unchanged,
    /// Reason or message are new.
    Updated,
    /// The status is new.
    Transitioned,
}

/// Whether somebody has written ours.
pub fn is_there(object: &OperatorCondition) -> bool {
    object.spec.conditions.iter().any(is_ours)
}

/// All conditions with ours as it shall be; `None` where nothing is to be written. The list is atomic for the API
/// server, so it is merged by type here.
pub fn merged(existing: &[Value], wanted: &Wanted, now: Timestamp) -> Option<(Vec<Value>, Change)> {
    let mut ours = existing.iter().filter(|value| is_ours(value));
    let previous = ours
        .next()
        .and_then(|value| serde_json::from_value::<GateCondition>(value.clone()).ok());
    let is_single = ours.next().is_none();
    let status = wanted.upgradeable.as_str();
    if let Some(previous) = &previous
        && is_single
        && wanted.yields
        && previous.status == Upgradeable::False.as_str()
        && previous.reason != wanted.reason
    {
        return None;
    }
    let same_status = previous
        .as_ref()
        .is_some_and(|condition| condition.status == status);
    let condition = GateCondition {
        type_: UPGRADEABLE.to_owned(),
        status: status.to_owned(),
        reason: wanted.reason.to_owned(),
        message: wanted.message.clone(),
        last_transition_time: match &previous {
            Some(previous) if same_status => previous.last_transition_time.clone(),
            _ => format!("{now:.0}"),
        },
    };
    if previous.as_ref() == Some(&condition) && is_single {
        return None;
    }
    let mut conditions: Vec<Value> = existing
        .iter()
        .filter(|condition| !is_ours(condition))
        .cloned()
        .collect();
    conditions.push(json!(condition));
    let change = if same_status {
        Change::Updated
    } else {
        Change::Transitioned
    };
    Some((conditions, change))
}

/// Whether OLM has taken over what the object says now: it judges by the copy in `status`, and holds upgrades while that
/// is of an older generation.
pub fn is_confirmed(object: &OperatorCondition) -> bool {
    let status_of = |condition: &Value| condition.get("status").cloned();
    let written = object.spec.conditions.iter().find(|value| is_ours(value));
    let copies = object.status.as_ref().map(|status| &status.conditions);
    let copy = copies.and_then(|copies| copies.iter().find(|value| is_ours(value)));
    let (Some(written), Some(copy)) = (written, copy) else {
        return false;
    };
    status_of(copy) == status_of(written)
        && copy.get("observedGeneration").and_then(Value::as_i64) == object.metadata.generation
}

/// The status that an administrator makes OLM take instead of what is written.
pub fn overridden(object: &OperatorCondition) -> Option<String> {
    // OLM looks at the first of the type alone.
    let ours = object.spec.overrides.iter().find(|value| is_ours(value));
    ours.and_then(|value| value.get("status").and_then(Value::as_str))
        .map(visible)
}

fn is_ours(condition: &Value) -> bool {
    condition.get("type").and_then(Value::as_str) == Some(UPGRADEABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(upgradeable: Upgradeable, message: &str) -> Wanted {
        Wanted {
            upgradeable,
            reason: "DriversMissing",
            message: message.to_owned(),
            yields: false,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn object(json: &Value) -> OperatorCondition {
        serde_json::from_value(json.clone()).unwrap()
    }

    #[test]
    fn others_conditions_are_kept_as_they_are() {
        let other = json!({"type": "Other", "status": "True", "unknownField": [1, 2]});
        let (conditions, change) = merged(
            std::slice::from_ref(&other),
            &wanted(Upgradeable::False, "m"),
            at(0),
        )
        .unwrap();
        assert_eq!(conditions[0], other);
        assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(change, Change::Transitioned);
    }

    #[test]
    fn nothing_is_written_without_a_difference() {
        let held = wanted(Upgradeable::False, "m");
        let (conditions, _) = merged(&[], &held, at(0)).unwrap();
        assert_eq!(merged(&conditions, &held, at(99)), None);
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let (first, _) = merged(&[], &wanted(Upgradeable::False, "m"), at(0)).unwrap();
        let (second, change) = merged(&first, &wanted(Upgradeable::False, "n"), at(60)).unwrap();
        assert_eq!(change, Change::Updated);
        assert_eq!(
            second[0]["lastTransitionTime"],
            first[0]["lastTransitionTime"]
        );
        let (third, change) = merged(&second, &wanted(Upgradeable::True, "n"), at(60)).unwrap();
        assert_eq!(change, Change::Transitioned);
        assert_eq!(third[0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
    }

    #[test]
    fn a_broken_or_doubled_condition_of_ours_is_replaced_by_one() {
        let held = wanted(Upgradeable::False, "m");
        for broken in [
            json!({"type": "Upgradeable"}),
            json!({"type": "Upgradeable", "status": 5}),
        ] {
            let (conditions, _) = merged(&[broken], &held, at(0)).unwrap();
            assert_eq!(conditions.len(), 1);
        }
        let (one, _) = merged(&[], &held, at(0)).unwrap();
        let doubled = [one[0].clone(), one[0].clone()];
        assert_eq!(merged(&doubled, &held, at(0)).unwrap().0, one);
    }

    #[test]
    fn what_yields_replaces_anything_but_a_single_false_that_says_more() {
        let yields = Wanted {
            reason: "ReadinessUnknown",
            yields: true,
            ..wanted(Upgradeable::False, "not read yet")
        };
        let (held, _) = merged(&[], &wanted(Upgradeable::False, "m"), at(0)).unwrap();
        assert_eq!(merged(&held, &yields, at(1)), None);
        let doubled = [held[0].clone(), held[0].clone()];
        let (open, _) = merged(&[], &wanted(Upgradeable::True, "m"), at(0)).unwrap();
        for existing in [&[][..], &open, &doubled, &[json!({"type": "Upgradeable"})]] {
            let (conditions, _) = merged(existing, &yields, at(1)).unwrap();
            assert_eq!(conditions[0]["reason"], "ReadinessUnknown");
            let newer = Wanted {
                message: "less is missing".to_owned(),
                ..yields.clone()
            };
            assert!(merged(&conditions, &newer, at(2)).is_some());
        }
    }

    #[test]
    fn only_a_copy_of_this_generation_that_says_the_same_confirms() {
        let with = |status: &str, observed: i64| {
            object(&json!({
                "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
                "metadata": {"name": "x", "generation": 3},
                "spec": {"conditions": [{"type": "Upgradeable", "status": "False"}]},
                "status": {"conditions": [
                    {"type": "Other", "status": "False", "observedGeneration": 3},
                    {"type": "Upgradeable", "status": status, "observedGeneration": observed},
                ]},
            }))
        };
        assert!(is_confirmed(&with("False", 3)));
        assert!(!is_confirmed(&with("False", 2)));
        assert!(!is_confirmed(&with("True", 3)));
        let mut bare = with("False", 3);
        bare.status = None;
        assert!(!is_confirmed(&bare));
        let mut wiped = with("False", 3);
        wiped.spec.conditions.clear();
        assert!(!is_confirmed(&wiped));
    }

    #[test]
    fn others_conditions_are_not_taken_for_ours() {
        let with = |of: &str| {
            object(&json!({
                "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
                "metadata": {"name": "x"},
                "spec": {"conditions": [{"type": of, "status": "False"}]},
            }))
        };
        assert!(is_there(&with("Upgradeable")));
        assert!(!is_there(&with("Other")));
    }

    #[test]
    fn the_first_override_of_our_type_counts() {
        let with = |overrides: Value| {
            object(&json!({
                "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
                "metadata": {"name": "x"}, "spec": {"overrides": overrides},
            }))
        };
        assert_eq!(overridden(&with(json!([]))), None);
        assert_eq!(
            overridden(&with(json!([
                {"type": "Other", "status": "True"},
                {"type": "Upgradeable", "status": "False"},
                {"type": "Upgradeable", "status": "True"},
            ])))
            .as_deref(),
            Some("False")
        );
    }
}
