//! A cluster out of its API server, read once.

use kube::api::ListParams;
use kube::{Api, Client};

use crate::api::GROUP;
use crate::check::Progress;
use crate::deadline::{CallError, Patience};
use crate::index::Cluster;
use crate::listing::{self, Step};
use crate::objects::{Object, Received, absorb, for_each_kind};

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
    /// A list of that kind begins, or begins again.
    fn begin<K: Object>(&mut self);
    /// The judgement goes by this object.
    fn keep<K: Object>(&mut self, object: &Received);
    /// The list has ended. The problem says why it is not all there, or why some of it cannot be read.
    fn end<K: Object>(&mut self, is_complete: bool, problem: Option<&str>);
}

/// Nobody.
impl Keeper for () {
    fn needs_all(&self) -> bool {
        true
    }
    fn begin<K: Object>(&mut self) {}
    fn keep<K: Object>(&mut self, _object: &Received) {}
    fn end<K: Object>(&mut self, _is_complete: bool, _problem: Option<&str>) {}
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
pub async fn from_api_for<S: Keeper>(
    client: &Client,
    version: String,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
    keeper: &mut S,
    patience: &mut Patience,
) -> Result<Cluster, ApiError> {
    let mut of = 0;
    macro_rules! count {
        ($kind:ty) => {
            of += 1;
        };
    }
    for_each_kind!(count);
    let mut reading = Reading {
        client,
        cluster: Cluster {
            api_server_version: Some(version),
            ..Cluster::default()
        },
        progress,
        keeper,
        done: 0,
        of,
        objects: 0,
    };
    macro_rules! read {
        ($kind:ty) => {
            reading.kind::<$kind>(patience).await?;
        };
    }
    for_each_kind!(read);
    Ok(reading.cluster)
}

struct Reading<'a, S> {
    client: &'a Client,
    cluster: Cluster,
    progress: &'a mut (dyn FnMut(Progress<'_>) + Send),
    keeper: &'a mut S,
    done: u64,
    of: u64,
    objects: u64,
}

impl<S: Keeper> Reading<'_, S> {
    async fn kind<K: Object>(&mut self, patience: &mut Patience) -> Result<(), ApiError> {
        let resource = Received::resource_of::<K>();
        let api: Api<Received> = Api::all_with(self.client.clone(), &resource);
        let selected = ListParams {
            field_selector: K::field_selector(),
            ..ListParams::default()
        };
        let mut take = |step| self.take::<K>(step);
        let ended = patience
            .ask(listing::list(&api, &selected, &mut take))
            .await;
        let table = K::table(&mut self.cluster);
        match ended {
            Ok(()) => {
                table.finish();
            }
            // A custom resource whose definition is not installed has no objects, so the defaults hold.
            Err(error) if error.is_not_found() && K::group(&()) == GROUP => {
                table.finish();
            }
            Err(error) if error.is_forbidden() => {
                table.fail(format!("reading it is forbidden: {}", error.answer()));
            }
            Err(cause) if self.keeper.needs_all() => {
                let kind = K::kind(&()).into_owned();
                return Err(ApiError::List { kind, cause });
            }
            Err(cause) => {
                table.fail(format!("it cannot be read: {}", cause.answer()));
            }
        }
        let table = K::table(&mut self.cluster);
        self.keeper.end::<K>(table.is_complete(), table.problem());
        self.done += 1;
        Ok(())
    }

    fn take<K: Object>(&mut self, step: Step) {
        match step {
            Step::Begin => {
                K::table(&mut self.cluster).begin();
                self.keeper.begin::<K>();
            }
            Step::Ask => (self.progress)(Progress {
                what: &K::kind(&()),
                done: self.done,
                of: self.of,
                objects: self.objects,
                bytes: None,
            }),
            Step::Page(objects) => {
                for object in objects {
                    self.objects += 1;
                    absorb::<K>(&mut self.cluster, &object);
                    let key = K::key(kube::Resource::meta(&object));
                    if K::table(&mut self.cluster).get(&key).is_some() {
                        self.keeper.keep::<K>(&object);
                    }
                }
            }
        }
    }
}
