//! Events on claims and pods whose volumes hold upgrades: one for each, as long as they do.
//!
//! An event's name follows from what it tells, so that a process after this one finds it there and does not tell it again
//! while the API server keeps it, which is an hour by default. What was over and comes again counts the event up.

mod schedule;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::assess::{Blocked, BlockedKey, BlockedKind};
use crate::deadline::{self, CallError};
use crate::status::events::{CONTROLLER, NOTE_LIMIT};
use crate::status::sentence::shortened;
use crate::tasks::Tasks;
pub use schedule::MOST_BLOCKED;
use schedule::{Due, Schedule};

/// Tells of volumes that hold upgrades. Beside everything else: nobody waits for it.
pub struct BlockedEvents {
    api: EventApi,
    schedule: Schedule,
    batch: Tasks<Vec<(BlockedKey, bool)>>,
}

impl BlockedEvents {
    /// Nothing told yet.
    #[must_use]
    pub fn new(client: Client, instance: Option<String>) -> Self {
        Self {
            api: EventApi { client, instance },
            schedule: Schedule::default(),
            batch: Tasks::new(),
        }
    }

    /// Those are what holds upgrades now. Tells some of those that are due.
    pub fn tell(&mut self, blocked: BTreeMap<BlockedKey, Blocked>, now: Instant) {
        while let Some(told) = self.batch.try_join_next() {
            for (key, is_told) in told {
                self.schedule.ended(&key, is_told, now);
            }
        }
        let due = self.schedule.update(blocked, now);
        if due.is_empty() || !self.batch.is_empty() {
            return;
        }
        let api = self.api.clone();
        self.batch.spawn(async move {
            let mut told = Vec::new();
            for due in due {
                let is_told = api.publish(&due).await;
                if let Err(error) = &is_told {
                    tracing::debug!(%error, "an event could not be published");
                }
                told.push((due.key, is_told.is_ok()));
            }
            told
        });
    }

    /// When something is to be told, though nothing is new.
    #[must_use]
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        self.schedule.due_in(now)
    }
}

#[derive(Clone)]
struct EventApi {
    client: Client,
    instance: Option<String>,
}

impl EventApi {
    async fn publish(&self, due: &Due) -> Result<(), CallError> {
        let regarding = match due.key.kind {
            BlockedKind::Claim => self.find::<PersistentVolumeClaim>(due).await?,
            BlockedKind::Pod => self.find::<Pod>(due).await?,
        };
        // It has gone, and nobody will look there.
        let Some(regarding) = regarding else {
            return Ok(());
        };
        let now = Timestamp::now();
        let event = self.event(due, regarding, now);
        let namespace = due.key.object.namespace.as_str();
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        let created = deadline::call(
            "publish event",
            events.create(&PostParams::default(), &event),
        )
        .await;
        match created {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() && due.times_before == 0 => Ok(()),
            Err(error) if error.is_conflict() => {
                let series =
                    json!({"count": due.times_before + 1, "lastObservedTime": MicroTime(now)});
                let patch = Patch::Merge(json!({"series": series}));
                let (name, parameters) = (event.name_any(), PatchParams::default());
                let counted = events.patch(&name, &parameters, &patch);
                deadline::call("publish event", counted).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    /// The object as events refer to it: `kubectl describe` looks for its uid. Only a list of one is asked for, because to
    /// list is what the operator may do.
    async fn find<K>(&self, due: &Due) -> Result<Option<ObjectReference>, CallError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let object = &due.key.object;
        let api = Api::<K>::namespaced(self.client.clone(), &object.namespace);
        let named = ListParams::default().fields(&format!("metadata.name={}", object.name));
        let found =
            deadline::call("read what an event is about", api.list_metadata(&named)).await?;
        Ok(found.items.into_iter().next().map(|found| ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: found.metadata.namespace,
            name: found.metadata.name,
            uid: found.metadata.uid,
            ..ObjectReference::default()
        }))
    }

    fn event(&self, due: &Due, regarding: ObjectReference, now: Timestamp) -> Event {
        let Due { key, blocked, .. } = due;
        let reason = blocked.reason.as_str();
        Event {
            metadata: ObjectMeta {
                namespace: Some(key.object.namespace.to_string()),
                name: Some(event_name(key, &regarding, reason)),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(
                self.instance
                    .clone()
                    .unwrap_or_else(|| CONTROLLER.to_owned()),
            ),
            action: Some("Upgradeable".to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            note: Some(shortened(&blocked.note, NOTE_LIMIT).into_owned()),
            type_: Some("Warning".to_owned()),
            ..Event::default()
        }
    }
}

/// A name that is the same for the same object, driver and reason.
fn event_name(key: &BlockedKey, regarding: &ObjectReference, reason: &str) -> String {
    use std::fmt::Write;
    /// A name has 253 characters at most.
    const MOST: usize = 220;
    let driver = key.driver.as_deref().unwrap_or_default();
    let uid = regarding.uid.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{CONTROLLER}/{uid}/{driver}/{reason}"));
    // Names of objects are ASCII.
    let name = key.object.name.get(..MOST).unwrap_or(&key.object.name);
    let mut name = name.trim_end_matches(['.', '-']).to_owned();
    name.push('.');
    for byte in &digest[..8] {
        // Writing to a String does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::ObjectKey;

    #[test]
    fn the_name_follows_from_what_is_told_and_fits() {
        let regarding = |uid: &str| ObjectReference {
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let key = |name: &str, driver: &str| BlockedKey {
            kind: BlockedKind::Claim,
            object: ObjectKey::new("shop", name),
            driver: Some(driver.into()),
        };
        let name = |name: &str, driver: &str, uid: &str| {
            event_name(&key(name, driver), &regarding(uid), "DriversMissing")
        };
        let first = name("data", "a", "1");
        assert!(first.starts_with("data."), "{first}");
        assert_eq!(first, name("data", "a", "1"));
        assert_ne!(first, name("data", "b", "1"));
        assert_ne!(
            first,
            name("data", "a", "2"),
            "an object that was made anew"
        );
        let long = format!("{}-.{}", "x".repeat(218), "y".repeat(30));
        let long = name(&long, "a", "1");
        assert!(long.len() <= 253 && !long.contains("-."), "{long}");
    }
}
