//! The gate: our `Upgradeable` condition in the `OperatorCondition` that OLM asks before it upgrades the operator.
//!
//! `wanted` says what it shall say, `condition` what is to be written for that, `track` how it stands; all three are pure.
//! OLM's role grants `get`, `update` and `patch` on the one object, so it is read again and again rather than watched.

mod condition;
mod operations;
mod track;
mod wanted;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::api::OperatorCondition;
use crate::deadline::{self, CallError};
use condition::{is_confirmed, is_there, merged, overridden};
use track::{Look, REASSERT, Track};
use wanted::{BRIEF_MOMENT, Decider, Wanted};

pub use condition::Change;
pub use track::GateReport;
pub use wanted::Judged;

/// How often a write is tried again when others write at the same time.
const ATTEMPTS: u32 = 5;
/// How long the attempts may take together: all else waits for the gate.
const LIMIT: Duration = Duration::from_secs(20);

/// Why the gate could not be set. It keeps its last state, which is never `True` by mistake.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// OLM has not made the object yet, or the name is wrong.
    #[error(
        "there is no OperatorCondition {0}: OLM makes it together with the CSV; check OPERATOR_CONDITION_NAME or --operator-condition and the namespace"
    )]
    NotFound(String),
    /// The cluster does not know the kind.
    #[error(
        "the cluster does not serve OperatorCondition in operators.coreos.com/v2: OLM is not installed, or too old for it. Without OLM run the operator without OPERATOR_CONDITION_NAME and --operator-condition: the verdict is in WindowsStorage as well"
    )]
    NotServed,
    /// The right is missing.
    #[error(
        "OperatorCondition {name} may not be read or written ({answer}): OLM gives get, update and patch on it to the ServiceAccount of the CSV; is the operator running as that?"
    )]
    Forbidden {
        /// The object's name.
        name: String,
        /// What the API server said.
        answer: String,
    },
    /// Others keep changing it.
    #[error("OperatorCondition {0} was changed by others at every attempt; it is tried again")]
    Contended(String),
    /// It took too long.
    #[error("OperatorCondition {name} could not be written within {} s; it is tried again", LIMIT.as_secs())]
    TimedOut {
        /// The object's name.
        name: String,
    },
    /// A call failed.
    #[error(transparent)]
    Call(CallError),
}

impl GateError {
    /// A word for machines.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NotFound",
            Self::NotServed => "NotServed",
            Self::Forbidden { .. } => "Forbidden",
            Self::Contended(_) => "Contended",
            Self::TimedOut { .. } => "TimedOut",
            Self::Call(_) => "WriteFailed",
        }
    }
}

/// The gate of this operator.
pub struct Gate {
    api: Api<OperatorCondition>,
    name: String,
    decider: Decider,
    /// What was decided last.
    wanted: Option<Wanted>,
    track: Track,
}

impl Gate {
    /// The gate in the object of that name.
    #[must_use]
    pub fn new(api: Api<OperatorCondition>, name: String) -> Self {
        Self {
            api,
            decider: Decider::new(Instant::now()),
            wanted: None,
            track: Track::new(name.clone()),
            name,
        }
    }

