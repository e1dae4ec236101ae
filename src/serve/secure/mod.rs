//! Metrics over TLS, for those whom the API server lets read them.
//!
//! Every scrape is a connection of its own: none is kept, so that a server that is not asked takes no memory.

mod access;
mod certificates;

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_openssl::SslStream;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use openssl::ssl::{Ssl, SslContext};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::serve::metrics::{Format, Metrics};
use crate::visible::visible;
use access::{Access, Decision};
use certificates::Certificates;

/// Connections at one time.
const CONNECTIONS: usize = 32;
/// How long shaking hands may take, and then a request's head.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may take in all.
const CONNECTION: Duration = Duration::from_secs(60);
/// A request's head: a token has some kilobytes.
const HEAD: usize = 16 * 1024;
/// After a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// How metrics are served over TLS.
pub struct Secure {
    certificates: Certificates,
    site: Arc<Site>,
}

struct Site {
    access: Access,
    metrics: Metrics,
}

impl Secure {
    /// With the certificate in that folder, or one for this Service's names in the namespace.
    #[must_use]
    pub fn new(
        client: Client,
        metrics: Metrics,
        cert_dir: Option<PathBuf>,
        namespace: &str,
    ) -> Self {
        let service = format!("windows-storage-operator-metrics.{namespace}.svc");
        let names = vec![service, "localhost".to_owned()];
        Self {
            certificates: Certificates::new(cert_dir, names),
            site: Arc::new(Site {
                access: Access::new(client),
                metrics,
            }),
        }
    }

    /// Serves until the process ends.
    pub async fn serve(mut self, listener: TcpListener) -> std::io::Result<()> {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // Never closed; without a place the connection only is one more.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            let connection = match listener.accept().await {
                Ok((connection, _)) => connection,
                // A client that has gone, or too many open files: neither is for ever.
                Err(error) => {
                    tracing::debug!(%error, "a connection for metrics could not be taken");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let context = match self.certificates.context(Instant::now()) {
                Ok(context) => context,
                Err(error) => {
                    tracing::warn!("metrics cannot be served: {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let site = Arc::clone(&self.site);
            tokio::spawn(async move {
                let _place = place;
                let answered = answer(connection, &context, site);
                // What a client does wrong is its own affair.
                match tokio::time::timeout(CONNECTION, answered).await {
                    Ok(Ok(())) => {}
                    Ok(Err(problem)) => {
                        tracing::debug!("a connection for metrics ended: {problem}");
                    }
                    Err(_) => tracing::debug!("a connection for metrics took too long"),
                }
            });
        }
    }
}

async fn answer(
    connection: TcpStream,
    context: &SslContext,
    site: Arc<Site>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let ssl = Ssl::new(context)?;
    let mut stream = Box::pin(SslStream::new(ssl, TokioIo::new(connection))?);
    tokio::time::timeout(HANDSHAKE, Pin::as_mut(&mut stream).accept()).await??;
    let service = service_fn(move |request: Request<Incoming>| {
        let site = Arc::clone(&site);
        async move {
            // There is nothing in a body that would be looked at.
            let (head, _): (Parts, Incoming) = request.into_parts();
            Ok::<_, Infallible>(site.respond(&head).await)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(stream, service)
        .await?;
    Ok(())
}

impl Site {
    async fn respond(&self, request: &Parts) -> Response<Body> {
        if request.uri.path() != "/metrics" {
            return (StatusCode::NOT_FOUND, "only /metrics is served here\n").into_response();
        }
        if ![Method::GET, Method::HEAD].contains(&request.method) {
            return (
                StatusCode::METHOD_NOT_ALLOWED,
                [(header::ALLOW, "GET, HEAD")],
            )
                .into_response();
        }
        let text = |name| {
            request
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let Some(token) = text(header::AUTHORIZATION).and_then(bearer) else {
            return unauthorized();
        };
        match self.access.decide(token).await {
            Ok(Decision::Allowed) => {
                let format = Format::accepted(text(header::ACCEPT));
                let content_type = [(header::CONTENT_TYPE, format.content_type())];
                (content_type, self.metrics.encode(format)).into_response()
            }
            Ok(Decision::Unknown) => unauthorized(),
            Ok(Decision::Forbidden(user)) => {
                let words = format!(
                    "user {} may not get the path /metrics; bind it to the ClusterRole \
                     windows-storage-operator-metrics-reader\n",
                    visible(&user)
                );
                (StatusCode::FORBIDDEN, words).into_response()
            }
            // Fails closed. The operator's log says more than who asks needs to know.
            Err(error) => {
                tracing::warn!("who asks for metrics cannot be checked: {error}");
                let words = "who you are cannot be checked now; the operator's log says why\n";
                (StatusCode::SERVICE_UNAVAILABLE, words).into_response()
            }
        }
    }
}

fn unauthorized() -> Response<Body> {
    let scheme = [(header::WWW_AUTHENTICATE, "Bearer")];
    let words = "give the token of a ServiceAccount: Authorization: Bearer TOKEN\n";
    (StatusCode::UNAUTHORIZED, scheme, words).into_response()
}

/// The token of the header `Authorization`. RFC 6750, section 2.1; the scheme's case does not matter (RFC 9110, 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_token_counts() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for header in ["", "Bearer", "Bearer ", "Basic YTpi", "abc"] {
            assert_eq!(bearer(header), None, "{header}");
        }
    }
}
