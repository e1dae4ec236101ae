//! Serves health and metrics over HTTP.

mod access;
mod certificates;
mod connections;
mod liveness;
mod metrics;
mod readiness;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use kube::Client;
use tokio::net::TcpListener;

use access::{Access, authorize};
use certificates::Certificates;
#[cfg(test)]
pub(crate) use certificates::self_signed;
use connections::serve;
pub use liveness::Liveness;
pub use metrics::Metrics;
pub use readiness::Readiness;

/// <https://prometheus.io/docs/specs/om/open_metrics_spec/>
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the endpoints serve.
#[derive(Clone, Default)]
pub struct Shown {
    /// Whether the cluster has been read and the gate has been set.
    pub readiness: Readiness,
    /// Whether the controller makes progress.
    pub liveness: Liveness,
    /// The metrics.
    pub metrics: Metrics,
}

/// Serves `/healthz` and `/readyz` until the process ends, and `/metrics` to this machine only: anyone who can connect can
/// read what is served here. Other clients get metrics from [`serve_metrics`].
pub async fn serve_health(listener: TcpListener, shown: Shown) -> Infallible {
    let address = listener.local_addr();
    let is_local = address.is_ok_and(|address| address.ip().is_loopback());
    let metrics = if is_local {
        get(metrics_text)
    } else {
        let words = "metrics are served over TLS, at the address of --metrics-address\n";
        get(async move || (StatusCode::NOT_FOUND, words))
    };
    let routes = Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", metrics)
        .with_state(shown);
    serve(listener, routes, None).await
}

/// Serves `/metrics` over TLS until the process ends, to clients that the API server authorizes, with the certificate in
/// that folder or a self-signed one.
pub async fn serve_metrics(
    listener: TcpListener,
    shown: Shown,
    client: Client,
    cert_dir: Option<PathBuf>,
) -> Infallible {
    let authorized = from_fn_with_state(Arc::new(Access::new(client)), authorize);
    let routes = Router::new()
        .route("/metrics", get(metrics_text).route_layer(authorized))
        .fallback(async || (StatusCode::NOT_FOUND, "only /metrics is served here\n"))
        .with_state(shown);
    serve(listener, routes, Some(Certificates::new(cert_dir))).await
}

/// Answers `/healthz`. A problem names no object, so anyone may see it.
async fn alive(State(shown): State<Shown>) -> impl IntoResponse {
    match shown.liveness.problem() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(problem) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{problem}\n")),
    }
}

/// Answers `/readyz`. Only `?verbose` shows why it is not ready, and each check if all is well: to clients in the pod, as
/// those of `kubectl port-forward` are, because it names objects.
async fn ready(
    State(shown): State<Shown>,
    Extension(client): Extension<SocketAddr>,
    RawQuery(query): RawQuery,
) -> impl IntoResponse {
    let is_verbose = client.ip().to_canonical().is_loopback()
        && query.is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
    let (ready, text) = shown.readiness.answer(is_verbose);
    match (ready, is_verbose) {
        (true, false) => (StatusCode::OK, "ok".to_owned()),
        (true, true) => (StatusCode::OK, text),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}

async fn metrics_text(State(shown): State<Shown>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, OPEN_METRICS)],
        shown.metrics.encode(),
    )
}

#[cfg(test)]
mod tests;
