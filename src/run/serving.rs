//! Where health and metrics are served.

use std::net::SocketAddr;

use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Options, RunError};
use crate::serve::{Secure, Shown, serve};

/// Takes the addresses and serves, until the task is aborted. It ends by itself only where something is wrong.
pub async fn start(
    client: &Client,
    options: &Options,
    shown: Shown,
) -> Result<JoinHandle<std::io::Result<()>>, RunError> {
    let plain = ("health and metrics", "http", "--serve-address");
    let listener = bind(options.serve_address, plain).await?;
    let secure = ("metrics", "https", "--metrics-address");
    let secure_listener = bind(options.metrics_address, secure).await?;
    let cert_dir = options.metrics_cert_dir.clone();
    let metrics = shown.metrics.clone();
    let secure = Secure::new(client.clone(), metrics, cert_dir, &options.namespace);
    Ok(tokio::spawn(async move {
        let plain = async {
            match listener {
                Some(listener) => serve(listener, shown).await,
                None => std::future::pending().await,
            }
        };
        let secure = async {
            match secure_listener {
                Some(listener) => secure.serve(listener).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = plain => ended,
            ended = secure => ended,
        }
    }))
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
