//! A cluster out of its API server, read once.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};

use crate::api::GROUP;
use crate::backoff;
use crate::check::Progress;
use crate::deadline::{self, CallError};
use crate::index::Cluster;
use crate::objects::{Object, Received, absorb, for_each_kind};

/// Objects in one answer.
const PAGE: u32 = 500;
/// How long one answer may take: many objects, over a slow line.
const LIST: Duration = Duration::from_secs(60);
/// How often a list is begun that takes longer than the API server keeps the rest of it, or for which the server is too
/// busy.
const STARTS: u32 = 3;
/// The pause before a busy server is asked again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));

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

/// Reads all kinds. One that may not be read is noted as such, and the verdict says so; any other failure ends it.
pub async fn from_api(
    client: &Client,
    version: String,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
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
        done: 0,
        of,
        objects: 0,
    };
    macro_rules! read {
        ($kind:ty) => {
            reading.kind::<$kind>().await?;
        };
    }
    for_each_kind!(read);
    Ok(reading.cluster)
}

struct Reading<'a> {
    client: &'a Client,
    cluster: Cluster,
    progress: &'a mut (dyn FnMut(Progress<'_>) + Send),
    done: u64,
    of: u64,
    objects: u64,
}

impl Reading<'_> {
    async fn kind<K: Object>(&mut self) -> Result<(), ApiError> {
        let mut starts = 1;
        loop {
            let ended = self.pages::<K>().await;
            let table = K::table(&mut self.cluster);
            match ended {
                Ok(()) => {
                    table.finish();
                }
                Err(error) if error.is_gone() && starts < STARTS => {
                    starts += 1;
                    continue;
                }
                Err(error) if error.is_busy() && starts < STARTS => {
                    tokio::time::sleep(backoff::pause(starts, PAUSES.0, PAUSES.1)).await;
                    starts += 1;
                    continue;
                }
                // A custom resource whose definition is not installed has no objects, so the defaults hold.
                Err(error) if error.is_not_found() && K::group(&()) == GROUP => {
                    table.finish();
                }
                Err(error) if error.is_forbidden() => {
                    table.fail(format!("reading it is forbidden: {}", error.answer()));
                }
                Err(cause) => {
                    let kind = K::kind(&()).into_owned();
                    return Err(ApiError::List { kind, cause });
                }
            }
            self.done += 1;
            return Ok(());
        }
    }

    async fn pages<K: Object>(&mut self) -> Result<(), CallError> {
        let api: Api<Received> = Api::all_with(self.client.clone(), &Received::resource_of::<K>());
        let kind = K::kind(&());
        let mut page = ListParams::default().limit(PAGE);
        page.field_selector = K::field_selector();
        K::table(&mut self.cluster).begin();
        loop {
            (self.progress)(Progress {
                what: &kind,
                done: self.done,
                of: self.of,
                objects: self.objects,
                bytes: None,
            });
            let list = deadline::call_within(LIST, "list objects", api.list(&page)).await?;
            for object in list.items {
                self.objects += 1;
                absorb::<K>(&mut self.cluster, &object);
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}
