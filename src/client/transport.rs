//! Connections that trust the cluster's own certificate authority, and none of the system's.
//!
//! The library's connections trust both: whoever holds any public authority could pass for the API server, and the system's
//! hundred and more certificates stay in memory, 1.5 MB of them. kubectl and controllers in Go trust the cluster's alone.

use hyper_openssl::client::legacy::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt, OpensslTlsError};
use openssl::error::ErrorStack;
use openssl::ssl::SslOptions;
use openssl::x509::X509;
use openssl::x509::store::{X509Store, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;
use tower::{BoxError, ServiceBuilder};

use super::Manners;
use super::fenced::FencedBody;

/// OpenSSL wipes its copy of what it has decrypted as soon as that was read. Source: openssl/ssl.h of version 3; those before
/// it know no such bit and leave it alone.
const CLEANSE_PLAINTEXT: SslOptions = SslOptions::from_bits_retain(1 << 1);

/// A client that trusts the authorities of the configuration alone, where that needs nothing else that only the library's
/// own connections have: proxies, names that differ from the address, certificates from programs.
pub(super) fn client(
    config: &kube::Config,
    manners: &Manners,
) -> kube::Result<Option<kube::Client>> {
    let plain = config.proxy_url.is_none()
        && config.tls_server_name.is_none()
        && !config.accept_invalid_certs
        && config.auth_info.exec.is_none();
    let Some(authorities) = config.root_cert.as_ref().filter(|_| plain) else {
        return Ok(None);
    };
    let tls_error = |cause| kube::Error::OpensslTls(OpensslTlsError::CreateHttpsConnector(cause));
    let mut tls = config.openssl_ssl_connector_builder()?;
    // In the place of the system's, which the library has read by now.
    let authorities = authorities.iter().map(|der| X509::from_der(der));
    let authorities: Result<Vec<X509>, ErrorStack> = authorities.collect();
    let trusted = authorities.and_then(store).map_err(tls_error)?;
    tls.set_cert_store(trusted);
    // A Secret is in what it has decrypted last.
    tls.set_options(CLEANSE_PLAINTEXT);
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let https = HttpsConnector::with_connector(http, tls).map_err(tls_error)?;
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let connections: Client<_, FencedBody> = Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_request(FencedBody::of)
        .service(connections);
    let builder = ClientBuilder::new(service, config.default_namespace.clone());
    Ok(Some(builder.with_layer(manners).build()))
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
