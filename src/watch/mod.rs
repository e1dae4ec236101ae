//! Watches that keep the [`index`](crate::index) in step with the cluster.

mod feed;
mod freshness;
mod interruption;
mod proof;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::{Api, Client};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::http::Metrics;
use crate::index::Cluster;
use crate::objects::{KINDS, Scope};
use feed::{Feed, LISTS};
pub use freshness::Freshness;
use freshness::{Progress, Watched};

/// The index, shared between the watches that fill it and those who read it.
#[derive(Clone, Default)]
pub struct SharedCluster {
    cluster: Arc<Mutex<Cluster>>,
    revision: watch::Sender<u64>,
    /// Some kind is to be listed again.
    listings: watch::Sender<u64>,
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
        let was_needed = cluster.pods.needs_relist();
        let changed = change(&mut cluster);
        let is_needed = !was_needed && cluster.pods.needs_relist();
        drop(cluster);
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
        }
        if is_needed {
            self.listings.send_modify(|listing| *listing += 1);
        }
    }
}

/// Starts one watch a kind, of Secrets for the one of that name alone. They run until the set is dropped; none of them ends
/// by itself. Beside them what says, and proves, that they deliver all there is.
#[must_use]
pub fn start(
    client: &Client,
    shared: &SharedCluster,
    secret: &str,
    metrics: &Metrics,
) -> (JoinSet<()>, Freshness) {
    let mut tasks = JoinSet::new();
    let namespace = shared.read().namespace.clone();
    // The lists that are under way.
    let lists = Arc::new(Semaphore::new(LISTS));
    let watched = KINDS.iter().map(|kind| {
        let name = match kind.scope {
            Scope::Named(name) => Some(name),
            _ if kind.is_secret() => Some(secret),
            Scope::Cluster | Scope::OwnNamespace => None,
        };
        let api = match kind.scope {
            Scope::OwnNamespace => Api::namespaced_with(client.clone(), &namespace, &kind.resource),
            Scope::Cluster | Scope::Named(_) => Api::all_with(client.clone(), &kind.resource),
        };
        Arc::new(Watched {
            kind,
            api,
            fields: name.map(|name| format!("metadata.name={name}")),
            progress: Progress::default(),
        })
    });
    let watched: Vec<Arc<Watched>> = watched.collect();
    for watched in &watched {
        let feed = Feed {
            watched: Arc::clone(watched),
            shared: shared.clone(),
            lists: Arc::clone(&lists),
            metrics: metrics.clone(),
            failures: 0,
        };
        tasks.spawn(feed.run());
    }
    (tasks, Freshness::new(&watched))
}
