//! Watches that keep the [`index`](crate::index) as the cluster is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1 as core;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::api::GROUP;
use crate::index::Cluster;
use crate::objects::{Object, absorb, for_each_kind};
use crate::{backoff, deadline};

/// The first pause after a watch was interrupted.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long the API server keeps up a watch before it ends it, in seconds; the library begins it anew from where it was.
/// One that is still there 5 s later has fallen silent and is given up. Until then it looks like one of a kind of which
/// nothing changes, so this bounds for how long old data passes for the present.
const WATCH: u32 = 60;
/// How long a page of a list may take, once the client may ask for it: the API server itself gives up after a minute.
const PAGE: Duration = Duration::from_secs(60);

/// The index, shared between the watches that fill it and those who read it.
#[derive(Clone)]
pub struct SharedCluster {
    cluster: Arc<Mutex<Cluster>>,
    revision: watch::Sender<u64>,
}

impl Default for SharedCluster {
    fn default() -> Self {
        Self {
            cluster: Arc::default(),
            revision: watch::Sender::new(0),
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
        if change(&mut self.read()) {
            self.revision.send_modify(|revision| *revision += 1);
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
    let all = watcher::Config::default().page_size(500).timeout(WATCH);
    let secret = all.clone().fields(&format!("metadata.name={}", own.secret));
    let config_maps =
        Api::<DeserializeGuard<core::ConfigMap>>::namespaced(client.clone(), &own.namespace);
    let secrets = Api::<DeserializeGuard<core::Secret>>::namespaced(client.clone(), &own.namespace);

    macro_rules! watch {
        ($kind:ty) => {
            let selected = match <$kind>::field_selector() {
                Some(selector) => all.clone().fields(&selector),
                None => all.clone(),
            };
            tasks.spawn(feed::<$kind>(
                Api::all(client.clone()),
                selected,
                shared.clone(),
            ));
        };
    }
    for_each_kind!(watch);
    tasks.spawn(feed(config_maps, all, shared.clone()));
    tasks.spawn(feed(secrets, secret, shared.clone()));
    tasks
}

async fn feed<K: Object>(
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    shared: SharedCluster,
) {
    let mut failures = 0;
    loop {
        let error = until_interrupted(&api, &config, &mut failures, &shared).await;
        failures += 1;
        let pause = backoff::pause(failures, FIRST_PAUSE, LONGEST_PAUSE);
        let (kind, problem) = (K::kind(&()), error.explain());
        tracing::warn!(%kind, retry_seconds = pause.as_secs_f32(), "watch interrupted: {problem}");
        shared.update(|cluster| {
            let table = K::table(cluster);
            // A custom resource whose definition was never installed has no objects, so the defaults hold.
            // One that was there once keeps what was read: nothing follows from its being away.
            if is_own_kind::<K>() && error.is_not_found() && table.is_empty() {
                return table.finish();
            }
            table.fail(problem)
        });
        tokio::time::sleep(pause).await;
    }
}

/// Why a kind is to be listed anew.
enum Interruption {
    Watcher(watcher::Error),
    SlowList,
}

/// Feeds the table until something goes wrong. After that the kind is listed anew: only a complete list shows that
/// nothing was missed. The pauses are the caller's, because kube's own start over with each list that is refused.
async fn until_interrupted<K: Object>(
    api: &Api<DeserializeGuard<K>>,
    config: &watcher::Config,
    failures: &mut u32,
    shared: &SharedCluster,
) -> Interruption {
    let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
    let mut listed = None;
    loop {
        let next = match listed {
            Some(_) => events.next().await,
            None => match tokio::time::timeout(PAGE, events.next()).await {
                Ok(next) => next,
                Err(_) => return Interruption::SlowList,
            },
        };
        let error = match next {
            Some(Ok(event)) => {
                match &event {
                    watcher::Event::Init | watcher::Event::InitApply(_) => listed = None,
                    watcher::Event::InitDone => listed = Some(Instant::now()),
                    watcher::Event::Apply(_) | watcher::Event::Delete(_) => *failures = 0,
                }
                shared.update(|cluster| take_in(cluster, event));
                continue;
            }
            Some(Err(error)) => error,
            // A watcher has no end; one that had is the same as one without a resource version.
            None => watcher::Error::NoResourceVersion,
        };
        // A list alone is no success: where watches are refused, one list after the other would be asked for.
        if listed.is_some_and(|listed| listed.elapsed() > LONGEST_PAUSE) {
            *failures = 0;
        }
        return Interruption::Watcher(error);
    }
}

fn take_in<K: Object>(cluster: &mut Cluster, event: watcher::Event<DeserializeGuard<K>>) -> bool {
    match event {
        watcher::Event::Init => {
            K::table(cluster).begin();
            false
        }
        watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
            absorb(cluster, object)
        }
        watcher::Event::Delete(object) => K::table(cluster).delete(&K::key(object.meta())),
        watcher::Event::InitDone => K::table(cluster).finish(),
    }
}

fn is_own_kind<K: Object>() -> bool {
    K::group(&()) == GROUP
}

impl Interruption {
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Watcher(
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status))
                | watcher::Error::WatchFailed(kube::Error::Api(status))
                | watcher::Error::WatchError(status),
            ) => Some(status),
            _ => None,
        }
    }

    fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    fn explain(&self) -> String {
        match self {
            Self::SlowList => format!("its list does not come within {} s", PAGE.as_secs()),
            Self::Watcher(
                watcher::Error::InitialListFailed(cause)
                | watcher::Error::WatchStartFailed(cause)
                | watcher::Error::WatchFailed(cause),
            ) => match self.status() {
                Some(status) if status.code == 403 => {
                    format!("reading it is forbidden: {}", status.message)
                }
                _ => deadline::plain(cause),
            },
            Self::Watcher(watcher::Error::WatchError(status)) => status.message.clone(),
            Self::Watcher(other @ watcher::Error::NoResourceVersion) => other.to_string(),
        }
    }
}
