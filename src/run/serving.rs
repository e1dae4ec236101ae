//! Where health and metrics are served.

use std::convert::Infallible;
use std::net::SocketAddr;

use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{Options, RunError};
use crate::serve::{Shown, serve_health, serve_metrics};

/// Takes the addresses and serves, until the set is dropped.
pub async fn start(
    client: &Client,
    options: &Options,
    shown: &Shown,
) -> Result<JoinSet<Infallible>, RunError> {
    let mut servers = JoinSet::new();
    let plain = ("health and metrics", "http", "--serve-address");
    if let Some(listener) = bind(options.serve_address, plain).await? {
        servers.spawn(serve_health(listener, shown.clone()));
    }
    let secure = ("metrics", "https", "--metrics-address");
    if let Some(listener) = bind(options.metrics_address, secure).await? {
        let cert_dir = options.metrics_cert_dir.clone();
        servers.spawn(serve_metrics(
            listener,
            shown.clone(),
            client.clone(),
            cert_dir,
        ));
    }
    Ok(servers)
}

/// Takes the address, if there is one, and says what is served there.
async fn bind(
    address: Option<SocketAddr>,
    (what, scheme, option): (&'static str, &'static str, &'static str),
) -> Result<Option<TcpListener>, RunError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let unusable = |cause| RunError::Serve {
        what,
        option,
        address,
        cause,
    };
    let bound = TcpListener::bind(address).await.map_err(unusable)?;
    // The port may have been left to the machine.
    let address = bound.local_addr().map_err(unusable)?;
    tracing::info!("{what} are served on {scheme}://{address}");
    Ok(Some(bound))
}
