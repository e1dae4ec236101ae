//! Manages the listening sockets of simulated hosts.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::host::Host;
use super::server;

/// Listens while the power is on.
pub async fn serve(host: Arc<Host>, first: TcpListener, place: SocketAddr) {
    let mut power = host.power();
    let mut listener = Some(first);
    loop {
        let bound = match listener.take() {
            Some(first) => first,
            None => bind_again(place).await,
        };
        let Ok(bound) = tokio::net::TcpListener::from_std(bound) else {
            return;
        };
        host.count(|counters| counters.listening = true);
        tokio::select! {
            () = server::listen(Arc::clone(&host), bound) => return,
            _ = power.wait_for(|down| *down) => {}
        }
        host.count(|counters| counters.listening = false);
        if power.wait_for(|down| !*down).await.is_err() {
            return;
        }
    }
}

/// Listens again, with retries: a process that is being started, by anyone in this process, briefly inherits the
/// earlier listener until it executes its program.
async fn bind_again(place: SocketAddr) -> TcpListener {
    loop {
        match bind(place) {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

pub fn bind(place: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(place).with_context(|| format!("listening at {place}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Claims a network 127.x.0.0 and a port that is free on its last address.
pub fn claim_network() -> Result<(u8, TcpListener)> {
    // Each RandomState has different keys, so this gives random numbers without another crate.
    let random = RandomState::new().hash_one(0_u8).to_be_bytes();
    // 127.0 is skipped because everything else uses it.
    let network = random[0].max(1);
    let last = IpAddr::V4(Ipv4Addr::new(127, network, 255, 254));
    let claim = TcpListener::bind((last, 0)).with_context(|| format!("listening at {last}"))?;
    Ok((network, claim))
}
