//! The requests that the operator hands to the agent: JSON files that SFTP brings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::Service;

/// What a node shall look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Names the request's content: the same identifier means the same request.
    pub id: String,
    /// Files that must have the given content before services start.
    pub files: Vec<DesiredFile>,
    /// The services to keep running. What comes from the Node object is filled in; what comes from scripts on the node
    /// is for the agent to fill in.
    pub services: Vec<Service>,
    /// Environment variables of every service of the request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub environment: BTreeMap<String, String>,
    /// Whether services of these names of other owners may be replaced.
    #[serde(default)]
    pub replace_foreign: bool,
    /// Pipes that prove that a service works.
    pub pipes: Vec<ServicePipes>,
    /// How long a service's process may take to end before it is terminated, in seconds.
    pub stop_timeout_seconds: u32,
    /// How long a service may take from its start to its pipes, in seconds.
    pub start_timeout_seconds: u32,
}

/// A file and the content that it must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredFile {
    /// Where the file belongs.
    pub path: String,
    /// The content's SHA-256 in lower-case hexadecimal.
    pub sha256: String,
    /// Where SFTP has put the content; absent where the file is said to be right already.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upload: Option<String>,
    /// What SFTP brings in place of the upload, which the agent's command makes from it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packed: Option<Packed>,
}

/// A file that travels compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Packed {
    /// Where SFTP puts it.
    pub path: String,
    /// How it is compressed.
    pub format: Format,
    /// Its size in bytes: it has arrived when there are so many.
    pub size: u64,
    /// The size of the content in bytes; what unpacks to more or less is refused.
    pub unpacked_size: u64,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One frame of Zstandard, RFC 8878, with a window of 8 MiB at most.
    Zstd,
    /// A value of a newer operator.
    #[serde(other)]
    Unknown,
}

/// The named pipes that a service opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePipes {
    /// The service's name.
    pub service: String,
    /// Pipe names without `\\.\pipe\`.
    pub pipes: Vec<String>,
}
