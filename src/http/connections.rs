//! Accepts connections for health and for metrics: axum-server has no bound on them at which the oldest gives way.
//!
//! Anyone can connect, so everything that a connection uses is bounded: the number of connections, the size of a request's
//! head, and the time for each step. Each connection serves one request.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_openssl::SslStream;
use hyper_util::rt::{TokioIo, TokioTimer};
use openssl::ssl::{Ssl, SslContext};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tower::{BoxError, Service};

use super::certificates::Certificates;

/// The maximum number of concurrent connections.
pub(super) const CONNECTIONS: usize = 128;
/// How long the handshake and the request's head may each take: a kubelet waits for one second in total.
const HANDSHAKE: Duration = Duration::from_secs(2);
const HEAD_TIME: Duration = Duration::from_secs(2);
/// The maximum size of a request's head, in bytes: a token has several kilobytes.
const HEAD: usize = 16 * 1024;
/// How long a connection may take in total: an unknown token takes two requests to the API server.
const CONNECTION: Duration = Duration::from_secs(40);
/// The delay after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves those routes until the process ends; over TLS if there are certificates.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    mut tls: Option<Certificates>,
) -> Infallible {
    // In the order in which they came.
    let mut places = VecDeque::with_capacity(CONNECTIONS);
    loop {
        let (connection, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client has gone, or too many files are open: neither lasts forever.
            Err(error) => {
                tracing::debug!(%error, "a connection could not be taken");
                sleep(PAUSE).await;
                continue;
            }
        };
        make_room(&mut places).await;
        let context = tls.as_mut().map(Certificates::context);
        let routes = routes.clone().layer(Extension(client));
        places.push_back(tokio::spawn(async move {
            let answered = match context {
                None => timeout(CONNECTION, answer(TokioIo::new(connection), routes)).await,
                // `Certificates` itself logs what is wrong.
                Some(None) => return,
                Some(Some(context)) => {
                    timeout(CONNECTION, answer_over_tls(connection, &context, routes)).await
                }
            };
            // An error of a client is not an error of the operator.
            if let Err(problem) = answered.map_err(BoxError::from).flatten() {
                tracing::debug!("a connection ended: {problem}");
            }
        }));
    }
}

/// Leaves a place for a newcomer. At the limit, the connection that has been there longest without an answer is closed,
/// whatever it has sent: clients that are silent or send a byte from time to time keep nobody out, and a probe is answered
/// long before as many others have come as there are places.
async fn make_room(places: &mut VecDeque<JoinHandle<()>>) {
    places.retain(|connection| !connection.is_finished());
    while places.len() >= CONNECTIONS
        && let Some(oldest) = places.pop_front()
    {
        oldest.abort();
        // The connection is closed once its task has ended.
        let _ = oldest.await;
    }
}

async fn answer_over_tls(
    connection: TcpStream,
    context: &SslContext,
    routes: Router,
) -> Result<(), BoxError> {
    let mut stream = SslStream::new(Ssl::new(context)?, TokioIo::new(connection))?;
    timeout(HANDSHAKE, Pin::new(&mut stream).accept()).await??;
    answer(stream, routes).await
}

/// Answers the single request of a connection.
async fn answer(stream: impl Read + Write + Unpin, routes: Router) -> Result<(), BoxError> {
    let service = service_fn(|request: hyper::Request<Incoming>| routes.clone().call(request));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(stream, service)
        .await?;
    Ok(())
}
