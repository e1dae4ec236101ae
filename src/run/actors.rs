//! The actors: each does its part of the last plan.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use kube::{Api, Client};

use crate::api::WindowsNodeStorage;
use crate::client::Revisions;
use crate::client::deadline::{self, Unwritten};
use crate::gate::Gate;
use crate::http::Metrics;
use crate::node::{Pins, Workers};
use crate::run::judge::SERVICES;
use crate::run::keep::{Board, Plans, keep};
use crate::run::plan::Plan;
use crate::services::ServicesWriter;
use crate::status::{EventSink, NodeWriter, SettingsWriter};

/// What the actors have in common.
pub struct Actors<'a> {
    /// The client.
    pub client: &'a Client,
    /// The operator's own namespace.
    pub namespace: &'a str,
    /// What is planned.
    pub plans: Plans,
    /// What the actors fail at.
    pub board: &'a Board,
    /// Counts failures.
    pub metrics: &'a Metrics,
    /// Takes events.
    pub events: EventSink,
    /// The pinned host keys.
    pub pins: Pins,
    /// How far what was read has come.
    pub revisions: &'a Revisions,
}

impl Actors<'_> {
    async fn keep<E: Display>(
        &self,
        actor: &'static str,
        act: impl AsyncFnMut(&Plan) -> Result<Option<Instant>, E>,
    ) -> Infallible {
        let to = (self.board, self.metrics);
        keep(actor, self.plans.clone(), to, act).await
    }

    fn last(&self) -> Option<Arc<Plan>> {
        self.plans.borrow().clone()
    }

    /// Keeps the `OperatorCondition`.
    pub async fn gate(&self, mut gate: Gate) -> Infallible {
        self.keep("OperatorCondition", async |plan| {
            let opens = || {
                let last = self.last();
                last.is_some_and(|last| last.judged.allows_what_was_decided_on(&plan.judged))
            };
            let next = gate.reconcile(&plan.judged, opens).await;
            Ok::<_, Infallible>(Some(next))
        })
        .await
    }

    /// Keeps the entry in `windows-services`.
    pub async fn services(&self) -> Infallible {
        let mut writer = ServicesWriter::new(self.client, self.namespace);
        self.keep(SERVICES, async |plan| {
            let (read_up_to, entry) = (plan.config_maps_version, &plan.services);
            if !plan.knows_configuration {
                return Ok(None);
            }
            writer.reconcile(read_up_to, entry).await
        })
        .await
    }

    /// Keeps the status of `WindowsStorage`.
    pub async fn settings(&self) -> Infallible {
        let mut writer =
            SettingsWriter::new(self.client, self.events.clone(), self.revisions.clone());
        self.keep("WindowsStorage", async |plan| {
            if let Some((previous, status)) = &plan.settings {
                let read_up_to = plan.settings_version;
                writer
                    .reconcile(read_up_to, previous.as_ref(), status)
                    .await?;
            }
            Ok::<_, Unwritten>(None)
        })
        .await
    }

    /// Keeps the statuses of nodes.
    pub async fn statuses(&self) -> Infallible {
        let (events, metrics) = (self.events.clone(), self.metrics.clone());
        let mut writer = NodeWriter::new(self.client, events, metrics);
        let latest = |node: &str| self.last()?.statuses.by_name.get(node).cloned();
        self.keep("statuses", async |plan| {
            let failed = writer.reconcile(&plan.statuses, latest).await;
            let (next, problem) = failed.unzip();
            self.board.set("WindowsNodeStorage", problem);
            Ok::<_, Infallible>(next)
        })
        .await
    }

    /// Gives each node its plan, for as long as no task of a node ends. Returns the node whose task does.
    pub async fn nodes(&self, mut workers: Workers) -> String {
        let mut plans = self.plans.clone();
        loop {
            let plan = plans.borrow_and_update().clone();
            if let Some(plan) = plan.filter(|plan| plan.knows_configuration) {
                workers.assign(&plan.nodes, &plan.allowed);
            }
            tokio::select! {
                Ok(()) = plans.changed() => {}
                node = workers.ended() => return node,
            }
        }
    }

    /// Removes what deleted nodes have left, each as long as the last plan says so. Goes on after a failure, and tells the last.
    pub async fn leftovers(&self) -> Infallible {
        self.keep("DepartedNode", async |plan| {
            let mut outcome = Ok(None);
            for node in &plan.left_keys | &plan.left_statuses {
                if let Some(last) = self.last() {
                    outcome = self.forget(&node, &last).await.and(outcome);
                }
            }
            outcome
        })
        .await
    }

    /// Removes the host key and the status of a node, the key first: only the status may tell that there is one.
    async fn forget(&self, node: &str, plan: &Plan) -> anyhow::Result<()> {
        if plan.left_keys.contains(node) {
            // Where everything is removed, the node is there and planned.
            if !plan.nodes.contains_key(node) {
                let nodes: Api<Node> = Api::all(self.client.clone());
                let read = deadline::call("read Node", nodes.get_metadata_opt(node)).await?;
                if read.is_some() {
                    // It is back, or the watch lags behind: the next plan knows more.
                    return Ok(());
                }
            }
            self.pins.remove(node).await?;
            tracing::info!(node, "its host key is removed");
        }
        if plan.left_statuses.contains(node) {
            let statuses: Api<WindowsNodeStorage> = Api::all(self.client.clone());
            let parameters = DeleteParams::default();
            let deleting = statuses.delete(node, &parameters);
            match deadline::call("delete WindowsNodeStorage", deleting).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use serde_json::json;
    use tokio::sync::watch;

    use super::*;
    use crate::client::answering::{answering, failure};

    /// Forgets win-1 with such a plan, where its Node is there or not. Returns what was changed in the cluster.
    async fn changed(is_there: bool, keys: &[&str], statuses: &[&str]) -> Vec<String> {
        let changed = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&changed);
        let client = answering(move |method, path, _| {
            let metadata = json!({"name": "win-1", "resourceVersion": "1"});
            let object = json!({"metadata": metadata, "data": {"win-1": "ssh-ed25519 AAAA"}});
            if method != http::Method::GET {
                let (_, name) = path.rsplit_once('/').unwrap();
                seen.lock().unwrap().push(format!("{method} {name}"));
            } else if path == "/api/v1/nodes/win-1" && !is_there {
                let mut none = failure(404);
                none.1["reason"] = json!("NotFound");
                return none;
            }
            (200, object)
        });
        let names = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let plan = Plan {
            left_keys: names(keys),
            left_statuses: names(statuses),
            ..Plan::of_test()
        };
        let config_maps = Api::namespaced(client.clone(), "ns");
        let actors = Actors {
            client: &client,
            namespace: "ns",
            plans: watch::Sender::new(None).subscribe(),
            board: &Board::default(),
            metrics: &Metrics::default(),
            events: EventSink::new(&client, None),
            pins: Pins::new(config_maps, "ns".to_owned()),
            revisions: &Revisions::default(),
        };
        actors.forget("win-1", &plan).await.unwrap();
        let changed = changed.lock().unwrap();
        changed.clone()
    }

    #[tokio::test]
    async fn a_host_key_goes_before_its_status_and_only_where_the_node_is_really_gone() {
        let pins = "PATCH windows-storage-host-keys";
        let both = changed(false, &["win-1"], &["win-1"]).await;
        assert_eq!(both, [pins, "DELETE win-1"]);
        let back = changed(true, &["win-1"], &["win-1"]).await;
        assert!(back.is_empty(), "{back:?}");
        // An ignored node is there.
        assert_eq!(changed(true, &[], &["win-1"]).await, ["DELETE win-1"]);
        assert!(changed(false, &["other"], &[]).await.is_empty());
    }
}
