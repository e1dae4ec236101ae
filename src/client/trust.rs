//! Connects with trust in the cluster's own certificate authority only, not in the system's.
//!
//! kube's connections trust both: anyone with a public authority could impersonate the API server, and the more than one
//! hundred system certificates stay in memory, 1.5 MB of them. kubectl and controllers in Go trust only the cluster's.

use hyper_openssl::client::legacy::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{ConfigExt, OpensslTlsError};
use openssl::error::ErrorStack;
use openssl::x509::X509;
use openssl::x509::store::{X509Store, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;
use tower::{BoxError, ServiceBuilder};

use super::fence::fenced;

/// Returns connections that trust only the configuration's authorities, unless it needs something that only kube's own
/// connections support: proxies, names that differ from the address, certificates from programs.
pub(super) fn connections(config: kube::Config) -> kube::Result<kube::Client> {
    let needs_more = config.proxy_url.is_some()
        || config.tls_server_name.is_some()
        || config.accept_invalid_certs
        || config.auth_info.exec.is_some();
    if needs_more || config.root_cert.is_none() {
        return kube::Client::try_from(config);
    }
    let mut connector = TimeoutConnector::new(https(&config)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_request(fenced)
        .service(Client::builder(TokioExecutor::new()).build(connector));
    Ok(kube::Client::new(service, config.default_namespace))
}

fn https(config: &kube::Config) -> kube::Result<HttpsConnector<HttpConnector>> {
    let tls_error = |cause| kube::Error::OpensslTls(OpensslTlsError::CreateHttpsConnector(cause));
    let authorities = config.root_cert.iter().flatten();
    let authorities = authorities.map(|der| X509::from_der(der));
    let store = authorities.collect::<Result<_, _>>().and_then(store);
    let mut tls = config.openssl_ssl_connector_builder()?;
    // Replaces the system's store, which kube has already read.
    tls.set_cert_store(store.map_err(tls_error)?);
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    // Otherwise a request waits 40 ms for the acknowledgement of the last part of the handshake, or of the previous request.
    http.set_nodelay(true);
    HttpsConnector::with_connector(http, tls).map_err(tls_error)
}

/// Returns a store that trusts these authorities, and no others.
pub(crate) fn store(authorities: Vec<X509>) -> Result<X509Store, ErrorStack> {
    let mut store = X509StoreBuilder::new()?;
    for authority in authorities {
        store.add_cert(authority)?;
    }
    // Every listed authority is trusted, as in Go, even if its own issuer is not listed.
    store.set_flags(X509VerifyFlags::PARTIAL_CHAIN)?;
    Ok(store.build())
}

/// The trusted authorities and the client certificate, as read from the files. kube reads a token's file again, but never
/// these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    authorities: Option<Vec<Vec<u8>>>,
    certificate: Option<Vec<u8>>,
}

impl Trust {
    /// Returns the trust of a configuration.
    pub fn of(config: &kube::Config) -> Self {
        let file = config.auth_info.client_certificate.as_ref();
        Self {
            authorities: config.root_cert.clone(),
            certificate: file.and_then(|file| std::fs::read(file).ok()),
        }
    }

    /// Returns whether that configuration is different and usable. A file without a certificate has no authorities, and a
    /// certificate and its key are written one after the other.
    pub fn is_replaced_by(&self, config: &kube::Config) -> bool {
        let found = Self::of(config);
        let is_empty = found.authorities.as_ref().is_some_and(Vec::is_empty);
        found != *self && !is_empty && https(config).is_ok()
    }
}

#[cfg(test)]
mod tests;
