//! The requests from the operator to the agent: JSON files that SFTP uploads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::Service;

/// The desired state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identifies the request's content: the same identifier means the same request.
    pub id: String,
    /// Files that must have the given content before services start.
    pub files: Vec<DesiredFile>,
    /// The services to keep running. Values from the Node object are filled in; the agent fills in values from scripts on
    /// the node.
    pub services: Vec<Service>,
    /// Environment variables for every service of the request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub environment: BTreeMap<String, String>,
    /// Whether the agent may replace services with these names that belong to other owners.
    #[serde(default)]
    pub replace_foreign: bool,
    /// The pipes that each service opens when it works.
    pub pipes: Vec<ServicePipes>,
    /// How long a service's process may take to exit before it is terminated, in seconds.
    pub stop_timeout_seconds: u32,
    /// How long a service may take to start and open its pipes, in seconds.
    pub start_timeout_seconds: u32,
}

/// A file and the content that it must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredFile {
    /// The destination path.
    pub path: String,
    /// The content's SHA-256 in lower-case hexadecimal.
    pub sha256: String,
    /// The uploaded file; absent if the destination should already have this content.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upload: Option<String>,
    /// The compressed file that SFTP uploads; the agent's command unpacks it to `upload`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packed: Option<Packed>,
}

/// A compressed upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Packed {
    /// The path of the uploaded file.
    pub path: String,
    /// The compression format.
    pub format: Format,
    /// The compressed size in bytes. The upload is complete at this size.
    pub size: u64,
    /// The size of the content in bytes. Unpacking fails if the result is larger or smaller.
    pub unpacked_size: u64,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One Zstandard frame, RFC 8878, with a window of at most 8 MiB.
    Zstd,
    /// A format that only a newer operator has.
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
