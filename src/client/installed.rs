//! Finds where in a cluster the operator is installed.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client};

use crate::client::deadline::{self, CallError};

/// The name of the operator's Deployment, and of its default namespace.
pub const OPERATOR: &str = "windows-storage-operator";
/// The label that the operator's manifests and its bundle set on the Deployment and its pods. The name alone is not enough:
/// any Deployment may have it.
pub const SELECTOR: &str = "app.kubernetes.io/name=windows-storage-operator";

/// Returns the namespaces with a Deployment of the operator.
pub async fn namespaces(client: &Client) -> Result<BTreeSet<String>, CallError> {
    let found = deployments(client).await?.into_iter();
    let namespaces = found.filter_map(|deployment| deployment.namespace);
    Ok(namespaces.collect())
}

/// Returns the namespace of an operator that was installed before the one in `namespace`, if there is one. An operator
/// without a Deployment counts as the last.
pub async fn earlier(client: &Client, namespace: &str) -> Result<Option<String>, CallError> {
    let (own, others): (Vec<_>, Vec<_>) = (deployments(client).await?.into_iter())
        .map(|found| {
            let created = found.creation_timestamp.map(|created| created.0);
            (created, found.namespace.unwrap_or_default())
        })
        .partition(|(_, found)| found == namespace);
    let mut earlier = others.into_iter();
    let earlier = earlier.find(|other| own.first().is_none_or(|own| other < own));
    Ok(earlier.map(|(_, namespace)| namespace))
}

async fn deployments(client: &Client) -> Result<Vec<ObjectMeta>, CallError> {
    let selected = ListParams::default()
        .labels(SELECTOR)
        .fields(&format!("metadata.name={OPERATOR}"));
    let deployments: Api<Deployment> = Api::all(client.clone());
    let listed = deployments.list_metadata(&selected);
    let found = deadline::call("find the operator's Deployment", listed).await?;
    Ok(found
        .items
        .into_iter()
        .map(|found| found.metadata)
        .collect())
}
