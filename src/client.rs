//! Builds the client of the API server: its trust, and the policy for each request.

mod fence;
mod policy;
mod trust;

use tower::service_fn;

use crate::http::Metrics;
use crate::lease::Fence;
pub(crate) use policy::NoAnswer;
pub use policy::retry_after;
use policy::{LIMITS, RequestPolicy};
pub use trust::Trust;
#[cfg(test)]
pub(crate) use trust::tests::identity as identity_of_test;

/// Creates a client for that configuration, which counts its requests and changes nothing while the fence is closed.
pub fn client(
    mut config: kube::Config,
    metrics: Metrics,
    fence: Fence,
) -> kube::Result<kube::Client> {
    // kube's own retries continue for minutes without the caller's knowledge, and meanwhile old data passes for current. All
    // callers have their own retries, and report failures.
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let connections = trust::connections(config)?;
    let policy = RequestPolicy::new(LIMITS, metrics, fence);
    let service = service_fn(move |request| {
        let (policy, connections) = (policy.clone(), connections.clone());
        async move { policy.send(&connections, request).await }
    });
    Ok(kube::Client::new(service, namespace))
}

#[cfg(test)]
mod tests;
