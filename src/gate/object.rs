//! Reads and writes the `OperatorCondition`.

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, Patch, PatchParams};
use serde_json::json;

use crate::api::OperatorCondition;
use crate::client::Revisions;
use crate::client::deadline::{self, CallError};
use crate::gate::condition::{holds, merged};
use crate::gate::{Decision, GateError};
use crate::objects::{FieldError, Received};
use crate::visible::visible;

/// How many attempts a write gets when others write at the same time.
const ATTEMPTS: u32 = 5;

/// How the names of this operator's own CSVs begin.
const OUR_CSV: &str = "windows-storage-operator.";

/// The object that contains the gate.
#[derive(Clone, Debug)]
pub struct GateObject {
    api: Api<Received>,
    /// Its name.
    pub name: String,
    /// "Its store is another one": how far it has come.
    revisions: Revisions,
}

impl GateObject {
    /// Creates the gate in the object of that name.
    pub fn new(client: Client, namespace: &str, name: String, revisions: Revisions) -> Self {
        let resource = ApiResource::erase::<OperatorCondition>(&());
        Self {
            api: Api::namespaced_with(client, namespace, &resource),
            name,
            revisions,
        }
    }

    /// Returns whether the condition holds upgrades; nothing if nobody has written it, which OLM takes as permission.
    pub async fn holds(&self) -> Result<Option<bool>, GateError> {
        Ok(holds(&self.read().await?))
    }

    /// Makes the condition say what was decided. Reads first, writes only a difference, and keeps what others wrote. Returns the
    /// object, and whether it had to be written; `None` if the decision is not wanted over what was read, and nothing was
    /// written.
    pub async fn ensure(
        &self,
        decision: &Decision,
        is_wanted: impl Fn(&OperatorCondition) -> bool,
    ) -> Result<Option<(OperatorCondition, bool)>, GateError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let existing = self.read().await?;
            let conditions = merged(&existing.spec.conditions, decision, Timestamp::now());
            let Some(conditions) = conditions else {
                return Ok(Some((existing, false)));
            };
            if !is_wanted(&existing) {
                return Ok(None);
            }
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": existing.metadata.resource_version},
                "spec": {"conditions": conditions},
            }));
            let parameters = PatchParams::default();
            let writing = self.api.patch(&self.name, &parameters, &patch);
            match deadline::call("write OperatorCondition", writing).await {
                Ok(written) => return Ok(Some((self.decode(&written)?, true))),
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {}
                Err(error) => return Err(self.explain(error)),
            }
        }
    }

    async fn read(&self) -> Result<OperatorCondition, GateError> {
        let read = deadline::call("read OperatorCondition", self.api.get(&self.name)).await;
        let read = self.decode(&read.map_err(|error| self.explain(error))?)?;
        let at = format!("{}/{}", self.api.resource_url(), self.name);
        let version = read.metadata.resource_version.as_deref();
        let seen = self.revisions.see(&at, version.unwrap_or_default());
        seen.map_err(|went_back| GateError::Call(CallError::NotMade(went_back.to_string())))?;
        match owner_of_another(&read) {
            Some(csv) => Err(GateError::NotOurs(self.name.clone(), visible(csv))),
            None => Ok(read),
        }
    }

    /// Decodes an answer; where it does not fit, the field is named, which kube does not do.
    fn decode(&self, answer: &Received) -> Result<OperatorCondition, GateError> {
        let name = &self.name;
        let problem =
            |field: FieldError| format!("OperatorCondition {name} cannot be read: {field}");
        let decoded = answer.decode();
        decoded.map_err(|field| GateError::Call(CallError::NotMade(problem(field))))
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