    /// Whether the condition says what it shall, as of the last look.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.track.is_set()
    }

    /// Whether a verdict that would open the gate has not stood long enough yet.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.decider.is_waiting()
    }

    /// What the condition was made to say last, in short.
    #[must_use]
    pub fn told(&self) -> String {
        self.track.told()
    }

    /// How the gate stands, for people.
    #[must_use]
    pub fn report(&self) -> GateReport {
        self.track.report(Instant::now())
    }

    /// How long until there may be something to do though nothing has changed.
    #[must_use]
    pub fn due_in(&self) -> Duration {
        let now = Instant::now();
        if !self.track.is_set() {
            // What failed is tried again at its own pace.
            return REASSERT;
        }
        let due = [self.decider.next(now), self.track.next_look()];
        let next = due.into_iter().flatten().min();
        next.map_or(REASSERT, |next| next.saturating_duration_since(now))
    }

    /// How long until a verdict that would open the gate has stood long enough; `None` where there is none, or where the
    /// condition cannot be written anyway.
    #[must_use]
    pub fn opens_in(&self) -> Option<Duration> {
        let now = Instant::now();
        let opens = self.decider.opening().filter(|_| self.track.is_set())?;
        Some(opens.saturating_duration_since(now))
    }

    /// Whether it opens so soon that all else may wait for it.
    #[must_use]
    pub fn is_about_to_open(&self) -> bool {
        self.opens_in().is_some_and(|opens| opens <= BRIEF_MOMENT)
    }

    /// Decides what the condition shall say: the verdict, or what else holds upgrades, the nodes that are in the middle of
    /// an update. To be told of every verdict, also while the condition cannot be written: one that went back and forth
    /// meanwhile has not stood.
    pub fn decide(&mut self, judged: &Judged<'_>, in_progress: &BTreeSet<String>) {
        let wanted = self.decider.decide(judged, in_progress, Instant::now());
        self.wanted = Some(wanted);
    }

    /// Whether a leader has written the condition: OLM takes one that is missing for permission. For those that stand by,
    /// who write nothing.
    pub async fn is_written(&self) -> Result<bool, GateError> {
        let read = deadline::call("read OperatorCondition", self.api.get(&self.name)).await;
        let object = read.map_err(|error| self.explain(error))?;
        Ok(is_there(&object))
    }

    /// Makes the condition say what was decided. Reads first, writes only a difference, keeps what others wrote.
    pub async fn ensure(&mut self) -> Result<Change, GateError> {
        let Some(wanted) = self.wanted.clone() else {
            return Ok(Change::Unchanged);
        };
        let now = Instant::now();
        let due = self.track.next_look().is_none_or(|next| next <= now);
        if self.track.stands(&wanted) && !due {
            return Ok(Change::Unchanged);
        }
        let written = tokio::time::timeout(LIMIT, self.write(&wanted)).await;
        match written.unwrap_or_else(|_| {
            Err(GateError::TimedOut {
                name: self.name.clone(),
            })
        }) {
            Ok(look) => {
                let change = look.change;
                self.decider.wrote(wanted.clone(), Instant::now());
                if self.track.saw(wanted, look, Instant::now()) {
                    tracing::warn!(
                        "somebody else had changed the condition Upgradeable of OperatorCondition {}; it is written anew",
                        self.name
                    );
                }
                Ok(change)
            }
            Err(error) => {
                self.track.failed(error.reason(), error.to_string());
                Err(error)
            }
        }
    }

    async fn write(&self, wanted: &Wanted) -> Result<Look, GateError> {
        for _ in 0..ATTEMPTS {
            let read = deadline::call("read OperatorCondition", self.api.get(&self.name)).await;
            let existing = read.map_err(|error| self.explain(error))?;
            let Some((conditions, change)) =
                merged(&existing.spec.conditions, wanted, Timestamp::now())
            else {
                return Ok(look(&existing, Change::Unchanged));
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
                Ok(written) => return Ok(look(&written, change)),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(self.explain(error)),
            }
        }
        Err(GateError::Contended(self.name.clone()))
    }

    fn explain(&self, error: CallError) -> GateError {
        if error.is_forbidden() {
            let (name, answer) = (self.name.clone(), error.answer());
            return GateError::Forbidden { name, answer };
        }
        if !error.is_not_found() {
            return GateError::Call(error);
        }
        if error.names_an_object() {
            GateError::NotFound(self.name.clone())
        } else {
            GateError::NotServed
        }
    }
}

fn look(object: &OperatorCondition, change: Change) -> Look {
    Look {
        change,
        confirmed: is_confirmed(object),
        overridden: overridden(object),
    }
}
