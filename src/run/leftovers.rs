//! Removes what deleted nodes have left in the cluster.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};

use crate::api::WindowsNodeStorage;
use crate::client::deadline;
use crate::node::Pins;
use crate::run::plan::{Left, LeftOver};
use crate::status::remove_node_status;

/// Removes statuses and pinned host keys of deleted nodes.
pub struct Leftovers {
    nodes: Api<Node>,
    statuses: Api<WindowsNodeStorage>,
    pins: Pins,
}

impl Leftovers {
    /// Creates it.
    pub fn new(client: &Client, pins: Pins) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            statuses: Api::all(client.clone()),
            pins,
        }
    }

    /// Removes what is left, each as long as `is_left` says that it still is. Goes on after a failure, and returns the last.
    pub async fn reconcile(
        &self,
        left: &[Left],
        is_left: impl Fn(&Left) -> bool,
    ) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        for left in left.iter().filter(|left| is_left(left)) {
            let removed = self.remove(left).await;
            outcome = removed.and(outcome);
        }
        outcome
    }

    async fn remove(&self, Left { node, what }: &Left) -> anyhow::Result<()> {
        if *what == LeftOver::Key {
            return Ok(self.pins.remove(node).await?);
        }
        if *what == LeftOver::StatusAndKey {
            let read = deadline::call("read Node", self.nodes.get_metadata_opt(node)).await?;
            if read.is_some() {
                // It is back, or the watch lags behind: the next plan knows more.
                return Ok(());
            }
            self.pins.remove(node).await?;
        }
        remove_node_status(&self.statuses, node).await?;
        if *what == LeftOver::StatusAndKey {
            tracing::info!(
                node,
                "the node was deleted: its host key and its status are deleted"
            );
        }
        Ok(())
    }
}
