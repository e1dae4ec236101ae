//! Keeps the [`index`](crate::index) in sync with the cluster through watches.

mod failure;
mod feed;
mod lists;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::{Api, Client};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::client::{Revisions, WentBack};
use crate::http::Metrics;
use crate::index::Cluster;
use crate::objects::{KINDS, Scope};
use feed::{Failures, Feed, LISTS};
pub use lists::Lists;

/// The index, shared between the watches that fill it and its readers.
#[derive(Clone, Default)]
pub struct SharedCluster {
    cluster: Arc<Mutex<Cluster>>,
    revision: watch::Sender<u64>,
}

impl SharedCluster {
    /// Creates an empty index of a cluster in which the operator is in that namespace.
    #[must_use]
    pub fn of_namespace(namespace: &str) -> Self {
        let shared = Self::default();
        namespace.clone_into(&mut shared.read().namespace);
        shared
    }

    /// Locks the index briefly: never hold this over an await.
    pub fn read(&self) -> MutexGuard<'_, Cluster> {
        // The index is plain data, and every change is one call, so a panic elsewhere leaves it usable.
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that is notified whenever the index changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Changes the index, and notifies the receivers if `change` returns true.
    pub fn update(&self, change: impl FnOnce(&mut Cluster) -> bool) {
        let changed = change(&mut self.read());
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
        }
    }
}

/// Starts one feed per kind; for Secrets only of the one with that name. They run until the set is dropped, or the store
/// turns out to be another one. Also returns [`Lists`], which asks for new lists.
#[must_use]
pub fn start(
    client: &Client,
    shared: &SharedCluster,
    secret: &str,
    metrics: &Metrics,
    revisions: &Revisions,
) -> (JoinSet<WentBack>, Lists) {
    let mut tasks = JoinSet::new();
    let namespace = shared.read().namespace.clone();
    // Limits the lists that run at the same time.
    let at_once = Arc::new(Semaphore::new(LISTS));
    let lists = Lists::new();
    for kind in KINDS.iter() {
        let name = match kind.scope {
            Scope::Named(name) => Some(name),
            _ if kind.is_secret() => Some(secret),
            Scope::Cluster | Scope::OwnNamespace => None,
        };
        let api = match kind.scope {
            Scope::OwnNamespace => Api::namespaced_with(client.clone(), &namespace, &kind.resource),
            Scope::Cluster | Scope::Named(_) => Api::all_with(client.clone(), &kind.resource),
        };
        let feed = Feed {
            kind,
            api,
            fields: name.map(|name| format!("metadata.name={name}")),
            shared: shared.clone(),
            lists: Arc::clone(&at_once),
            wanted: lists.subscribe(),
            revisions: revisions.clone(),
            metrics: metrics.clone(),
            failures: Failures::default(),
        };
        tasks.spawn(feed.run());
    }
    (tasks, lists)
}
