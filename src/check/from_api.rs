//! A cluster out of its API server, read once.

use kube::api::ListParams;
use kube::{Api, Client};

use crate::check::Progress;
use crate::deadline::{CallError, Patience};
use crate::index::Cluster;
use crate::listing::{self, Step};
use crate::objects::{Kind, Received, Scope, cluster_kinds};

/// Why the cluster could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A list failed for a reason other than a missing right.
    #[error("cannot read objects of kind {kind}: {cause}")]
    List {
        /// The kind.
        kind: String,
        /// Why.
        cause: CallError,
    },
}

/// Who keeps what the judgement rests on, beside the judgement.
pub trait Keeper: Send {
    /// Whether a kind that cannot be read, for whatever reason, ends it all. One that may not be read never does.
    fn needs_all(&self) -> bool;
    /// A list begins, or begins again.
    fn begin(&mut self);
    /// The judgement goes by this object.
    fn keep(&mut self, kind: &Kind, object: &Received);
    /// The list has ended. The problem says why it is not all there, or why some of it cannot be read.
    fn end(&mut self, kind: &Kind, is_complete: bool, problem: Option<&str>);
}

/// Nobody.
impl Keeper for () {
    fn needs_all(&self) -> bool {
        true
    }
    fn begin(&mut self) {}
    fn keep(&mut self, _kind: &Kind, _object: &Received) {}
    fn end(&mut self, _kind: &Kind, _is_complete: bool, _problem: Option<&str>) {}
}

/// Reads all kinds. One that may not be read is noted as such, and the verdict says so; any other failure ends it.
pub async fn from_api(
    client: &Client,
    version: String,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Cluster, ApiError> {
    from_api_for(client, version, progress, &mut (), &mut Patience::endless()).await
}

/// The same, for somebody who keeps the objects and waits no longer than that.
pub async fn from_api_for(
    client: &Client,
    version: String,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
    keeper: &mut dyn Keeper,
    patience: &mut Patience,
) -> Result<Cluster, ApiError> {
    let mut reading = Reading {
        client,
        cluster: Cluster {
            api_server_version: Some(version),
            ..Cluster::default()
        },
        progress,
        keeper,
        done: 0,
        of: cluster_kinds().count() as u64,
        objects: 0,
    };
    for kind in cluster_kinds() {
        reading.kind(kind, patience).await?;
    }
    Ok(reading.cluster)
}

struct Reading<'a> {
    client: &'a Client,
    cluster: Cluster,
    progress: &'a mut (dyn FnMut(Progress<'_>) + Send),
    keeper: &'a mut dyn Keeper,
    done: u64,
    of: u64,
    objects: u64,
}

impl Reading<'_> {
    async fn kind(&mut self, kind: &Kind, patience: &mut Patience) -> Result<(), ApiError> {
        let api: Api<Received> = Api::all_with(self.client.clone(), &kind.resource);
        let selected = match kind.scope {
            Scope::Named(name) => ListParams::default().fields(&format!("metadata.name={name}")),
            Scope::Cluster | Scope::OwnNamespace => ListParams::default(),
        };
        let mut take = |step| self.take(kind, step);
        let ended = patience
            .ask(listing::list(&api, &selected, &mut take))
            .await;
        let table = kind.table_mut(&mut self.cluster);
        match ended {
            Ok(()) => {
                table.finish();
            }
            // A custom resource whose definition is not installed has no objects, so the defaults hold.
            Err(error) if error.is_not_found() && kind.is_own() => {
                table.finish();
            }
            Err(error) if error.is_forbidden() => {
                table.fail(format!("reading it is forbidden: {}", error.answer()));
            }
            Err(cause) if self.keeper.needs_all() => {
                let kind = kind.name().to_owned();
                return Err(ApiError::List { kind, cause });
            }
            Err(cause) => {
                table.fail(format!("it cannot be read: {}", cause.answer()));
            }
        }
        self.keeper.end(kind, table.is_complete(), table.problem());
        self.done += 1;
        Ok(())
    }

    fn take(&mut self, kind: &Kind, step: Step) {
        match step {
            Step::Begin => {
                kind.table_mut(&mut self.cluster).begin();
                self.keeper.begin();
            }
            Step::Ask => (self.progress)(Progress {
                what: kind.name(),
                done: self.done,
                of: self.of,
                objects: self.objects,
                bytes: None,
            }),
            Step::Page(objects) => {
                for object in objects {
                    self.objects += 1;
                    kind.absorb(&mut self.cluster, &object);
                    let meta = kube::Resource::meta(&object);
                    if kind.table(&self.cluster).has(meta) {
                        self.keeper.keep(kind, &object);
                    }
                }
            }
        }
    }
}
