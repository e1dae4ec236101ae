//! Reads a cluster once from its API server.

use std::time::Instant;

use kube::api::ListParams;
use kube::core::ApiResource;
use kube::{Api, Client};

use crate::check::Progress;
use crate::client::deadline::{Budget, CallError};
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

/// Progress while a cluster is read.
#[derive(Debug)]
pub enum Read<'a> {
    /// The list of a kind begins, or restarts.
    Begin,
    /// A request is sent to the API server.
    Ask(Progress<'a>),
    /// A page of objects was read; contains those that the assessment uses.
    Page(&'a ApiResource, &'a [Received]),
    /// The list has ended.
    End {
        /// The kind.
        resource: &'a ApiResource,
        /// Whether the list was read completely.
        is_complete: bool,
        /// Why the list is incomplete, or why some objects cannot be decoded.
        problem: Option<&'a str>,
    },
}

/// Reads all kinds. A kind that is forbidden or not served is recorded, and the verdict mentions it. Any other failure is
/// an error.
pub async fn from_api(
    client: &Client,
    version: String,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Cluster, ApiError> {
    let mut report = |read: Read<'_>| {
        if let Read::Ask(asked) = read {
            progress(asked);
        }
    };
    read(client, version, None, &mut report).await
}

/// Reads all kinds and reports progress. With a budget, every failure of a kind is only recorded.
pub async fn read(
    client: &Client,
    version: String,
    mut budget: Option<&mut Budget>,
    report: &mut (dyn FnMut(Read<'_>) + Send),
) -> Result<Cluster, ApiError> {
    let mut reading = Reading {
        client,
        cluster: Cluster {
            api_server_version: Some(version),
            ..Cluster::default()
        },
        report,
        done: 0,
        of: cluster_kinds().count() as u64,
        objects: 0,
    };
    for kind in cluster_kinds() {
        reading.kind(kind, budget.as_deref_mut()).await?;
    }
    Ok(reading.cluster)
}

struct Reading<'a> {
    client: &'a Client,
    cluster: Cluster,
    report: &'a mut (dyn FnMut(Read<'_>) + Send),
    done: u64,
    of: u64,
    objects: u64,
}

impl Reading<'_> {
    async fn kind(&mut self, kind: &Kind, budget: Option<&mut Budget>) -> Result<(), ApiError> {
        let api: Api<Received> = Api::all_with(self.client.clone(), &kind.resource);
        let selected = match kind.scope {
            Scope::Named(name) => ListParams::default().fields(&format!("metadata.name={name}")),
            Scope::Cluster | Scope::OwnNamespace => ListParams::default(),
        };
        let mut take = |step| self.take(kind, step);
        let needs_all = budget.is_none();
        let listing = listing::list(&api, &selected, &mut take);
        let ended = match budget {
            Some(budget) => budget.ask(listing).await,
            None => listing.await,
        };
        let problem = match ended {
            Ok(()) => None,
            // A custom resource without a CRD has no objects, so the defaults apply.
            Err(error) if error.is_not_found() && kind.is_own() => None,
            Err(error) if error.is_forbidden() => Some(forbidden::to_user(&error.answer())),
            Err(error) if error.is_not_found() => Some(format!(
                "the API server does not serve it: {}",
                error.answer()
            )),
            Err(cause) if needs_all => {
                let kind = kind.name().to_owned();
                return Err(ApiError { kind, cause });
            }
            Err(cause) => Some(format!("it cannot be read: {}", cause.answer())),
        };
        let table = kind.table_mut(&mut self.cluster);
        match problem {
            Some(problem) => drop(table.fail(problem)),
            None => table.finish(Instant::now()),
        }
        (self.report)(Read::End {
            resource: &kind.resource,
            is_complete: table.is_complete(),
            problem: table.problem(),
        });
        self.done += 1;
        Ok(())
    }

    fn take(&mut self, kind: &Kind, step: Step) {
        match step {
            Step::Begin => {
                kind.table_mut(&mut self.cluster).begin(Instant::now());
                (self.report)(Read::Begin);
            }
            Step::Ask => (self.report)(Read::Ask(Progress {
                what: kind.name(),
                done: self.done,
                of: self.of,
                objects: self.objects,
                bytes: None,
            })),
            Step::Page(mut page) => {
                self.objects += page.len() as u64;
                page.retain(|object| {
                    kind.absorb(&mut self.cluster, object);
                    let meta = kube::Resource::meta(object);
                    kind.table(&self.cluster).has(meta)
                });
                (self.report)(Read::Page(&kind.resource, &page));
            }
        }
    }
}
