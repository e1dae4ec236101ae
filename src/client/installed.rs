//! Finds where in a cluster the operator is installed.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};

use crate::api::WindowsNodeStorage;
use crate::client::deadline::{self, CallError};
use crate::client::review::is_allowed;

/// The name of the operator's Deployment, and of its default namespace.
pub const OPERATOR: &str = "windows-storage-operator";
/// The label that the operator's manifests and its bundle set on the Deployment and its pods. The name alone is not enough:
/// any Deployment may have it.
pub const SELECTOR: &str = "app.kubernetes.io/name=windows-storage-operator";

/// Returns the namespaces with a Deployment of the operator.
pub async fn namespaces(client: &Client) -> Result<BTreeSet<String>, CallError> {
    let found = deployments(client).await?.into_iter();
    let namespaces = found.filter_map(|deployment| deployment.metadata.namespace);
    Ok(namespaces.collect())
}

/// Returns the namespace of an operator that was installed before the one in `namespace`, if there is one. An operator
/// without a Deployment counts as the last.
pub async fn earlier(client: &Client, namespace: &str) -> Result<Option<String>, CallError> {
    let key = |found: &Deployment| {
        let created = found.creation_timestamp().map(|created| created.0);
        (created, found.namespace().unwrap_or_default())
    };
    let found = deployments(client).await?;
    let own = found.iter().map(key).find(|(_, found)| found == namespace);
    for other in &found {
        let (created, of) = key(other);
        let is_earlier = own
            .as_ref()
            .is_none_or(|own| (&created, &of) < (&own.0, &own.1));
        if of != namespace && is_earlier && is_operator(client, &of, other).await? {
            return Ok(Some(of));
        }
    }
    Ok(None)
}

async fn deployments(client: &Client) -> Result<Vec<Deployment>, CallError> {
    let selected = ListParams::default()
        .labels(SELECTOR)
        .fields(&format!("metadata.name={OPERATOR}"));
    let deployments: Api<Deployment> = Api::all(client.clone());
    let listed = deadline::call(
        "find the operator's Deployment",
        deployments.list(&selected),
    );
    Ok(listed.await?.items)
}

/// Returns whether the pods of a Deployment may write what only the operator writes. Anybody with a namespace can make one of
/// its name, and must not stop the operator by that.
async fn is_operator(
    client: &Client,
    namespace: &str,
    deployment: &Deployment,
) -> Result<bool, CallError> {
    let pod = deployment.spec.as_ref();
    let pod = pod.and_then(|spec| spec.template.spec.as_ref());
    let account = pod.and_then(|pod| pod.service_account_name.as_deref());
    let account = account.unwrap_or("default");
    let spec = SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{account}")),
        groups: Some(vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ]),
        resource_attributes: Some(ResourceAttributes {
            verb: Some("patch".to_owned()),
            group: Some(WindowsNodeStorage::group(&()).into_owned()),
            resource: Some(WindowsNodeStorage::plural(&()).into_owned()),
            subresource: Some("status".to_owned()),
            ..ResourceAttributes::default()
        }),
        ..SubjectAccessReviewSpec::default()
    };
    is_allowed(client, spec).await
}
