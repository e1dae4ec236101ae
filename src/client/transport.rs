//! Connections that trust the cluster's own certificate authority, and none of the system's.
//!
//! The library's connections trust both: whoever holds any public authority could pass for the API server, and the system's
//! hundred and more certificates stay in memory, 1.5 MB of them. kubectl and controllers in Go trust the cluster's alone.
//! With OpenSSL the library also never looks again at a file of authorities, and at a token by the clock of the day.

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt};
use tower::{BoxError, ServiceBuilder};

use super::Manners;
use super::fenced::FencedBody;
use super::token::TokenFile;
use super::trust::Connector;

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
    let mut connector = TimeoutConnector::new(Connector::new(config, authorities)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let connections: Client<_, FencedBody> = Client::builder(TokioExecutor::new()).build(connector);
    let token = TokenFile::of(&config.auth_info);
    let credentials = match &token {
        Some(_) => None,
        None => config.auth_layer()?,
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(token)
        .option_layer(credentials)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_request(FencedBody::of)
        .service(connections);
    let builder = ClientBuilder::new(service, config.default_namespace.clone());
    Ok(Some(builder.with_layer(manners).build()))
}
