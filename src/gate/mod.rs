//! The gate: our `Upgradeable` condition in the `OperatorCondition` that OLM asks before it upgrades the operator.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::api::{GateCondition, OperatorCondition, UPGRADEABLE};
use crate::assess::report::Verdict;
use crate::deadline::{self, CallError};

/// How often the condition is looked at though the verdict has not changed: a client of an old API version can wipe
/// it without a trace.
pub const REASSERT: Duration = Duration::from_secs(60);
/// How often a write is tried again when others write at the same time.
const ATTEMPTS: u32 = 5;

/// Why the gate could not be set. It keeps its last state, which is never `True` by mistake.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// OLM has not made the object yet, or the name is wrong.
    #[error(
        "there is no OperatorCondition {0}: OLM makes it together with the CSV; check OPERATOR_CONDITION_NAME or --operator-condition and the namespace"
    )]
    NotFound(String),
    /// Others keep changing it.
    #[error("OperatorCondition {0} was changed by others at every attempt; it is tried again")]
    Contended(String),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Whether something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The condition said so already.
    Unchanged,
    /// Reason or message are new.
    Updated,
    /// The status is new.
    Transitioned,
}

/// The gate of this operator.
pub struct Gate {
    api: Api<OperatorCondition>,
    name: String,
    confirmed: Option<(Verdict, Instant)>,
}

impl Gate {
    /// The gate in the object of that name.
    #[must_use]
    pub fn new(api: Api<OperatorCondition>, name: String) -> Self {
        Self {
            api,
            name,
            confirmed: None,
        }
    }

    /// Whether a verdict has been written since the start of this process.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.confirmed.is_some()
    }

    /// How long until the condition is to be looked at again though nothing has changed.
    #[must_use]
    pub fn due_in(&self) -> Duration {
        let confirmed = self.confirmed.as_ref();
        confirmed.map_or(REASSERT, |(_, at)| REASSERT.saturating_sub(at.elapsed()))
    }

    /// Makes the condition say the verdict. Reads first, writes only a difference, keeps what others wrote.
    pub async fn ensure(&mut self, verdict: &Verdict) -> Result<Change, GateError> {
        if self
            .confirmed
            .as_ref()
            .is_some_and(|(known, at)| known == verdict && at.elapsed() < REASSERT)
        {
            return Ok(Change::Unchanged);
        }
        for _ in 0..ATTEMPTS {
            let existing = deadline::call("read OperatorCondition", self.api.get_opt(&self.name))
                .await?
                .ok_or_else(|| GateError::NotFound(self.name.clone()))?;
            let Some((conditions, change)) =
                merged(&existing.spec.conditions, verdict, Timestamp::now())
            else {
                self.confirmed = Some((verdict.clone(), Instant::now()));
                return Ok(Change::Unchanged);
            };
            let patch = json!({
                "metadata": {"resourceVersion": existing.metadata.resource_version},
                "spec": {"conditions": conditions},
            });
            let written = deadline::call(
                "write OperatorCondition",
                self.api
                    .patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)),
            )
            .await;
            match written {
                Ok(_) => {
                    self.confirmed = Some((verdict.clone(), Instant::now()));
                    return Ok(change);
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(GateError::Contended(self.name.clone()))
    }
}

/// All conditions with ours as the verdict says; `None` where nothing is to be written. The list is atomic for the
/// API server, so it is merged by type here.
fn merged(existing: &[Value], verdict: &Verdict, now: Timestamp) -> Option<(Vec<Value>, Change)> {
    let is_ours =
        |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some(UPGRADEABLE);
    let mut ours = existing.iter().filter(is_ours);
    let previous = ours
        .next()
        .and_then(|value| serde_json::from_value::<GateCondition>(value.clone()).ok());
    let status = verdict.upgradeable.as_str();
    let same_status = previous
        .as_ref()
        .is_some_and(|condition| condition.status == status);
    let condition = GateCondition {
        type_: UPGRADEABLE.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.as_str().to_owned(),
        message: verdict.message.clone(),
        last_transition_time: match &previous {
            Some(previous) if same_status => previous.last_transition_time.clone(),
            _ => format!("{now:.0}"),
        },
    };
    if previous.as_ref() == Some(&condition) && ours.next().is_none() {
        return None;
    }
    let mut conditions: Vec<Value> = existing
        .iter()
        .filter(|condition| !is_ours(condition))
        .cloned()
        .collect();
    conditions.push(json!(condition));
    Some((
        conditions,
        if same_status {
            Change::Updated
        } else {
            Change::Transitioned
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::report::{Reason, Upgradeable};

    fn verdict(upgradeable: Upgradeable, message: &str) -> Verdict {
        Verdict {
            upgradeable,
            reason: Reason::DriversMissing,
            message: message.to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn others_conditions_are_kept_as_they_are() {
        let other = json!({"type": "Other", "status": "True", "unknownField": [1, 2]});
        let (conditions, change) = merged(
            std::slice::from_ref(&other),
            &verdict(Upgradeable::False, "m"),
            at(0),
        )
        .unwrap();
        assert_eq!(conditions[0], other);
        assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(change, Change::Transitioned);
    }

    #[test]
    fn nothing_is_written_without_a_difference() {
        let held = verdict(Upgradeable::False, "m");
        let (conditions, _) = merged(&[], &held, at(0)).unwrap();
        assert_eq!(merged(&conditions, &held, at(99)), None);
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let (first, _) = merged(&[], &verdict(Upgradeable::False, "m"), at(0)).unwrap();
        let (second, change) = merged(&first, &verdict(Upgradeable::False, "n"), at(60)).unwrap();
        assert_eq!(change, Change::Updated);
        assert_eq!(
            second[0]["lastTransitionTime"],
            first[0]["lastTransitionTime"]
        );
        let (third, change) = merged(&second, &verdict(Upgradeable::True, "n"), at(60)).unwrap();
        assert_eq!(change, Change::Transitioned);
        assert_eq!(third[0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
    }

    #[test]
    fn a_broken_or_doubled_condition_of_ours_is_replaced_by_one() {
        let held = verdict(Upgradeable::False, "m");
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
}
