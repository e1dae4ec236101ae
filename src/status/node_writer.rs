//! Writes the statuses of nodes: only differences, one patch per node, many in parallel.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ObjectMeta};
use kube::{Client, Resource};

use crate::api::{WindowsNodeStorage, WindowsNodeStorageSpec, WindowsNodeStorageStatus};
use crate::client::backoff;
use crate::client::deadline::CallError;
use crate::client::version;
use crate::http::Metrics;
use crate::status::EventSink;
use crate::status::writer::{report_changes, unwritten, write_status};

/// Parallel writes: enough for a distant API server, and not too many for a busy one.
const CONCURRENT_WRITES: usize = 16;
/// The pauses after a failed write.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The status that a node should have.
#[derive(Clone)]
pub struct NodeStatus {
    /// The Node's uid, for the owner reference.
    pub uid: String,
    /// The current status.
    pub previous: Option<WindowsNodeStorageStatus>,
    /// The desired status.
    pub status: WindowsNodeStorageStatus,
}

/// The statuses that nodes should have.
#[derive(Clone)]
pub struct NodeStatuses {
    /// The resourceVersion that the current statuses were read up to.
    pub version: u64,
    /// Those that differ, by the node's name.
    pub by_name: BTreeMap<String, NodeStatus>,
}

/// Writes statuses of nodes and reports changes.
pub struct NodeWriter {
    api: Api<WindowsNodeStorage>,
    events: EventSink,
    metrics: Metrics,
    /// "An answer to a write never replaces what a watch has delivered": what was written last, by node.
    written: BTreeMap<String, u64>,
    /// A status that cannot be written delays no other: the failures of each node, and when to try again.
    failed: BTreeMap<String, (u32, Instant)>,
}

impl NodeWriter {
    /// Creates a writer.
    pub fn new(client: &Client, events: EventSink, metrics: Metrics) -> Self {
        Self {
            api: Api::all(client.clone()),
            events,
            metrics,
            written: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }

    /// Writes what differs, each as `latest` wants it when its turn comes. Returns when to try again what failed, and one of
    /// the problems.
    pub async fn reconcile(
        &mut self,
        wanted: &NodeStatuses,
        latest: impl Fn(&str) -> Option<NodeStatus>,
    ) -> Option<(Instant, String)> {
        let is_wanted = |name: &String| wanted.by_name.contains_key(name);
        self.written.retain(|_, version| *version > wanted.version);
        self.failed.retain(|name, _| is_wanted(name));
        let now = Instant::now();
        let is_due = |name: &&String| {
            let waits = self.failed.get(*name).is_some_and(|(_, due)| *due > now);
            // The watch is to deliver the last write first, otherwise it would be written again.
            !waits && !self.written.contains_key(*name)
        };
        let names: Vec<String> = wanted.by_name.keys().filter(is_due).cloned().collect();
        let (to, latest) = ((&self.api, &self.events), &latest);
        let mut writes = stream::iter(names)
            .map(async |name| {
                let written = match latest(&name) {
                    Some(wanted) => write(to, &name, &wanted).await.map(Some),
                    None => Ok(None),
                };
                (name, written)
            })
            .buffer_unordered(CONCURRENT_WRITES);
        let mut problem = None;
        while let Some((name, written)) = writes.next().await {
            match written {
                Ok(version) => {
                    self.failed.remove(&name);
                    self.written.extend(version.map(|version| (name, version)));
                }
                Err(error) => {
                    self.metrics.count_failed_write("WindowsNodeStorage");
                    let error = unwritten(error).to_string();
                    tracing::warn!("{error}");
                    let (failures, due) = self.failed.entry(name).or_insert((0, now));
                    *failures += 1;
                    *due = Instant::now() + backoff::pause(*failures, FIRST_RETRY, LONGEST_RETRY);
                    problem = Some(error);
                }
            }
        }
        let due = self.failed.values().map(|(_, due)| *due).min()?;
        // What waits has failed before.
        let waits = || "the status of a node could not be written".to_owned();
        Some((due, problem.unwrap_or_else(waits)))
    }
}

/// Writes a node's status, and reports what has changed. Returns the new resourceVersion.
async fn write(
    (api, events): (&Api<WindowsNodeStorage>, &EventSink),
    name: &str,
    decided: &NodeStatus,
) -> Result<u64, CallError> {
    let previous = decided.previous.as_ref();
    let object = WindowsNodeStorage {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.to_owned(),
                uid: decided.uid.clone(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: WindowsNodeStorageSpec {},
        status: Some(decided.status.clone()),
    };
    let what = (
        "create WindowsNodeStorage",
        "write WindowsNodeStorage status",
    );
    let written = write_status(api, &object, previous.is_some(), what).await?;
    let reference = written.object_ref(&());
    // The kubelet's own events use the node's name as uid, and `kubectl describe node` searches for that.
    let node = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    };
    let before = previous.map_or(&[][..], |status| &status.conditions);
    let after = &decided.status.conditions;
    report_changes(events, &[&node, &reference], before, after);
    Ok(version(&written))
}

#[cfg(test)]
mod tests;
