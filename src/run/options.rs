//! Options of the controller, and the reasons why it ends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;

use crate::client::{Revisions, WentBack};
use crate::gate::GateObject;
use crate::http::Metrics;
use crate::lease::{Fence, Lost};
use crate::node::payload::PayloadError;

/// Options of the controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The operator's own namespace.
    pub namespace: String,
    /// The `OperatorCondition` to write, if OLM is present.
    pub operator_condition: Option<String>,
    /// The Kubernetes version of the API server at the start.
    pub kubernetes_version: String,
    /// Between two checks of a node that is well.
    pub probe_interval: Duration,
    /// Folder with the programs for Windows nodes.
    pub payload_dir: PathBuf,
    /// Address for health and metrics; not served if absent.
    pub serve_address: Option<SocketAddr>,
    /// Address for metrics over TLS; not served if absent.
    pub metrics_address: Option<SocketAddr>,
    /// Folder with `tls.crt` and `tls.key` for TLS; without it, a certificate is generated.
    pub metrics_cert_dir: Option<PathBuf>,
    /// Metrics, which count from the first request on.
    pub metrics: Metrics,
    /// The pod of this process, for events.
    pub instance: Option<String>,
    /// The name of this candidate in the election; absent if there is no election.
    pub identity: Option<String>,
    /// The fence that all changes pass, including the client's requests: closed until an election is won, or open if
    /// there is none.
    pub fence: Fence,
    /// How far the client's lists have come.
    pub revisions: Revisions,
}

impl Options {
    /// Returns the gate, if there is one to write, and notes how far it has come.
    pub(super) fn gate(&self, client: &Client, revisions: &Revisions) -> Option<GateObject> {
        let name = self.operator_condition.clone()?;
        let (client, namespace) = (client.clone(), &self.namespace);
        Some(GateObject::new(client, namespace, name, revisions.clone()))
    }
}

/// Why the controller ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The programs for Windows nodes cannot be used.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// An address for health or metrics cannot be used.
    #[error("cannot serve {what} on {address}: {cause}; choose another with {option}")]
    Serve {
        /// What was to be served.
        what: &'static str,
        /// The option that sets the address.
        option: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The API server answers from another store than before.
    #[error(transparent)]
    WentBack(#[from] WentBack),
    /// A watch ended, which never happens in normal operation.
    #[error("a watch of the cluster ended unexpectedly")]
    Watch,
    /// The task of a node ended, which never happens in normal operation.
    #[error("the task of node {0} ended unexpectedly")]
    Worker(String),
    /// The lease was lost: another process may lead now, or soon.
    #[error(transparent)]
    LeaseLost(#[from] Lost),
}
