//! Reads and writes the `OperatorCondition`.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::api::OperatorCondition;
use crate::client::deadline::{self, CallError};
use crate::gate::condition::{Check, found, is_there, merged};
use crate::gate::decider::Found;
use crate::gate::{Decision, GateError};
use crate::visible::visible;

/// How many attempts a write gets when others write at the same time.
const ATTEMPTS: u32 = 5;
/// The time limit for all attempts together.
pub const LIMIT: Duration = Duration::from_secs(20);

/// How the names of this operator's own CSVs begin.
const OUR_CSV: &str = "windows-storage-operator.";

/// The object that contains the gate.
#[derive(Clone, Debug)]
pub struct GateObject {
    api: Api<OperatorCondition>,
    /// Its name.
    pub name: String,
}

impl GateObject {
    /// Creates the gate in the object of that name.
    #[must_use]
    pub fn new(api: Api<OperatorCondition>, name: String) -> Self {
        Self { api, name }
    }

    /// Returns whether a leader has written the condition: OLM takes a missing one as permission. For standby processes,
    /// which write nothing.
    pub async fn is_written(&self) -> Result<bool, GateError> {
        Ok(is_there(&self.read().await?))
    }

    /// Returns what the condition says before this process writes it.
    pub(super) async fn found(&self) -> Result<Found, GateError> {
        Ok(found(&self.read().await?))
    }

    /// Makes the condition say what was decided. Reads first, writes only a difference, and keeps what others wrote. Returns
    /// `None` if the decision is no longer wanted and nothing was written.
    pub async fn ensure(
        &self,
        decision: &Decision,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Check>, GateError> {
        let written = tokio::time::timeout(LIMIT, self.write(decision, is_wanted)).await;
        written.unwrap_or_else(|_| Err(GateError::TimedOut(self.name.clone())))
    }

    async fn write(
        &self,
        decision: &Decision,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Check>, GateError> {
        for _ in 0..ATTEMPTS {
            let existing = self.read().await?;
            let conditions = merged(&existing.spec.conditions, decision, Timestamp::now());
            let Some(conditions) = conditions else {
                return Ok(Some(Check::new(&existing, false)));
            };
            if !is_wanted() {
                return Ok(None);
            }
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": existing.metadata.resource_version},
                "spec": {"conditions": conditions},
            }));
            let parameters = PatchParams::default();
            let writing = self.api.patch(&self.name, &parameters, &patch);
            match deadline::call("write OperatorCondition", writing).await {
                Ok(written) => return Ok(Some(Check::new(&written, true))),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(self.explain(error)),
            }
        }
        Err(GateError::Contended(self.name.clone()))
    }

    async fn read(&self) -> Result<OperatorCondition, GateError> {
        let read = deadline::call("read OperatorCondition", self.api.get(&self.name)).await;
        let read = read.map_err(|error| self.explain(error))?;
        match owner_of_another(&read) {
            Some(csv) => Err(GateError::NotOurs(self.name.clone(), visible(csv))),
            None => Ok(read),
        }
    }

    fn explain(&self, error: CallError) -> GateError {
        let name = self.name.clone();
        if error.is_forbidden() {
            GateError::Forbidden(name, error.answer())
        } else if !error.is_not_found() {
            GateError::Call(error)
        } else if error.names_an_object() {
            GateError::NotFound(name)
        } else {
            GateError::NotServed
        }
    }
}

/// Returns the CSV of another operator that an OperatorCondition belongs to. OLM gives each CSV one, with the CSV as owner.
fn owner_of_another(object: &OperatorCondition) -> Option<&str> {
    let owners = object.metadata.owner_references.iter().flatten();
    let mut csvs = owners.filter(|owner| owner.kind == "ClusterServiceVersion");
    let csv = csvs.find(|csv| !csv.name.starts_with(OUR_CSV))?;
    Some(&csv.name)
}
