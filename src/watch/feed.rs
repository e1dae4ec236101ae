//! One kind from the API server into its table, for ever.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::runtime::watcher;
use kube::{Api, Resource};
use tokio::sync::Semaphore;

use crate::http::Metrics;
use crate::index::{self, AnyTable, Cluster};
use crate::objects::{Kind, Received};
use crate::watch::SharedCluster;
use crate::watch::interruption::Interruption;
use crate::{backoff, process};

/// Objects in one page of a list: a page is in memory as a whole, and a pod has some ten kilobytes.
pub(super) const PAGE_SIZE: u32 = 100;
/// How long the API server keeps up a watch before it ends it, in seconds; the library begins it again from where it was.
/// One that is still there 5 s later has fallen silent and is given up. Until then it looks like one of a kind of which
/// nothing changes, so this bounds for how long old data passes for the present.
pub(super) const WATCH: u32 = 60;
/// How long a page of a list may take, once the client may ask for it: the API server itself gives up after a minute.
pub(super) const PAGE: Duration = Duration::from_secs(60);
/// The first pause after a watch was interrupted.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a list waits for another kind that makes it smaller.
const NODES_FIRST: Duration = Duration::from_secs(10);
/// How many kinds are listed at one time: each has pages in memory, and the API server has others to serve.
pub(super) const LISTS: usize = 3;
/// How long a list waits for others that do not come to an end.
const QUEUE: Duration = Duration::from_secs(10);

pub(super) async fn feed(
    kind: &'static Kind,
    (api, config): (Api<Received>, watcher::Config),
    shared: SharedCluster,
    lists: Arc<Semaphore>,
    metrics: Metrics,
) {
    let mut failures = 0;
    if kind.follows_nodes() {
        // Without them it only takes more memory.
        let _ = tokio::time::timeout(NODES_FIRST, nodes_are_known(&shared)).await;
    }
    loop {
        let feeding = until_interrupted(kind, &api, &config, &mut failures, &shared, &lists);
        let interruption = feeding.await;
        failures += 1;
        let pause = backoff::pause(failures, FIRST_PAUSE, LONGEST_PAUSE);
        metrics.count_watch_restart(kind.name(), interruption.cause());
        let problem = if kind.is_secret() {
            interruption.explain_without_words()
        } else {
            interruption.explain()
        };
        let (name, retry_seconds) = (kind.name(), pause.as_secs_f32());
        tracing::warn!(kind = %name, retry_seconds, "watch interrupted: {problem}");
        shared.update(|cluster| {
            // A custom resource whose definition was never installed has no objects, so the defaults hold.
            // One that was there once keeps what was read: nothing follows from its being away.
            let table = kind.table_mut(cluster);
            if kind.is_own() && interruption.is_not_found() && table.is_empty() {
                return table.finish();
            }
            table.fail(problem)
        });
        tokio::time::sleep(pause).await;
    }
}

/// Takes in what the watch says. Whether that changes anything.
fn apply(kind: &Kind, cluster: &mut Cluster, event: &watcher::Event<Received>) -> bool {
    let table = kind.table_mut(cluster);
    match event {
        watcher::Event::Init => {
            table.begin();
            false
        }
        watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
            kind.absorb(cluster, object)
        }
        watcher::Event::Delete(object) => table.delete_object(object.meta()),
        watcher::Event::InitDone => table.finish(),
    }
}

async fn nodes_are_known(shared: &SharedCluster) {
    let mut changes = shared.changes();
    while !shared.read().nodes.is_complete() {
        // The sender is in what is shared.
        let _ = changes.changed().await;
    }
}

/// Feeds the table until something goes wrong, or until a new list is wanted. After that the kind is listed again: only a
/// complete list shows that nothing was missed. The pauses are the caller's, because kube's own start over with each list
/// that is refused.
async fn until_interrupted(
    kind: &Kind,
    api: &Api<Received>,
    config: &watcher::Config,
    failures: &mut u32,
    shared: &SharedCluster,
    lists: &Semaphore,
) -> Interruption {
    // The semaphore is never closed; without a permit the list only is one more at a time.
    let queued = tokio::time::timeout(QUEUE, lists.acquire()).await;
    let mut permit = queued.ok().and_then(Result::ok);
    let mut listings = shared.listings.subscribe();
    // What was wanted before is what comes now.
    kind.table_mut(&mut shared.read()).take_relist();
    let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
    let mut listed = None;
    loop {
        let limit = listed.map_or(PAGE, |_| Duration::MAX);
        let next = tokio::select! {
            next = tokio::time::timeout(limit, events.next()) => next,
            _ = listings.changed() => {
                if kind.table_mut(&mut shared.read()).take_relist() {
                    return Interruption::Wanted;
                }
                continue;
            }
        };
        let error = match next {
            Ok(Some(Ok(event))) => {
                match &event {
                    watcher::Event::Init | watcher::Event::InitApply(_) => listed = None,
                    watcher::Event::InitDone => {
                        listed = Some(Instant::now());
                        permit = None;
                    }
                    watcher::Event::Apply(_) | watcher::Event::Delete(_) => *failures = 0,
                }
                let is_listed = matches!(event, watcher::Event::InitDone);
                shared.update(|cluster| apply(kind, cluster, &event));
                if is_listed {
                    // What was read and left out.
                    index::drop_unused_names();
                    process::give_back_memory();
                }
                continue;
            }
            Ok(Some(Err(error))) => error,
            // A watcher has no end; one that had is the same as one without a resource version.
            Ok(None) => watcher::Error::NoResourceVersion,
            Err(_) => return Interruption::SlowList,
        };
        drop(permit);
        // A list alone is no success: where watches are refused, one list after the other would be asked for.
        if listed.is_some_and(|listed| listed.elapsed() > LONGEST_PAUSE) {
            *failures = 0;
        }
        return Interruption::Watcher(error);
    }
}
