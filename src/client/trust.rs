//! Whom a connection trusts and who it is: by what the files say when it is made. A kubelet writes the cluster's
//! authorities into every pod and keeps them new, and an authority that is replaced is to be trusted without a restart,
//! or no longer.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::Uri;
use hyper_openssl::client::legacy::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use kube::client::{ConfigExt, OpensslTlsError};
use openssl::error::ErrorStack;
use openssl::sha::Sha256;
use openssl::ssl::SslOptions;
use openssl::x509::X509;
use openssl::x509::store::{X509Store, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;
use tokio::net::TcpStream;
use tower::{BoxError, Service};

/// OpenSSL wipes its copy of what it has decrypted as soon as that was read. Source: openssl/ssl.h of version 3; those before
/// it know no such bit and leave it alone.
const CLEANSE_PLAINTEXT: SslOptions = SslOptions::from_bits_retain(1 << 1);

/// What the files cannot be used for.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("the authorities in {0:?} cannot be read: {1}")]
    Unreadable(PathBuf, std::io::Error),
    #[error("{0:?} is no list of PEM certificates: {1}")]
    NoCertificates(PathBuf, ErrorStack),
    #[error("{0:?} holds no certificate")]
    Empty(PathBuf),
    #[error("{}", crate::deadline::plain(.0))]
    Identity(kube::Error),
}

/// Makes connections to the API server. Clones are the same.
#[derive(Clone)]
pub struct Connector {
    config: Arc<kube::Config>,
    files: Arc<[PathBuf]>,
    current: Arc<Mutex<Current>>,
}

struct Current {
    https: HttpsConnector<HttpConnector>,
    /// What was in the files when they were looked at last, whether it could be used or not.
    seen: [u8; 32],
}

impl Connector {
    /// Trusts these authorities until the file that they come from, if any, says something else.
    pub fn new(config: &kube::Config, authorities: &[Vec<u8>]) -> kube::Result<Self> {
        let tls_error =
            |cause| kube::Error::OpensslTls(OpensslTlsError::CreateHttpsConnector(cause));
        let user = &config.auth_info;
        let identity = [&user.client_certificate, &user.client_key];
        let identity = identity.into_iter().flatten().map(PathBuf::from);
        let files: Arc<[PathBuf]> = config
            .root_cert_file
            .iter()
            .cloned()
            .chain(identity)
            .collect();
        // Before they are used: what changes in between is seen by the next connection.
        let seen = digest(&files);
        let authorities = authorities.iter().map(|der| X509::from_der(der));
        let authorities = authorities.collect::<Result<_, _>>().map_err(tls_error)?;
        let https = https(config, authorities)?;
        Ok(Self {
            config: Arc::new(config.clone()),
            files,
            current: Arc::new(Mutex::new(Current { https, seen })),
        })
    }

    /// By what the files say now. They are small and in memory, and connections are few.
    fn current(&self) -> HttpsConnector<HttpConnector> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if self.files.is_empty() {
            return current.https.clone();
        }
        let found = digest(&self.files);
        if found != current.seen {
            current.seen = found;
            match self.read() {
                Ok(https) => {
                    current.https = https;
                    tracing::info!(
                        "the files with certificates have changed: new connections go by them"
                    );
                }
                // In the middle of being written, perhaps.
                Err(error) => {
                    tracing::warn!("{error}; new connections go by what was there before");
                }
            }
        }
        current.https.clone()
    }

    fn read(&self) -> Result<HttpsConnector<HttpConnector>, Unusable> {
        let authorities = if let Some(path) = &self.config.root_cert_file {
            let text =
                std::fs::read(path).map_err(|cause| Unusable::Unreadable(path.clone(), cause))?;
            let authorities = X509::stack_from_pem(&text)
                .map_err(|cause| Unusable::NoCertificates(path.clone(), cause))?;
            if authorities.is_empty() {
                return Err(Unusable::Empty(path.clone()));
            }
            authorities
        } else {
            let known = self.config.root_cert.iter().flatten();
            known.filter_map(|der| X509::from_der(der).ok()).collect()
        };
        https(&self.config, authorities).map_err(Unusable::Identity)
    }
}

/// What tells one content of files from another. A file that cannot be read is one without content.
fn digest(files: &[PathBuf]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for file in files {
        let content = std::fs::read(file).unwrap_or_default();
        digest.update(&content.len().to_be_bytes());
        digest.update(&content);
    }
    digest.finish()
}

fn https(
    config: &kube::Config,
    authorities: Vec<X509>,
) -> kube::Result<HttpsConnector<HttpConnector>> {
    let tls_error = |cause| kube::Error::OpensslTls(OpensslTlsError::CreateHttpsConnector(cause));
    let mut tls = config.openssl_ssl_connector_builder()?;
    // In the place of the system's, which the library has read by now.
    tls.set_cert_store(store(authorities).map_err(tls_error)?);
    // A Secret is in what it has decrypted last.
    tls.set_options(CLEANSE_PLAINTEXT);
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    HttpsConnector::with_connector(http, tls).map_err(tls_error)
}

/// Trusts these authorities, and no others.
pub(crate) fn store(authorities: Vec<X509>) -> Result<X509Store, ErrorStack> {
    let mut store = X509StoreBuilder::new()?;
    for authority in authorities {
        store.add_cert(authority)?;
    }
    // What is named is trusted, as in Go: also an authority whose own issuer is not named.
    store.set_flags(X509VerifyFlags::PARTIAL_CHAIN)?;
    Ok(store.build())
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Neither of the services within holds anybody up.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let mut https = self.current();
        Box::pin(async move {
            std::future::poll_fn(|context| https.poll_ready(context)).await?;
            https.call(server).await
        })
    }
}

#[cfg(test)]
mod tests;
