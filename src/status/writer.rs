//! Writes the status of `WindowsStorage`: only differences, and as one patch.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::api::{SETTINGS_NAME, WindowsStorage, WindowsStorageSpec, WindowsStorageStatus};
use crate::deadline::{self, CallError};
use crate::status::conditions::news;
use crate::status::events::log;
use crate::status::{BlockedEvents, EventSink, NodeWriter};
use crate::watch::SharedCluster;

/// Writes status and tells of changes.
pub struct StatusWriter {
    /// The statuses of nodes.
    pub nodes: NodeWriter,
    /// What is told of volumes that hold upgrades.
    pub blocked: BlockedEvents,
    settings: Api<WindowsStorage>,
    events: EventSink,
    shared: SharedCluster,
}

impl StatusWriter {
    /// A writer into that cluster. What it has written goes into the index at once, so that the next pass does not
    /// write it again before the watch brings it.
    #[must_use]
    pub fn new(client: &Client, instance: Option<String>, shared: SharedCluster) -> Self {
        let events = EventSink::new(client, instance.clone());
        Self {
            blocked: BlockedEvents::new(client.clone(), instance),
            nodes: NodeWriter::new(client, events.clone(), shared.clone()),
            settings: Api::all(client.clone()),
            events,
            shared,
        }
    }

    /// Brings the status of `WindowsStorage` to `status`; the object is made with its defaults where it is missing,
    /// so that the verdict has a place.
    pub async fn write_settings(
        &self,
        previous: Option<&WindowsStorage>,
        status: &WindowsStorageStatus,
    ) -> Result<(), CallError> {
        if previous.and_then(|object| object.status.as_ref()) == Some(status) {
            return Ok(());
        }
        if previous.is_none() {
            let object = WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default());
            match deadline::call(
                "create WindowsStorage",
                self.settings.create(&PostParams::default(), &object),
            )
            .await
            {
                Err(error) if !error.is_conflict() => return Err(error),
                _ => {}
            }
        }
        let patch = json!({"status": replacing(status)});
        let written = deadline::call(
            "write WindowsStorage status",
            self.settings.patch_status(
                SETTINGS_NAME,
                &PatchParams::default(),
                &Patch::Merge(&patch),
            ),
        )
        .await?;
        let object = reference(
            "windowsstorage.dev/v1alpha1",
            "WindowsStorage",
            SETTINGS_NAME,
            &written.uid().unwrap_or_default(),
        );
        self.shared.update(|cluster| {
            let mut row = written;
            row.metadata.managed_fields = None;
            cluster.settings.apply(SETTINGS_NAME.to_owned(), row)
        });
        let before = previous
            .and_then(|object| object.status.clone())
            .unwrap_or_default();
        for condition in worth_telling(&before.conditions, &status.conditions) {
            log(&object, condition);
            self.events.tell(&object, condition);
        }
        Ok(())
    }

    /// Waits for the events that were told to be written, for a process that is about to end.
    pub async fn told(&self) {
        self.events.written().await;
    }
}

/// News, but neither that all is well from the start, nor what is only on its way, nor what another condition tells
/// in full: `Ready` and `NodesReady` only sum up, so they are told when they become true.
pub(super) fn worth_telling<'a>(
    previous: &[Condition],
    current: &'a [Condition],
) -> Vec<&'a Condition> {
    const ON_ITS_WAY: [&str; 2] = ["Pending", "Writing"];
    let was_on_its_way = |type_: &str| {
        previous.iter().any(|condition| {
            condition.type_ == type_ && ON_ITS_WAY.contains(&condition.reason.as_str())
        })
    };
    news(previous, current)
        .into_iter()
        .filter(|condition| {
            let good = condition.status == "True";
            let sums_up = matches!(condition.type_.as_str(), "Ready" | "NodesReady");
            let first = previous.is_empty()
                || (condition.type_ == "ServicesValid" && was_on_its_way(&condition.type_));
            let on_its_way = ON_ITS_WAY.contains(&condition.reason.as_str());
            let quiet = on_its_way || if good { first } else { sums_up };
            !quiet
        })
        .collect()
}

/// A merge patch leaves alone what it does not name: fields that are absent now are named as null.
fn replacing(status: &WindowsStorageStatus) -> serde_json::Value {
    let mut value = json!(status);
    if let Some(fields) = value.as_object_mut() {
        for field in ["verdict", "counts", "rollout"] {
            fields.entry(field).or_insert(serde_json::Value::Null);
        }
    }
    value
}

pub(super) fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
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

    fn told(previous: &[Condition], current: &[Condition]) -> Vec<String> {
        worth_telling(previous, current)
            .into_iter()
            .map(|condition| condition.type_.clone())
            .collect()
    }

    #[test]
    fn a_fault_is_told_once_and_by_its_own_condition() {
        let pending = [
            condition("CSIProxyReady", "Unknown", "Pending"),
            condition("Ready", "False", "DriversMissing"),
        ];
        assert!(told(&[], &pending).is_empty());
        let failed = [
            condition("CSIProxyReady", "Unknown", "Unreachable"),
            condition("Ready", "False", "Unreachable"),
        ];
        assert_eq!(told(&pending, &failed), ["CSIProxyReady"]);
        assert!(told(&failed, &failed).is_empty());
        let good = [
            condition("CSIProxyReady", "True", "PipesOpen"),
            condition("Ready", "True", "StorageReady"),
        ];
        assert_eq!(told(&failed, &good), ["CSIProxyReady", "Ready"]);
        assert!(told(&[], &good).is_empty(), "all is well from the start");
    }
}
