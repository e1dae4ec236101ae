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
