//! Reads a cluster once from its API server.

use kube::api::ListParams;
use kube::{Api, Client};

use crate::check::Progress;
use crate::client::deadline::CallError;
use crate::client::forbidden;
use crate::client::listing::{self, Step};
use crate::index::Cluster;
use crate::objects::{Kind, Received, Scope, cluster_kinds};

/// The cluster could not be read: a list failed, and not because of a missing permission or a missing kind.
#[derive(Debug, thiserror::Error)]
#[error("cannot read objects of kind {kind}: {cause}")]
pub struct ApiError {
    /// The kind.
    kind: String,
    /// The error.
    cause: CallError,
}

/// Reads all kinds. A kind that is forbidden or not served is recorded, and the verdict mentions it. Any other failure is
/// an error.
pub async fn from_api(
    client: &Client,
    version: String,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Cluster, ApiError> {
    let mut cluster = Cluster {
        api_server_version: Some(version),
        ..Cluster::default()
    };
    let of = cluster_kinds().count() as u64;
    let mut objects = 0;
    for (done, kind) in (0..).zip(cluster_kinds()) {
        let mut take = |step: &Step| match step {
            Step::Begin => {}
            Step::Ask => progress(Progress {
                what: kind.name(),
                done,
                of,
                objects,
                bytes: None,
            }),
            Step::Page(page) => objects += page.len() as u64,
        };
        let ended = list(client, kind, &mut cluster, &mut take).await;
        conclude(kind, &mut cluster, &ended);
        if let Err(cause) = ended
            && !cause.is_forbidden()
            && !cause.is_not_found()
        {
            let kind = kind.name().to_owned();
            return Err(ApiError { kind, cause });
        }
    }
    Ok(cluster)
}

/// Lists a kind into the cluster, and reports each step, with those objects that the assessment uses. [`conclude`] comes
/// after it.
pub async fn list(
    client: &Client,
    kind: &Kind,
    cluster: &mut Cluster,
    report: &mut (dyn FnMut(&Step) + Send),
) -> Result<(), CallError> {
    let api: Api<Received> = Api::all_with(client.clone(), &kind.resource);
    let selected = match kind.scope {
        Scope::Named(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        Scope::Cluster | Scope::OwnNamespace => ListParams::default(),
    };
    let mut take = |mut step: Step| {
        match &mut step {
            Step::Begin => kind.table_mut(cluster).begin(),
            Step::Ask => {}
            Step::Page(page) => page.retain(|object| {
                kind.absorb(cluster, object);
                kind.table(cluster).has(kube::Resource::meta(object))
            }),
        }
        report(&step);
    };
    listing::list(&api, &selected, &mut take).await
}

/// Records that the list of a kind has ended, or why it could not be read.
pub fn conclude(kind: &Kind, cluster: &mut Cluster, ended: &Result<(), CallError>) {
    let table = kind.table_mut(cluster);
    let problem = match ended {
        Ok(()) => return table.finish(),
        // A custom resource without a CRD has no objects, so the defaults apply.
        Err(error) if error.is_not_found() && kind.is_own() => return table.finish(),
        Err(error) if error.is_forbidden() => forbidden::to_user(&error.answer()),
        Err(error) if error.is_not_found() => {
            format!("the API server does not serve it: {}", error.answer())
        }
        Err(error) => format!("it cannot be read: {}", error.answer()),
    };
    table.fail(problem);
}
