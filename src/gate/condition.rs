//! Reads and sets our condition among those of an `OperatorCondition`.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{GateCondition, OperatorCondition, UPGRADEABLE};
use crate::assess::report::Upgradeable;
use crate::gate::Decision;
use crate::gate::decider::is_held;
use crate::visible::visible;

/// Returns whether our condition holds upgrades; nothing if there is none.
pub fn holds(object: &OperatorCondition) -> Option<bool> {
    let ours = ours(&object.spec.conditions)?;
    let text = |field: &str| ours[field].as_str().unwrap_or_default();
    Some(is_held(text("status"), text("reason")))
}

/// Returns whether our condition allows upgrades.
pub fn allows(object: &OperatorCondition) -> bool {
    let ours = ours(&object.spec.conditions);
    ours.is_some_and(|ours| ours["status"] == Upgradeable::True.as_str())
}

/// Returns all conditions with ours set to the decision; `None` if nothing is to be written. The API server treats the list
/// as atomic, so it is merged by type here.
pub fn merged(existing: &[Value], decision: &Decision, now: Timestamp) -> Option<Vec<Value>> {
    let verdict = &decision.verdict;
    let (ours, mut conditions): (Vec<Value>, Vec<Value>) =
        existing.iter().cloned().partition(is_ours);
    let is_single = ours.len() == 1;
    let previous = ours.first().map(GateCondition::deserialize);
    let mut condition = GateCondition {
        type_: UPGRADEABLE.to_owned(),
        status: verdict.upgradeable.as_str().to_owned(),
        reason: verdict.reason.as_str().to_owned(),
        message: verdict.message.clone(),
        last_transition_time: format!("{now:.0}"),
    };
    if let Some(Ok(previous)) = previous {
        let holds = previous.status == Upgradeable::False.as_str();
        let says_more = decision.yields && holds && previous.reason != condition.reason;
        if is_single && says_more {
            return None;
        }
        if previous.status == condition.status {
            let since = &previous.last_transition_time;
            condition.last_transition_time.clone_from(since);
        }
        if is_single && previous == condition {
            return None;
        }
    }
    conditions.push(json!(condition));
    Some(conditions)
}

/// Returns whether OLM has copied the object's current condition. OLM judges by the copy in `status`, and holds upgrades
/// while the copy is of an older generation.
pub fn is_confirmed(object: &OperatorCondition) -> bool {
    let status = object.status.as_ref();
    let copy = status.and_then(|status| ours(&status.conditions));
    match (ours(&object.spec.conditions), copy) {
        (Some(written), Some(copy)) => {
            copy["status"] == written["status"]
                && copy["observedGeneration"].as_i64() == object.metadata.generation
        }
        _ => false,
    }
}

/// Returns the status that an administrator's override sets, if there is one.
pub fn overridden(object: &OperatorCondition) -> Option<String> {
    // OLM uses only the first override of the type.
    ours(&object.spec.overrides)?["status"]
        .as_str()
        .map(visible)
}

/// Returns the first condition of our type.
fn ours(conditions: &[Value]) -> Option<&Value> {
    conditions.iter().find(|value| is_ours(value))
}

