//! Writes the statuses of our objects by server-side apply, only if they differ.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::object::HasStatus;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::api::{SETTINGS_NAME, WindowsStorage, WindowsStorageSpec, WindowsStorageStatus};
use crate::client::deadline::{self, CallError, Unwritten};
use crate::client::{Revisions, version};
use crate::node::SSH_KEY_ACCEPTED;
use crate::status::EventSink;
use crate::status::conditions::{is_fault, news};
use crate::status::events::log;

const FIELD_MANAGER: &str = "windows-storage-operator";

pub(super) fn unwritten(error: CallError) -> Unwritten {
    let hint = match error.status() {
        Some(404) => "; are the custom resource definitions installed? kubectl apply -k crds",
        // How an API server answers for unknown fields or values.
        Some(422 | 500) => {
            "; are the custom resource definitions those of this operator? kubectl apply -k crds"
        }
        _ => "",
    };
    Unwritten(error, hint)
}

/// Writes the status of `WindowsStorage` and publishes events about its changes.
pub struct SettingsWriter {
    api: Api<WindowsStorage>,
    events: EventSink,
    /// "An answer to a write never replaces what a watch has delivered": the resourceVersion that was written last.
    written: u64,
    revisions: Revisions,
}

impl SettingsWriter {
    /// Creates a writer.
    pub fn new(client: &Client, events: EventSink, revisions: Revisions) -> Self {
        Self {
            api: Api::all(client.clone()),
            events,
            written: 0,
            revisions,
        }
    }

    /// Writes the status instead of the previous one, unless that is older than the last write. Creates the object with
    /// defaults if it is missing, so that the verdict can be written.
    pub async fn reconcile(
        &mut self,
        read_up_to: u64,
        previous: Option<&WindowsStorage>,
        status: &WindowsStorageStatus,
    ) -> Result<(), Unwritten> {
        if read_up_to < self.written {
            return Ok(());
        }
        let before = previous.and_then(|object| object.status.as_ref());
        let mut object = WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default());
        object.status = Some(status.clone());
        let what = ("create WindowsStorage", "write WindowsStorage status");
        let written = write_status(&self.api, &object, previous.is_some(), what).await;
        let written = written.map_err(unwritten)?;
        // In another store than before, this would be written again and again: that ends the process.
        let at = format!("{}/{SETTINGS_NAME}", self.api.resource_url());
        let came_to = written.metadata.resource_version.as_deref();
        let _ = self.revisions.see(&at, came_to.unwrap_or_default());
        self.written = version(&written);
        let reference = written.object_ref(&());
        let conditions = before.map_or(&[][..], |status| &status.conditions);
        let known = before.and_then(|status| status.upgraded_while_held.as_ref());
        report_changes(&self.events, &[&reference], conditions, &status.conditions);
        let upgraded = status.upgraded_while_held.as_ref();
        if let Some(upgraded) = upgraded.filter(|now| known != Some(*now)) {
            self.events.publish_upgraded(&reference, upgraded);
        }
        Ok(())
    }
}

/// Writes the status of `object`, and creates the object if it is missing.
pub(super) async fn write_status<K>(
    api: &Api<K>,
    object: &K,
    exists: bool,
    (create, write): (&'static str, &'static str),
) -> Result<K, CallError>
where
    K: Resource<DynamicType = ()> + HasStatus + Clone + Debug + Serialize + DeserializeOwned,
    K::Status: PartialEq + Serialize,
{
    if !exists {
        let created = deadline::call(create, api.create(&PostParams::default(), object)).await;
        match created {
            Err(error) if !error.is_conflict() => return Err(error),
            _ => {}
        }
    }
    let name = object.name_any();
    // An apply refuses what older definitions lack; a patch would lose it in silence, each time anew.
    let status = Patch::Apply(json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "status": object.status(),
    }));
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    let written = deadline::call(write, api.patch_status(&name, &apply, &status)).await?;
    if written.status() == object.status() {
        return Ok(written);
    }
    // An apply keeps fields of other managers, such as an operator version before server-side apply. Replace the whole
    // status then.
    let whole = json!([{"op": "add", "path": "/status", "value": object.status()}]);
    // A JSON patch always parses; the default would change nothing.
    let whole = Patch::Json::<()>(serde_json::from_value(whole).unwrap_or_default());
    let replace = PatchParams::default();
    deadline::call(write, api.patch_status(&name, &replace, &whole)).await
}

