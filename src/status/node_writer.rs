//! Writes the statuses of nodes: only differences, each as one patch, and many at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ObjectMeta};
use kube::{Client, Resource};
use tokio::task::JoinSet;

use crate::api::{WindowsNodeStorage, WindowsNodeStorageSpec, WindowsNodeStorageStatus};
use crate::deadline::{self, CallError};
use crate::status::EventSink;
use crate::status::writer::{apply_status, report_changes};
use crate::watch::SharedCluster;

/// Statuses on their way at one time: enough for an API server that is far away, and few for one that is busy.
const CONCURRENT_WRITES: usize = 16;

/// The status that a node shall have.
pub struct NodeStatus {
    /// The node's name.
    pub name: String,
    /// The Node's uid.
    pub uid: String,
    /// The status as it is.
    pub previous: Option<WindowsNodeStorageStatus>,
    /// The status as it shall be.
    pub status: WindowsNodeStorageStatus,
}

/// A write that has ended.
pub struct Written {
    /// The node's name.
    pub node: String,
    /// How it ended.
    pub outcome: Result<(), CallError>,
    /// Something else has been decided meanwhile, so that there is more to write.
    pub outdated: bool,
}

/// Writes statuses of nodes and tells of changes. A node has one write on its way at most.
pub struct NodeWriter {
    api: Arc<NodeApi>,
    writes: JoinSet<(String, Result<(), CallError>)>,
    on_their_way: BTreeMap<String, OnItsWay>,
}

struct OnItsWay {
    status: WindowsNodeStorageStatus,
    outdated: bool,
}

impl NodeWriter {
    /// A writer into that cluster. What it has written goes into the index at once, so that nobody writes it again
    /// before the watch brings it.
    #[must_use]
    pub fn new(client: &Client, events: EventSink, shared: SharedCluster) -> Self {
        Self {
            api: Arc::new(NodeApi {
                nodes: Api::all(client.clone()),
                events,
                shared,
            }),
            writes: JoinSet::new(),
            on_their_way: BTreeMap::new(),
        }
    }

    /// How many writes are on their way.
    #[must_use]
    pub fn writing(&self) -> usize {
        self.writes.len()
    }

    /// Whether one more write may begin.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.writes.len() < CONCURRENT_WRITES
    }

    /// Whether a status of that node is on its way. Then it is noted whether that is still the one that it shall have.
    pub fn is_on_its_way(&mut self, decided: &NodeStatus) -> bool {
        let on_its_way = self.on_their_way.get_mut(&decided.name);
        on_its_way.is_some_and(|on_its_way| {
            on_its_way.outdated |= on_its_way.status != decided.status;
            true
        })
    }

    /// Begins to bring a node's status to what was decided. No other may be on its way there.
    pub fn begin(&mut self, decided: NodeStatus) {
        let on_its_way = OnItsWay {
            status: decided.status.clone(),
            outdated: false,
        };
        self.on_their_way.insert(decided.name.clone(), on_its_way);
        let api = Arc::clone(&self.api);
        self.writes.spawn(async move {
            let outcome = api.write(&decided).await;
            (decided.name, outcome)
        });
    }

    /// Waits for the next write that ends; `None` where nothing is on its way.
    pub async fn next(&mut self) -> Option<Written> {
        let ended = self.writes.join_next().await?.ok()?;
        Some(self.ended(ended))
    }

    /// A write that has ended already.
    pub fn ended_already(&mut self) -> Option<Written> {
        let ended = self.writes.try_join_next()?.ok()?;
        Some(self.ended(ended))
    }

    fn ended(&mut self, (node, outcome): (String, Result<(), CallError>)) -> Written {
        let on_its_way = self.on_their_way.remove(&node);
        Written {
            outdated: on_its_way.is_some_and(|on_its_way| on_its_way.outdated),
            node,
            outcome,
        }
    }

    /// Removes the object of a Node that is there but no longer a Windows node of ours.
    pub async fn remove(&self, node: &str) -> Result<(), CallError> {
        match deadline::call(
            "delete WindowsNodeStorage",
            self.api.nodes.delete(node, &DeleteParams::default()),
        )
        .await
        {
            Err(error) if !error.is_not_found() => Err(error),
            _ => {
                self.api.forget(node);
                Ok(())
            }
        }
    }
}

struct NodeApi {
    nodes: Api<WindowsNodeStorage>,
    events: EventSink,
    shared: SharedCluster,
}

impl NodeApi {
    /// The object is not there. The watch may have said so before an answer to a write came in, which told of it once more.
    fn forget(&self, node: &str) {
        self.shared
            .update(|cluster| cluster.node_statuses.delete(&node.to_owned()));
    }

    async fn write(&self, decided: &NodeStatus) -> Result<(), CallError> {
        let NodeStatus {
            name,
            uid,
            previous,
            status,
        } = decided;
        if previous.as_ref() == Some(status) {
            return Ok(());
        }
        let object = WindowsNodeStorage {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: name.clone(),
                    uid: uid.clone(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: WindowsNodeStorageSpec {},
            status: Some(status.clone()),
        };
        let what = (
            "create WindowsNodeStorage",
            "write WindowsNodeStorage status",
        );
        let written = apply_status(&self.nodes, &object, previous.is_some(), what)
            .await
            .inspect_err(|error| {
                if error.is_not_found() {
                    self.forget(name);
                }
            })?;
        let reference = written.object_ref(&());
        self.shared.update(|cluster| {
            cluster
                .node_statuses
                .apply(name.clone(), written.status.unwrap_or_default())
        });
        // The kubelet's own events have the node's name as uid, and `kubectl describe node` looks for that.
        let node = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(name.clone()),
            uid: Some(name.clone()),
            ..ObjectReference::default()
        };
        let before = previous
            .as_ref()
            .map_or(&[][..], |status| &status.conditions);
        report_changes(
            &self.events,
            &[&node, &reference],
            before,
            &status.conditions,
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_are_on_their_way_at_once_and_what_is_decided_meanwhile_is_noted() {
        // A server that takes requests and never answers.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let config = kube::Config::new(address.parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let events = EventSink::new(&client, None);
        let mut writer = NodeWriter::new(&client, events, SharedCluster::default());
        let decided = |node: usize, csi_node: bool| NodeStatus {
            name: format!("win-{node}"),
            uid: String::new(),
            previous: Some(WindowsNodeStorageStatus::default()),
            status: WindowsNodeStorageStatus {
                csi_node,
                management: "Managed".to_owned(),
                ..WindowsNodeStorageStatus::default()
            },
        };
        let mut begun = 0;
        while writer.has_room() {
            writer.begin(decided(begun, true));
            begun += 1;
        }
        assert_eq!(begun, CONCURRENT_WRITES);
        let mut held = Vec::new();
        while held.len() < begun {
            // None waits for the end of another.
            let taken = tokio::time::timeout(deadline::CALL / 2, listener.accept()).await;
            held.push(taken.unwrap().unwrap());
        }
        assert!(writer.ended_already().is_none());
        assert!(writer.is_on_its_way(&decided(0, true)));
        assert!(writer.is_on_its_way(&decided(1, false)));
        assert!(writer.is_on_its_way(&decided(1, true)));
        assert!(!writer.is_on_its_way(&decided(begun, true)));
        drop((held, listener));
        let mut outdated = Vec::new();
        while let Some(written) = writer.next().await {
            assert!(written.outcome.is_err(), "nobody has answered");
            if written.outdated {
                outdated.push(written.node);
            }
        }
        assert_eq!(outdated, ["win-1"]);
        assert!(writer.has_room() && !writer.is_on_its_way(&decided(1, false)));
    }
}
