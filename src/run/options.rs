//! The options of the controller, and the reasons why it ends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kube::{Api, Client};

use crate::gate::GateObject;
use crate::http::Metrics;
use crate::lease::{Candidacy, Fence, Lost};
use crate::logs::Levels;
use crate::payload::PayloadError;

/// How long a single pass tries to read and write.
pub(super) const ONCE_LIMIT: Duration = Duration::from_secs(60);

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The operator's own namespace.
    pub namespace: String,
    /// The `OperatorCondition` to write, where OLM is there.
    pub operator_condition: Option<String>,
    /// The Kubernetes version of the API server, as it was at the start.
    pub kubernetes_version: String,
    /// Where the programs for Windows nodes are.
    pub payload_dir: PathBuf,
    /// Where health and metrics are served; nowhere if absent.
    pub serve_address: Option<SocketAddr>,
    /// Where metrics are served over TLS; nowhere if absent.
    pub metrics_address: Option<SocketAddr>,
    /// Where `tls.crt` and `tls.key` for that are; without them a certificate is made.
    pub metrics_cert_dir: Option<PathBuf>,
    /// What is counted from the first request on.
    pub metrics: Metrics,
    /// What follows `spec.logLevel`.
    pub levels: Levels,
    /// The pod that this process is, as events name it.
    pub instance: Option<String>,
    /// Who wants to lead; absent where there is no election.
    pub candidacy: Option<Candidacy>,
    /// What all that changes something goes past, the client's requests among them: closed until an election is won, or
    /// open where there is none.
    pub fence: Fence,
    /// One full pass, then the end.
    pub once: bool,
}

impl Options {
    /// The gate, where there is one to write.
    pub(super) fn gate(&self, client: &Client) -> Option<GateObject> {
        let name = self.operator_condition.clone()?;
        let api = Api::namespaced(client.clone(), &self.namespace);
        Some(GateObject::new(api, name))
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
        /// What was to be served there.
        what: &'static str,
        /// What says where.
        option: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// A watch ended, which none does by itself.
    #[error("a watch of the cluster ended unexpectedly")]
    Watch,
    /// The task of a node ended, which none does by itself.
    #[error("the task of node {0} ended unexpectedly")]
    Worker(String),
    /// A single pass could not read the cluster: the kinds that are missing, and why.
    #[error("the cluster could not be read within {limit} s: {0}", limit = ONCE_LIMIT.as_secs())]
    Unread(String),
    /// Another process may lead now, or soon.
    #[error(transparent)]
    LeaseLost(#[from] Lost),
    /// A single pass was never allowed to begin, for that reason.
    #[error(
        "another operator leads: {0}; a pass of its own begins only when that one has ended and its lease is over"
    )]
    NotLeading(String),
    /// A single pass was to stop before it was done.
    #[error("asked to stop before the pass was done")]
    Interrupted,
    /// A single pass could not write what it found.
    #[error("not everything could be written within {limit} s: {0}", limit = ONCE_LIMIT.as_secs())]
    Unwritten(String),
}
