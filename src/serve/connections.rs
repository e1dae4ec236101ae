//! What the servers of health and of metrics have in common: anybody can connect, so nobody may hold a connection for long,
//! and each has one request.

use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};

/// After a connection that could not be taken.
pub const PAUSE: Duration = Duration::from_millis(100);
/// How long a request's head may take.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How large a request's head may be: a token has some kilobytes.
const HEAD: usize = 16 * 1024;

/// The next connection, and who has made it.
pub async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            // An address is the same one by IPv4 and as a part of IPv6.
            Ok((connection, peer)) => return (connection, peer.ip().to_canonical()),
            // A client that has gone, or too many open files: neither is for ever.
            Err(error) => {
                tracing::debug!(%error, "a connection could not be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers the one request of a connection.
pub async fn answer<S, R, F>(stream: S, respond: R) -> Result<(), hyper::Error>
where
    S: Read + Write + Unpin,
    R: Fn(Parts) -> F,
    F: Future<Output = Response<Body>>,
{
    let service = service_fn(|request: Request<Incoming>| {
        // There is nothing in a body that would be looked at.
        let (head, _) = request.into_parts();
        let response = respond(head);
        async move { Ok::<_, Infallible>(response.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(stream, service)
        .await
}
