//! Removes what deleted nodes have left in the cluster.

use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use kube::{Api, Client};

use crate::api::WindowsNodeStorage;
use crate::client::deadline;
use crate::node::Pins;
use crate::run::plan::{Left, LeftOver};

/// Removes a status, a pinned host key, or both.
pub async fn remove(client: &Client, pins: &Pins, left: &Left) -> anyhow::Result<()> {
    let Left { node, what } = left;
    if *what == LeftOver::Key {
        return Ok(pins.remove(node).await?);
    }
    if *what == LeftOver::StatusAndKey {
        let nodes: Api<Node> = Api::all(client.clone());
        let read = deadline::call("read Node", nodes.get_metadata_opt(node)).await?;
        if read.is_some() {
            // It is back, or the watch lags behind: the next plan knows more.
            return Ok(());
        }
        pins.remove(node).await?;
    }
    let statuses: Api<WindowsNodeStorage> = Api::all(client.clone());
    let parameters = DeleteParams::default();
    let deleting = statuses.delete(node, &parameters);
    match deadline::call("delete WindowsNodeStorage", deleting).await {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    if *what == LeftOver::StatusAndKey {
        tracing::info!(
            node,
            "the node was deleted: its host key and its status are deleted"
        );
    }
    Ok(())
}
