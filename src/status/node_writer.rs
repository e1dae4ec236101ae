//! Writes the statuses of nodes: only differences, one patch per node, many in parallel.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ObjectMeta};
use kube::{Client, Resource};
use tokio::task::JoinSet;

use crate::api::{WindowsNodeStorage, WindowsNodeStorageSpec, WindowsNodeStorageStatus};
use crate::client::deadline::{self, CallError};
use crate::status::EventSink;
use crate::status::writer::{Written, apply_status, report_changes};

/// Parallel writes: enough for a distant API server, and not too many for a busy one.
const CONCURRENT_WRITES: usize = 16;

/// The status that a node should have.
pub struct NodeStatus {
    /// The node's name.
    pub name: String,
    /// The Node's uid, for the owner reference.
    pub uid: String,
    /// The current status.
    pub previous: Option<WindowsNodeStorageStatus>,
    /// The desired status.
    pub status: WindowsNodeStorageStatus,
}

/// The result of a write: what was written, if anything.
pub type Outcome = Result<Option<Written<WindowsNodeStorageStatus>>, CallError>;

/// Writes statuses of nodes and reports changes. At most one write per node is in progress.
pub struct NodeWriter {
    api: Arc<NodeApi>,
    writes: JoinSet<(String, Outcome)>,
    in_progress: BTreeSet<String>,
    /// Waits for others to finish: judging a large cluster anew for each would take longer than writing.
    waiting: VecDeque<NodeStatus>,
}

impl NodeWriter {
    /// Creates a writer.
    #[must_use]
    pub fn new(client: &Client, events: EventSink) -> Self {
        Self {
            api: Arc::new(NodeApi {
                nodes: Api::all(client.clone()),
                events,
            }),
            writes: JoinSet::new(),
            in_progress: BTreeSet::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns the number of writes in progress.
    #[must_use]
    pub fn writing(&self) -> usize {
        self.writes.len()
    }

    /// Returns the number of statuses that wait to be written.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Writes these statuses, instead of those that still wait. While the status of a node is being written, a later decision
    /// about it counts: the stored status is not the one that this decision is based on.
    pub fn write(&mut self, decided: impl Iterator<Item = NodeStatus>) {
        self.waiting = decided
            .filter(|node| !self.in_progress.contains(&node.name))
            .collect();
        self.begin();
    }

    /// Starts as many writes as there is room for.
    fn begin(&mut self) {
        while self.writes.len() < CONCURRENT_WRITES
            && let Some(decided) = self.waiting.pop_front()
        {
            self.in_progress.insert(decided.name.clone());
            let api = Arc::clone(&self.api);
            self.writes.spawn(async move {
                let outcome = api.write(&decided).await;
                (decided.name, outcome)
            });
        }
    }

    /// Waits for the next write to finish; forever if none is in progress.
    pub async fn next(&mut self) -> (String, Outcome) {
        let Some(Ok(written)) = self.writes.join_next().await else {
            return std::future::pending().await;
        };
        self.in_progress.remove(&written.0);
        self.begin();
        written
    }

    /// Returns a write that has already finished.
    pub fn try_next(&mut self) -> Option<(String, Outcome)> {
        let written = self.writes.try_join_next()?.ok()?;
        self.in_progress.remove(&written.0);
        self.begin();
        Some(written)
    }

    /// Deletes the status object of a Node that exists but is no longer one of our Windows nodes.
    pub async fn remove(&self, node: &str) -> Result<(), CallError> {
        let parameters = DeleteParams::default();
        let deleting = self.api.nodes.delete(node, &parameters);
        let deleted = deadline::call("delete WindowsNodeStorage", deleting).await;
        match deleted {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

struct NodeApi {
    nodes: Api<WindowsNodeStorage>,
    events: EventSink,
}

impl NodeApi {
    async fn write(&self, decided: &NodeStatus) -> Outcome {
        let (name, previous) = (&decided.name, decided.previous.as_ref());
        if previous == Some(&decided.status) {
            return Ok(None);
        }
        let object = WindowsNodeStorage {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: name.clone(),
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
        let written = apply_status(&self.nodes, &object, previous.is_some(), what).await?;
        let reference = written.object_ref(&());
        // The kubelet's own events use the node's name as uid, and `kubectl describe node` searches for that.
        let node = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(name.clone()),
            uid: Some(name.clone()),
            ..ObjectReference::default()
        };
        let before = previous.map_or(&[][..], |status| &status.conditions);
        let after = &decided.status.conditions;
        report_changes(&self.events, &[&node, &reference], before, after);
        let version = written.metadata.resource_version.as_deref();
        Ok(Some(Written::new(version, decided.status.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_are_written_at_once_and_each_node_once() {
        // A server that accepts requests and never responds.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let config = kube::Config::new(address.parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let events = EventSink::new(&client, None);
        let mut writer = NodeWriter::new(&client, events);
        let decided = |number: usize| NodeStatus {
            name: format!("win-{number}"),
            uid: String::new(),
            previous: Some(WindowsNodeStorageStatus::default()),
            status: WindowsNodeStorageStatus {
                management: "Managed".to_owned(),
                ..WindowsNodeStorageStatus::default()
            },
        };
        let begun = CONCURRENT_WRITES;
        writer.write((0..=begun).map(decided));
        assert_eq!((writer.writing(), writer.waiting()), (begun, 1));
        writer.write((0..begun).map(decided));
        assert_eq!(writer.waiting(), 0, "those are being written");
        writer.write((0..=begun).map(decided));
        let mut held = Vec::new();
        while held.len() < begun {
            // No write waits for another.
            let taken = tokio::time::timeout(deadline::CALL / 2, listener.accept()).await;
            held.push(taken.unwrap().unwrap());
        }
        assert!(writer.try_next().is_none());
        drop((held, listener));
        for _ in 0..=begun {
            let (_, outcome) = writer.next().await;
            assert!(outcome.is_err(), "nobody has answered");
        }
        assert_eq!((writer.writing(), writer.waiting()), (0, 0));
    }
}
