//! Writes the status of our custom resources: only differences, and each as one patch.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::api::{
    SETTINGS_NAME, WindowsNodeStorage, WindowsNodeStorageSpec, WindowsNodeStorageStatus,
    WindowsStorage, WindowsStorageSpec, WindowsStorageStatus,
};
use crate::deadline::{self, CallError};
use crate::status::EventSink;
use crate::status::conditions::news;
use crate::watch::SharedCluster;

/// Writes status and tells of changes.
pub struct StatusWriter {
    nodes: Api<WindowsNodeStorage>,
    settings: Api<WindowsStorage>,
    events: EventSink,
    shared: SharedCluster,
}

impl StatusWriter {
    /// A writer into that cluster. What it has written goes into the index at once, so that the next pass does not
    /// write it again before the watch brings it.
    #[must_use]
    pub fn new(client: &Client, events: EventSink, shared: SharedCluster) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            settings: Api::all(client.clone()),
            events,
            shared,
        }
    }

    /// Brings one node's status to `status`.
    pub async fn write_node(
        &self,
        node: &str,
        uid: &str,
        previous: Option<&WindowsNodeStorageStatus>,
        status: &WindowsNodeStorageStatus,
    ) -> Result<(), CallError> {
        if previous == Some(status) {
            return Ok(());
        }
        if previous.is_none() {
            self.create_node(node, uid).await?;
        }
        let patch = json!({"status": replacing(status)});
        let written = deadline::call(
            "write WindowsNodeStorage status",
            self.nodes
                .patch_status(node, &PatchParams::default(), &Patch::Merge(&patch)),
        )
        .await?;
        let object = reference(
            "windowsstorage.dev/v1alpha1",
            "WindowsNodeStorage",
            node,
            &written.uid().unwrap_or_default(),
        );
        self.shared.update(|cluster| {
            cluster
                .node_statuses
                .apply(node.to_owned(), written.status.unwrap_or_default())
        });
        let empty = WindowsNodeStorageStatus::default();
        // The kubelet's own events name its node by name in the uid; `kubectl describe node` looks for the same.
        let node_object = reference("v1", "Node", node, node);
        for condition in worth_telling(&previous.unwrap_or(&empty).conditions, &status.conditions) {
            self.events.tell(&node_object, condition).await;
            self.events.tell(&object, condition).await;
        }
        Ok(())
    }

    async fn create_node(&self, node: &str, uid: &str) -> Result<(), CallError> {
        let object = WindowsNodeStorage {
            metadata: ObjectMeta {
                name: Some(node.to_owned()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: node.to_owned(),
                    uid: uid.to_owned(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: WindowsNodeStorageSpec {},
            status: None,
        };
        match deadline::call(
            "create WindowsNodeStorage",
            self.nodes.create(&PostParams::default(), &object),
        )
        .await
        {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the object of a Node that is there but no longer a Windows node of ours.
    pub async fn remove_node(&self, node: &str) -> Result<(), CallError> {
        match deadline::call(
            "delete WindowsNodeStorage",
            self.nodes.delete(node, &DeleteParams::default()),
        )
        .await
        {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
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
        let patch = json!({"status": status});
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
            self.events.tell(&object, condition).await;
        }
        Ok(())
    }
}

/// News, but nothing that only says that all is well from the start.
fn worth_telling<'a>(previous: &[Condition], current: &'a [Condition]) -> Vec<&'a Condition> {
    let first = previous.is_empty();
    news(previous, current)
        .into_iter()
        .filter(|condition| {
            !(first && (condition.status == "True" || condition.reason == "Pending"))
        })
        .collect()
}

/// A merge patch leaves alone what it does not name: fields that are absent now are named as null.
fn replacing(status: &WindowsNodeStorageStatus) -> serde_json::Value {
    let mut value = json!(status);
    if let Some(fields) = value.as_object_mut() {
        for field in ["csiProxy", "lastContactTime"] {
            fields.entry(field).or_insert(serde_json::Value::Null);
        }
        if let Some(csi_proxy) = fields
            .get_mut("csiProxy")
            .and_then(|value| value.as_object_mut())
        {
            for field in ["version", "sha256"] {
                csi_proxy.entry(field).or_insert(serde_json::Value::Null);
            }
        }
    }
    value
}

fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> ObjectReference {
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
    use crate::api::CsiProxyStatus;

    #[test]
    fn what_is_gone_from_a_status_is_named_in_the_patch() {
        let bare = replacing(&WindowsNodeStorageStatus::default());
        assert!(bare["csiProxy"].is_null() && bare.as_object().unwrap().contains_key("csiProxy"));
        let with = WindowsNodeStorageStatus {
            csi_proxy: Some(CsiProxyStatus::default()),
            ..WindowsNodeStorageStatus::default()
        };
        assert!(
            replacing(&with)["csiProxy"]
                .as_object()
                .unwrap()
                .contains_key("version")
        );
    }
}
