//! Watches that keep the [`index`](crate::index) as the cluster is.

mod kind;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1 as core;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::index::Cluster;
use crate::objects::{Object, Received, for_each_kind};
use crate::{backoff, deadline};
use kind::Kind;

/// The first pause after a watch was interrupted.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a list waits for another kind that makes it smaller.
const NODES_FIRST: Duration = Duration::from_secs(10);

/// The index, shared between the watches that fill it and those who read it.
#[derive(Clone)]
pub struct SharedCluster {
    cluster: Arc<Mutex<Cluster>>,
    revision: watch::Sender<u64>,
    /// Some kind is to be listed anew.
    listings: watch::Sender<u64>,
}

impl Default for SharedCluster {
    fn default() -> Self {
        Self {
            cluster: Arc::default(),
            revision: watch::Sender::new(0),
            listings: watch::Sender::new(0),
        }
    }
}

impl SharedCluster {
    /// An empty index of a cluster in which the operator has that namespace.
    #[must_use]
    pub fn of_namespace(namespace: &str) -> Self {
        let shared = Self::default();
        namespace.clone_into(&mut shared.read().namespace);
        shared
    }

    /// The index, for a moment: never hold this over an await.
    pub fn read(&self) -> MutexGuard<'_, Cluster> {
        // The index is plain data whose every change is one call: a panic elsewhere leaves it usable.
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whenever something in the index has changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Changes the index and wakes those who wait for changes if `change` says that there was one.
    pub fn update(&self, change: impl FnOnce(&mut Cluster) -> bool) {
        let mut cluster = self.read();
        let changed = change(&mut cluster);
        let pods_wanted = cluster.pods.is_wanted_anew();
        drop(cluster);
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
        }
        if pods_wanted {
            self.listings.send_modify(|listing| *listing += 1);
        }
    }
}

/// The objects of the operator's own namespace and how to select them.
#[derive(Clone, Debug)]
pub struct OwnNamespace {
    /// The namespace.
    pub namespace: String,
    /// The Secret with the SSH key; no other Secret is read.
    pub secret: String,
}

/// Starts one watch a kind. They run until the set is dropped; none of them ends by itself.
#[must_use]
pub fn start(client: &Client, shared: &SharedCluster, own: &OwnNamespace) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let all = watcher::Config::default().page_size(500);
    let secret = all.clone().fields(&format!("metadata.name={}", own.secret));

    macro_rules! watch {
        ($kind:ty) => {
            let selected = match <$kind>::field_selector() {
                Some(selector) => all.clone().fields(&selector),
                None => all.clone(),
            };
            let resource = Received::resource_of::<$kind>();
            let api = Api::all_with(client.clone(), &resource);
            tasks.spawn(feed(Kind::of::<$kind>(), api, selected, shared.clone()));
        };
    }
    for_each_kind!(watch);
    macro_rules! watch_own {
        ($kind:ty, $selected:expr) => {
            let resource = Received::resource_of::<$kind>();
            let api = Api::namespaced_with(client.clone(), &own.namespace, &resource);
            tasks.spawn(feed(Kind::of::<$kind>(), api, $selected, shared.clone()));
        };
    }
    watch_own!(core::ConfigMap, all);
    watch_own!(core::Secret, secret);
    tasks
}

async fn feed(kind: Kind, api: Api<Received>, config: watcher::Config, shared: SharedCluster) {
    let mut failures = 0;
    if kind.follows_nodes {
        // Without them it only takes more memory.
        let _ = tokio::time::timeout(NODES_FIRST, nodes_are_known(&shared)).await;
    }
    loop {
        let Some(error) = until_interrupted(&kind, &api, &config, &mut failures, &shared).await
        else {
            // Not at every moment, however often nodes change.
            tokio::time::sleep(backoff::pause(1, FIRST_PAUSE, LONGEST_PAUSE)).await;
            continue;
        };
        failures += 1;
        let pause = backoff::pause(failures, FIRST_PAUSE, LONGEST_PAUSE);
        let problem = explain(&error);
        tracing::warn!(
            kind = kind.name,
            retry_seconds = pause.as_secs_f32(),
            "watch interrupted: {problem}"
        );
        shared.update(|cluster| {
            // A custom resource whose definition was never installed has no objects, so the defaults hold.
            // One that was there once keeps what was read: nothing follows from its being away.
            if kind.is_own && is_not_found(&error) && (kind.is_empty)(cluster) {
                return (kind.finish)(cluster);
            }
            (kind.fail)(cluster, problem)
        });
        tokio::time::sleep(pause).await;
    }
}

async fn nodes_are_known(shared: &SharedCluster) {
    let mut changes = shared.changes();
    while !shared.read().nodes.is_complete() {
        // The sender is in what is shared.
        let _ = changes.changed().await;
    }
}

/// Feeds the table until something goes wrong, or until a new list is wanted. After that the kind is listed anew: only a
/// complete list shows that nothing was missed. The pauses are the caller's, because kube's own start over with each list
/// that is refused.
async fn until_interrupted(
    kind: &Kind,
    api: &Api<Received>,
    config: &watcher::Config,
    failures: &mut u32,
    shared: &SharedCluster,
) -> Option<watcher::Error> {
    let mut listings = shared.listings.subscribe();
    // What was wanted before is what comes now.
    (kind.take_wanted_anew)(&mut shared.read());
    let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = listings.changed() => {
                if (kind.take_wanted_anew)(&mut shared.read()) {
                    return None;
                }
                continue;
            }
        };
        match event {
            Some(Ok(event)) => {
                if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                    *failures = 0;
                }
                shared.update(|cluster| kind.take_in(cluster, &event));
            }
            Some(Err(error)) => return Some(error),
            // A watcher has no end; one that had is the same as one without a resource version.
            None => return Some(watcher::Error::NoResourceVersion),
        }
    }
}

fn status_of(error: &watcher::Error) -> Option<&kube::core::Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

fn is_not_found(error: &watcher::Error) -> bool {
    status_of(error).is_some_and(|status| status.code == 404)
}

fn explain(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => match status_of(error) {
            Some(status) if status.code == 403 => {
                format!("reading it is forbidden: {}", status.message)
            }
            _ => deadline::plain(cause),
        },
        watcher::Error::WatchError(status) => status.message.clone(),
        other @ watcher::Error::NoResourceVersion => other.to_string(),
    }
}
