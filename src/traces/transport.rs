//! The way to the collector: the HTTP and the TLS that the client of the API server is made of.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper_openssl::client::legacy::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use openssl::ssl::{SslConnector, SslConnectorBuilder, SslMethod};
use openssl::x509::X509;
use openssl::x509::store::X509StoreBuilder;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

use super::TracesError;
use super::settings::Settings;
use crate::client;
use crate::deadline::causes;
use crate::tasks;
use crate::visible::visible;

/// The most that is read of an answer, which says at most how many spans were refused.
const LONGEST_ANSWER: usize = 64 * 1024;

/// No answer came in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} ms", .0.as_millis())]
struct NoAnswer(Duration);

/// Sends requests, each with a deadline, on the program's own runtime: the thread that asks for it has none.
#[derive(Clone, Debug)]
pub struct Transport {
    runtime: Handle,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    limit: Duration,
    last_fault: Arc<Mutex<Option<String>>>,
}

impl Transport {
    /// Connects to nobody yet.
    pub fn new(settings: &Settings, runtime: Handle) -> Result<Self, TracesError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let connector = HttpsConnector::with_connector(http, tls(settings)?)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok(Self {
            runtime,
            client,
            limit: settings.timeout,
            last_fault: Arc::default(),
        })
    }

    /// Why the last request got no answer; `None` where it got one.
    pub fn last_fault(&self) -> Option<String> {
        self.fault().clone()
    }

    fn fault(&self) -> MutexGuard<'_, Option<String>> {
        let fault = self.last_fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        for value in request.headers_mut().values_mut() {
            // Whatever is logged of a request, none of these are: they may be credentials.
            value.set_sensitive(true);
        }
        let (client, limit) = (self.client.clone(), self.limit);
        let sent = tasks::spawn_on(&self.runtime, async move {
            let asking = async {
                let answer = client.request(request.map(Full::new)).await?;
                let (head, body) = answer.into_parts();
                let body = Limited::new(body, LONGEST_ANSWER).collect().await?;
                Ok::<_, HttpError>(Response::from_parts(head, body.to_bytes()))
            };
            let answer = tokio::time::timeout(limit, asking).await;
            answer.unwrap_or_else(|_| Err(NoAnswer(limit).into()))
        });
        let outcome = match sent.await {
            Ok(outcome) => outcome,
            // The process is ending.
            Err(error) => Err(error.into()),
        };
        let fault = outcome.as_ref().err();
        *self.fault() = fault.map(|fault| visible(&causes(fault.as_ref())));
        outcome
    }
}

/// Trusts the authorities that are named, or else the system's.
fn tls(settings: &Settings) -> Result<SslConnectorBuilder, TracesError> {
    let mut tls = SslConnector::builder(SslMethod::tls())?;
    if let Some(path) = &settings.authorities {
        let unusable = |problem: String| TracesError::Authorities {
            path: visible(&path.to_string_lossy()),
            problem,
        };
        let pem = fs::read(path).map_err(|error| unusable(error.to_string()))?;
        let found = X509::stack_from_pem(&pem).map_err(|error| unusable(error.to_string()))?;
        if found.is_empty() {
            return Err(unusable("there is no certificate in it".to_owned()));
        }
        tls.set_cert_store(client::store(found)?);
    } else if settings.endpoint.scheme_str() == Some("http") {
        // The system's, read by now, would stay in memory for nothing.
        tls.set_cert_store(X509StoreBuilder::new()?.build());
    }
    Ok(tls)
}
