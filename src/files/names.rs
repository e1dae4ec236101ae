//! What the name of a file shows.

use std::path::Path;

use crate::visible::visible;

/// How messages call standard input.
pub(super) const STANDARD_INPUT: &str = "standard input";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Yaml,
    Json,
}

/// Returns the format by the file's extension.
pub(super) fn format_of(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_ascii_lowercase();
    match extension.to_str()? {
        "yaml" | "yml" => Some(Format::Yaml),
        "json" => Some(Format::Json),
        _ => None,
    }
}

pub(super) fn name_of(path: &Path) -> String {
    visible(&path.to_string_lossy())
}
