//! Reads the cluster by watches, and Secrets by polling, and tells the owner of the [`index`](crate::index) what they bring.

mod failure;
mod feed;
mod lists;
mod news;
mod secrets;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use kube::{Api, Client};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::client::Revisions;
use crate::http::Metrics;
use crate::objects::{KINDS, Scope};
use feed::{Failures, Feed, LISTS};
pub use lists::{Lists, Wish};
pub use news::News;
pub use secrets::read as read_secret;

/// How much news waits for the owner of the index. An object may have more than a megabyte.
const UNREAD: usize = 16;

/// The watches of a cluster.
pub struct Watches {
    /// One feed per kind. They run until this is dropped.
    pub feeds: JoinSet<Infallible>,
    /// What they bring.
    pub news: mpsc::Receiver<News>,
    /// Asks for new lists.
    pub lists: Lists,
    /// The names of the Secrets to read.
    pub secrets: watch::Sender<BTreeSet<String>>,
}

/// Starts one feed per kind, and one for Secrets, for an operator in that namespace.
pub fn start(
    client: &Client,
    namespace: &str,
    metrics: &Metrics,
    revisions: &Revisions,
) -> Watches {
    let mut feeds = JoinSet::new();
    let (sender, news) = mpsc::channel(UNREAD);
    // Limits the lists that run at the same time.
    let at_once = Arc::new(Semaphore::new(LISTS));
    let lists = Lists::new();
    for kind in KINDS.iter() {
        let api = match kind.scope {
            Scope::OwnNamespace => Api::namespaced_with(client.clone(), namespace, &kind.resource),
            Scope::Cluster | Scope::Named(_) => Api::all_with(client.clone(), &kind.resource),
        };
        let feed = Feed {
            kind,
            api,
            news: sender.clone(),
            lists: Arc::clone(&at_once),
            wanted: lists.subscribe(),
            revisions: revisions.clone(),
            metrics: metrics.clone(),
            failures: Failures::default(),
        };
        feeds.spawn(feed.run());
    }
    let secrets = watch::Sender::default();
    let api = Api::namespaced(client.clone(), namespace);
    let reading = secrets::follow(api, secrets.subscribe(), sender);
    feeds.spawn(reading);
    Watches {
        feeds,
        news,
        lists,
        secrets,
    }
}
