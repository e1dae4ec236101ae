//! The requests from the operator to the agent: JSON files that SFTP uploads.

use serde::{Deserialize, Serialize};

use crate::paths::CSI_PROXY_EXE;

/// The csi-proxy that a node is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identifies the request's content: the same identifier means the same request.
    pub id: String,
    /// The attempt at this content, in any words: another text asks for another attempt after a rollback. Not part of the
    /// identifier.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub attempt: String,
    /// SHA-256 of csi-proxy's program, in lower-case hexadecimal.
    pub sha256: String,
    /// The uploaded program; absent if it should already be in place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upload: Option<String>,
    /// The compressed file that SFTP uploads; the agent's command unpacks it to `upload`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packed: Option<Packed>,
    /// csi-proxy's flags.
    pub flags: Vec<String>,
    /// Whether the agent may replace a service `csi-proxy` of another owner.
    #[serde(default)]
    pub replace_foreign: bool,
    /// The pipes that csi-proxy opens when it works, without `\\.\pipe\`.
    pub pipes: Vec<String>,
    /// How long the process may take to exit before it is terminated, in seconds.
    pub stop_timeout_seconds: u32,
    /// How long csi-proxy may take to start and open its pipes, in seconds.
    pub start_timeout_seconds: u32,
}

impl Request {
    /// Returns the command line of csi-proxy's service.
    pub fn command(&self) -> String {
        let flags = self.flags.iter().map(String::as_str);
        let words: Vec<&str> = std::iter::once(CSI_PROXY_EXE).chain(flags).collect();
        words.join(" ")
    }
}

/// A compressed upload: one Zstandard frame, RFC 8878, with a window of at most 8 MiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Packed {
    /// The path of the uploaded file.
    pub path: String,
    /// The size of the content in bytes. Unpacking fails if the result is larger or smaller.
    pub unpacked_size: u64,
}
