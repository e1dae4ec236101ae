//! Metrics over TLS, for those whom the API server lets read them.
//!
//! Every scrape is a connection of its own: none is kept, so that a server that is not asked takes no memory.

mod access;
mod certificates;
mod pace;
mod told;

use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper_openssl::SslStream;
use hyper_util::rt::TokioIo;
use kube::Client;
use openssl::ssl::{Ssl, SslContext};
use tokio::net::{TcpListener, TcpStream};
use tower::BoxError;

use crate::serve::connections;
use crate::serve::metrics::{Format, Metrics};
use crate::serve::places::{Bounds, Places};
use crate::visible::visible;
use access::{Access, Decision, Undecided};
use certificates::Certificates;

/// Connections that shake hands, which costs a client nothing.
const SHAKING: Bounds = Bounds {
    all: 128,
    of_one_peer: 16,
};
/// Connections that have done so.
const SERVED: Bounds = Bounds {
    all: 32,
    of_one_peer: 8,
};
/// How long shaking hands may take.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// How long a connection may take after it.
const CONNECTION: Duration = Duration::from_secs(60);

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
        let (shaking, served) = (Places::new(SHAKING), Places::new(SERVED));
        loop {
            let (connection, peer) = connections::accept(&listener).await;
            // The certificates tell what is wrong with them.
            let Ok(context) = self.certificates.context(Instant::now()) else {
                tokio::time::sleep(connections::PAUSE).await;
                continue;
            };
            let place = shaking.take(peer);
            let (served, site) = (served.clone(), Arc::clone(&self.site));
            tokio::spawn(async move {
                let served = async {
                    let stream = place
                        .hold(HANDSHAKE, shake_hands(connection, &context))
                        .await??;
                    let respond = |head: Parts| {
                        let site = Arc::clone(&site);
                        async move { site.respond(&head, peer).await }
                    };
                    let answered = connections::answer(stream, respond);
                    served.take(peer).hold(CONNECTION, answered).await??;
                    Ok::<_, BoxError>(())
                };
                // What a client does wrong is its own affair.
                if let Err(problem) = served.await {
                    tracing::debug!("a connection for metrics ended: {problem}");
                }
            });
        }
    }
}

async fn shake_hands(
    connection: TcpStream,
    context: &SslContext,
) -> Result<Pin<Box<SslStream<TokioIo<TcpStream>>>>, BoxError> {
    let ssl = Ssl::new(context)?;
    let mut stream = Box::pin(SslStream::new(ssl, TokioIo::new(connection))?);
    Pin::as_mut(&mut stream).accept().await?;
    Ok(stream)
}

impl Site {
    async fn respond(&self, request: &Parts, peer: IpAddr) -> Response<Body> {
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
        match self.access.decide(token, peer).await {
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
            Err(Undecided::TooMany) => {
                let words = "too many unknown tokens are shown; ask again in a second\n";
                let later = [(header::RETRY_AFTER, "1")];
                (StatusCode::TOO_MANY_REQUESTS, later, words).into_response()
            }
            // Fails closed. The operator's log says more than who asks needs to know.
            Err(Undecided::Unanswered(_)) => {
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
mod tests;
