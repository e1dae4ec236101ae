//! Starts the servers for health and metrics.

use std::convert::Infallible;
use std::net::SocketAddr;

use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{Options, RunError};
use crate::http::{Shown, serve_health, serve_metrics};

/// Binds the addresses and serves until the set is dropped.
pub async fn start(
    client: &Client,
    options: &Options,
    shown: &Shown,
) -> Result<JoinSet<Infallible>, RunError> {
    let mut servers = JoinSet::new();
    if let Some(address) = options.serve_address {
        let listener = bind(address, "health and metrics", "http", "--serve-address").await?;
        servers.spawn(serve_health(listener, shown.clone()));
    }
    if let Some(address) = options.metrics_address {
        let listener = bind(address, "metrics", "https", "--metrics-address").await?;
        let (shown, client) = (shown.clone(), client.clone());
        let cert_dir = options.metrics_cert_dir.clone();
        servers.spawn(serve_metrics(listener, shown, client, cert_dir));
    }
    Ok(servers)
}

/// Binds the address, and logs what is served there.
async fn bind(
    address: SocketAddr,
    what: &'static str,
    scheme: &str,
    option: &'static str,
) -> Result<TcpListener, RunError> {
    let unusable = |cause| RunError::Serve {
        what,
        option,
        address,
        cause,
    };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    // The system may have chosen the port.
    let bound = listener.local_addr().map_err(unusable)?;
    tracing::info!("{what} are served on {scheme}://{bound}");
    Ok(listener)
}
