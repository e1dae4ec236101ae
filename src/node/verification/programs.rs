//! The programs that are installed on the host.

use std::path::Path;

use tempfile::TempDir;

use crate::api::WindowsStorageSpec;
use crate::node::Desired;
use crate::node::desired::desired;
use crate::node::payload::{Payload, PayloadError, Program};
use crate::services::{Document, csi_proxy_service};

/// The payload, and programs that differ from it.
pub struct Programs {
    pub payload: Payload,
    /// A csi-proxy of another version, or the same with another hash.
    pub other: Program,
    /// A program that is not csi-proxy.
    pub broken: Program,
    /// The same agent with another hash.
    pub agent: Program,
    /// Upload size of the payload's csi-proxy, in bytes.
    pub travels: u64,
    _folder: TempDir,
}

impl Programs {
    pub fn new(payload: Payload, other: Option<&Path>) -> Result<Self, PayloadError> {
        let folder = tempfile::tempdir()
            .map_err(|cause| PayloadError::Write(std::env::temp_dir(), cause))?;
        let (csi_proxy, agent) = (payload.csi_proxy.unpacked()?, payload.agent.unpacked()?);
        // Windows ignores bytes after the end of a program.
        let another = |content: &[u8]| [content, b"\0"].concat();
        let other = match other {
            Some(path) => {
                std::fs::read(path).map_err(|cause| PayloadError::Read(path.to_owned(), cause))?
            }
            None => another(&csi_proxy),
        };
        let is_packed = payload.csi_proxy.packing.is_some();
        let program = |name: &str, content: &[u8], is_packed| {
            Program::write(&folder.path().join(name), content, is_packed)
        };
        Ok(Self {
            other: program("other", &other, is_packed)?,
            broken: program("broken", &agent, is_packed)?,
            agent: program("agent", &another(&agent), false)?,
            travels: payload.csi_proxy.read()?.len() as u64,
            payload,
            _folder: folder,
        })
    }
}

/// Returns the desired state of a node with this payload and csi-proxy as the only service.
pub fn desired_by(payload: &Payload) -> Desired {
    let document = Document {
        services: vec![csi_proxy_service(&[])],
        ..Document::default()
    };
    desired(payload, &WindowsStorageSpec::default(), &document)
}
