//! Computes the desired state of a Windows node from the payload and the settings.

use protocol::Request;

use crate::api::{ForeignService, WindowsStorageSpec};
use crate::assess::{advisories, versions};
use crate::node::payload::{Payload, sha256_hex};
use crate::node::{Desired, NodeError, Reason};
use crate::services::CSI_PROXY_PIPES;

/// Seconds that a service's process may take to stop.
const STOP_TIMEOUT_SECONDS: u32 = 30;
/// Seconds from a service's start until its pipes answer.
const START_TIMEOUT_SECONDS: u32 = 60;

/// Checks that the payload's csi-proxy may be installed on nodes.
pub(super) fn check_version(payload: &Payload, spec: &WindowsStorageSpec) -> Result<(), NodeError> {
    let version = &payload.csi_proxy.version;
    let number = |version: &str| version.trim_start_matches('v').to_owned();
    if let Some(pin) = &spec.csi_proxy.version
        && number(pin) != number(version)
    {
        return Err(Reason::OtherVersion.error(format!(
            "spec.csiProxy.version of WindowsStorage, or the version of the node's pool, is {pin}, and this operator brings csi-proxy {version}, so no csi-proxy and no agent \
             is brought to the node; change the field, or take the operator that brings {pin}"
        )));
    }
    let problem = match versions::parse(version) {
        Some(number) => match advisories::on(advisories::CSI_PROXY, &number).next() {
            Some(advisory) => advisory.happens.as_str(),
            None => return Ok(()),
        },
        None => ", which has a version that says nothing about its age",
    };
    Err(Reason::VulnerableVersion.error(format!(
        "the payload has csi-proxy {version}{problem}, so it is not brought to any node; take an operator with a newer one"
    )))
}

/// Returns the desired state of nodes on which csi-proxy runs with these flags.
pub(super) fn desired(payload: &Payload, spec: &WindowsStorageSpec, flags: Vec<String>) -> Desired {
    let mut request = Request {
        id: String::new(),
        attempt: String::new(),
        sha256: payload.csi_proxy.sha256.clone(),
        upload: None,
        packed: None,
        flags,
        replace_foreign: spec.csi_proxy.foreign_service == ForeignService::Replace,
        pipes: CSI_PROXY_PIPES.map(str::to_owned).to_vec(),
        stop_timeout_seconds: STOP_TIMEOUT_SECONDS,
        start_timeout_seconds: START_TIMEOUT_SECONDS,
    };
    // Plain data always serializes; an empty text would only give all such requests the same ID.
    let text = serde_json::to_string(&request).unwrap_or_default();
    request.id = sha256_hex(text.as_bytes());
    request.attempt.clone_from(&spec.rollout.resume);
    let agent_sha256 = payload.agent.sha256.clone();
    Desired {
        revision: sha256_hex(format!("{agent_sha256} {}", request.id).as_bytes()),
        agent_sha256,
        request,
    }
}
