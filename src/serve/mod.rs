//! Health and metrics over HTTP.

mod metrics;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

pub use metrics::Metrics;

/// What the endpoints show.
#[derive(Clone, Default)]
pub struct Shown {
    /// Whether the cluster has been read and the gate has been set.
    pub ready: Arc<AtomicBool>,
    /// The metrics.
    pub metrics: Metrics,
}

/// Serves `/healthz`, `/readyz` and `/metrics` until the process ends.
pub async fn serve(address: SocketAddr, shown: Shown) -> std::io::Result<()> {
    let router = axum::Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics_text))
        .with_state(shown);
    let listener = tokio::net::TcpListener::bind(address).await?;
    tracing::debug!(%address, "serving health and metrics");
    axum::serve(listener, router).await
}

async fn readiness(State(shown): State<Shown>) -> impl IntoResponse {
    if shown.ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the cluster has not been read yet, or the gate could not be set",
        )
    }
}

async fn metrics_text(State(shown): State<Shown>) -> impl IntoResponse {
    (
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        shown.metrics.encode(),
    )
}
