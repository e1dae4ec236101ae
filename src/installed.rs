//! Finds where in a cluster the operator is installed.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::deadline::{self, CallError};

/// The name of the operator's Deployment, and its namespace by default.
pub const OPERATOR: &str = "windows-storage-operator";
/// The label that the operator's manifests and its bundle give to the Deployment and its pods. Anybody may call a Deployment
/// as the operator's is called.
pub const SELECTOR: &str = "app.kubernetes.io/name=windows-storage-operator";

/// The namespaces with a Deployment of the operator.
pub async fn namespaces(client: &Client) -> Result<BTreeSet<String>, CallError> {
    let selected = ListParams::default()
        .labels(SELECTOR)
        .fields(&format!("metadata.name={OPERATOR}"));
    let deployments: Api<Deployment> = Api::all(client.clone());
    let listed = deployments.list_metadata(&selected);
    let found = deadline::call("find the operator's Deployment", listed).await?;
    let found = found.items.into_iter();
    let namespaces = found.filter_map(|found| found.metadata.namespace);
    Ok(namespaces.collect())
}