/// Logs the conditions worth reporting, and publishes an event for each on all of these objects. The last object is the
/// conditions' own.
pub(super) fn report_changes(
    events: &EventSink,
    objects: &[&ObjectReference],
    before: &[Condition],
    after: &[Condition],
) {
    for condition in worth_reporting(before, after) {
        if let Some(object) = objects.last() {
            log(object, condition);
        }
        for object in objects {
            events.publish_condition(object, condition);
        }
    }
}

/// Returns changed conditions, except: good ones in a first status, those in progress, the key of a first login, and
/// summaries. `Ready` says what others say, for tools; `NodesReady` is told when it becomes true.
fn worth_reporting<'a>(previous: &[Condition], current: &'a [Condition]) -> Vec<&'a Condition> {
    const IN_PROGRESS: [&str; 2] = ["Pending", "Writing"];
    let mut worth = news(previous, current);
    worth.retain(|condition| {
        let type_ = condition.type_.as_str();
        let is_told = if is_fault(condition) {
            type_ != "NodesReady"
        } else {
            !previous.is_empty()
        };
        is_told
            && !["Ready", SSH_KEY_ACCEPTED].contains(&type_)
            && !IN_PROGRESS.contains(&condition.reason.as_str())
    });
    worth
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                jiff::Timestamp::UNIX_EPOCH,
            ),
        }
    }

    fn reported(previous: &[Condition], current: &[Condition]) -> Vec<String> {
        worth_reporting(previous, current)
            .into_iter()
            .map(|condition| condition.type_.clone())
            .collect()
    }

    #[tokio::test]
    async fn what_was_written_is_not_written_again_before_the_watch_brings_it() {
        let server = crate::status::server::Server::default();
        let client = server.client();
        let mut writer =
            SettingsWriter::new(&client, EventSink::new(&client, None), Revisions::default());
        let object = WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default());
        let status = WindowsStorageStatus::default();
        for (read_up_to, asked) in [(0, 1), (0, 0), (1, 1), (1, 0), (2, 1)] {
            let written = writer.reconcile(read_up_to, Some(&object), &status).await;
            written.unwrap();
            assert_eq!(server.asked().len(), asked, "{read_up_to}");
        }
    }

    #[test]
    fn a_fault_is_reported_once_and_by_its_own_condition() {
        let pending = [
            condition("CSIProxyReady", "Unknown", "Pending"),
            condition("Ready", "False", "DriversMissing"),
        ];
        assert!(reported(&[], &pending).is_empty());
        let failed = [
            condition("CSIProxyReady", "Unknown", "Unreachable"),
            condition("Ready", "False", "Unreachable"),
        ];
        assert_eq!(reported(&pending, &failed), ["CSIProxyReady"]);
        assert!(reported(&failed, &failed).is_empty());
        let good = [
            condition("CSIProxyReady", "True", "PipesOpen"),
            condition("Ready", "True", "StorageReady"),
        ];
        assert_eq!(reported(&failed, &good), ["CSIProxyReady"]);
        assert!(
            reported(&[], &good).is_empty(),
            "all is well from the start"
        );
        let accepted = [condition("SSHKeyAccepted", "True", "Accepted")];
        assert!(reported(&good, &accepted).is_empty());
        let pools = [condition("NodePoolsValid", "True", "Overlapping")];
        assert_eq!(reported(&good, &pools), ["NodePoolsValid"]);
        let of_all =
            |status, reason| ["NodesReady", "Ready"].map(|type_| condition(type_, status, reason));
        let (before, after) = (of_all("False", "NodesNotReady"), of_all("True", "AllReady"));
        assert_eq!(reported(&before, &after), ["NodesReady"]);
    }
}