fn is_ours(condition: &Value) -> bool {
    condition["type"] == UPGRADEABLE
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::assess::report::{Reason, Verdict};

    pub fn decision(upgradeable: Upgradeable, message: &str) -> Decision {
        let verdict = Verdict {
            upgradeable,
            reason: Reason::DriversMissing,
            message: message.to_owned(),
        };
        Decision::of(verdict)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    pub fn object(spec: &Value, status: &Value) -> OperatorCondition {
        let object = json!({
            "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
            "metadata": {"name": "x", "generation": 3}, "spec": spec, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn others_conditions_are_kept_and_nothing_is_written_without_a_difference() {
        let other = json!({"type": "Other", "status": "True", "unknownField": [1, 2]});
        let held = decision(Upgradeable::False, "m");
        let conditions = merged(std::slice::from_ref(&other), &held, at(0)).unwrap();
        assert_eq!(conditions[0], other);
        assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(merged(&conditions, &held, at(99)), None);
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let first = merged(&[], &decision(Upgradeable::False, "m"), at(0)).unwrap();
        let second = merged(&first, &decision(Upgradeable::False, "n"), at(60)).unwrap();
        let time = |conditions: &[Value]| conditions[0]["lastTransitionTime"].clone();
        assert_eq!(time(&second), time(&first));
        let third = merged(&second, &decision(Upgradeable::True, "n"), at(60)).unwrap();
        assert_eq!(time(&third), "1970-01-01T00:01:00Z");
    }

    #[test]
    fn a_broken_or_doubled_condition_of_ours_is_replaced_by_one() {
        let held = decision(Upgradeable::False, "m");
        let one = merged(&[], &held, at(0)).unwrap();
        for existing in [
            vec![json!({"type": "Upgradeable"})],
            vec![json!({"type": "Upgradeable", "status": 5})],
            vec![one[0].clone(), one[0].clone()],
        ] {
            assert_eq!(merged(&existing, &held, at(0)).unwrap(), one);
        }
    }

    #[test]
    fn what_yields_replaces_anything_but_a_single_false_that_says_more() {
        let yields = |message| {
            let mut decision = decision(Upgradeable::False, message);
            decision.verdict.reason = Reason::ReadinessUnknown;
            decision.yields = true;
            decision
        };
        let held = merged(&[], &decision(Upgradeable::False, "m"), at(0)).unwrap();
        assert_eq!(merged(&held, &yields("not read yet"), at(1)), None);
        let doubled = [held[0].clone(), held[0].clone()];
        let open = merged(&[], &decision(Upgradeable::True, "m"), at(0)).unwrap();
        for existing in [&[][..], &open, &doubled, &[json!({"type": "Upgradeable"})]] {
            let conditions = merged(existing, &yields("not read yet"), at(1)).unwrap();
            assert_eq!(conditions[0]["reason"], "ReadinessUnknown");
            assert!(merged(&conditions, &yields("less is missing"), at(2)).is_some());
        }
    }

    #[test]
    fn what_is_found_holds_unless_it_is_true_or_nothing_or_an_update_of_a_node() {
        let with = |condition: Value| object(&json!({"conditions": [condition]}), &Value::Null);
        let ours = |status: &str, reason: &str| {
            with(json!({"type": "Upgradeable", "status": status, "reason": reason}))
        };
        for (object, expected) in [
            (object(&json!({}), &Value::Null), None),
            (with(json!({"type": "Other", "status": "False"})), None),
            (ours("True", "DriversRegistered"), Some(false)),
            (ours("False", "NodeOperationInProgress"), Some(false)),
            (ours("False", "DriversMissing"), Some(true)),
            (ours("False", "ReadinessUnknown"), Some(true)),
            (ours("Unknown", "Nonsense"), Some(true)),
            (
                with(json!({"type": "Upgradeable", "status": 5})),
                Some(true),
            ),
        ] {
            assert_eq!(holds(&object), expected, "{:?}", object.spec.conditions);
        }
    }

    #[test]
    fn only_a_copy_of_this_generation_that_says_the_same_confirms() {
        let ours = json!({"conditions": [{"type": "Upgradeable", "status": "False"}]});
        let copied = |status: &str, observed: i64| {
            json!({"conditions": [
                {"type": "Other", "status": "False", "observedGeneration": 3},
                {"type": "Upgradeable", "status": status, "observedGeneration": observed},
            ]})
        };
        for (spec, status, is_confirmed) in [
            (&ours, copied("False", 3), true),
            (&ours, copied("False", 2), false),
            (&ours, copied("True", 3), false),
            (&ours, Value::Null, false),
            (&json!({}), copied("False", 3), false),
        ] {
            let is = super::is_confirmed(&object(spec, &status));
            assert_eq!(is, is_confirmed, "{spec} {status}");
        }
    }

    #[test]
    fn a_condition_and_an_override_are_ours_by_their_type() {
        let of = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let with = |conditions: Value, overrides: Value| {
            let spec = json!({"conditions": conditions, "overrides": overrides});
            object(&spec, &Value::Null)
        };
        let ours = with(json!([of("Upgradeable", "False")]), json!([]));
        assert!(holds(&ours).is_some());
        let other = with(json!([of("Other", "False")]), json!([of("Other", "True")]));
        assert!(holds(&other).is_none() && overridden(&other).is_none());
        // OLM uses the first one.
        let overrides = json!([
            of("Other", "True"),
            of("Upgradeable", "False"),
            of("Upgradeable", "True"),
        ]);
        let object = with(json!([]), overrides);
        assert_eq!(overridden(&object).as_deref(), Some("False"));
    }
}
