//! Talks to the API server: the client, its trust and the policy for each request; deadlines, pauses, lists in pages.

#[cfg(test)]
pub mod answering;
pub mod backoff;
pub mod deadline;
mod fence;
pub mod forbidden;
pub mod installed;
pub mod listing;
mod pages;
mod policy;
pub mod review;
mod revisions;
mod trust;

use tower::service_fn;

use crate::http::Metrics;
use crate::lease::Fence;
use pages::Pages;
pub(crate) use policy::NoAnswer;
use policy::RequestPolicy;
pub use policy::retry_after;
pub use revisions::{Revisions, WentBack};
pub use trust::Trust;

/// Creates a client for that configuration, which counts its requests, changes nothing while the fence is closed, and notes
/// how far lists have come.
pub fn client(
    mut config: kube::Config,
    metrics: Metrics,
    fence: Fence,
    revisions: Revisions,
) -> kube::Result<kube::Client> {
    // kube's own retries continue for minutes without the caller's knowledge, and meanwhile old data passes for current. All
    // callers have their own retries, and report failures.
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let connections = trust::connections(config)?;
    let policy = RequestPolicy::new(metrics, fence);
    Ok(over(connections, namespace, policy, revisions))
}

/// Returns the object's resourceVersion; 0, which counts as old, if it has none.
pub(crate) fn version<K: kube::Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// Creates a client that sends its requests over these connections.
fn over(
    connections: kube::Client,
    namespace: String,
    policy: RequestPolicy,
    revisions: Revisions,
) -> kube::Client {
    let pages = Pages::new(revisions);
    let service = service_fn(move |request| {
        let (pages, policy, connections) = (pages.clone(), policy.clone(), connections.clone());
        async move {
            let send = |request| policy.send(&connections, request);
            pages.send(request, send).await
        }
    });
    kube::Client::new(service, namespace)
}

#[cfg(test)]
mod tests;
