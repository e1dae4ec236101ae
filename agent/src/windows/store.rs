//! Stores the agent's own files: the journal, the stored request and the memory.

use std::io::Read;
use std::time::Duration;

use protocol::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windows_storage_agent::errors::Context;

use super::{files, log};

/// Reads a file, if it exists.
pub fn load<T: DeserializeOwned>(path: &str) -> Result<Option<T>, Failure> {
    read(path, files::BRIEF)?.context(format_args!("reading {path}"))
}

/// Like [`load`], but waits for the file, and sets aside one that cannot be parsed: the agent must start so that it can be
/// repaired. One that cannot be read may well be right.
pub fn load_or_set_aside<T: DeserializeOwned>(path: &str) -> Result<Option<T>, Failure> {
    let parsed = read(path, files::PATIENCE)?;
    Ok(parsed.unwrap_or_else(|error| {
        log::line(format!("{path}: {error}; it is set aside as {path}.bad"));
        let renamed = files::rename(path, &format!("{path}.bad"));
        log::unless_ok(format_args!("setting {path} aside"), renamed);
        None
    }))
}

/// The inner result says whether it can be parsed.
fn read<T: DeserializeOwned>(
    path: &str,
    patience: Duration,
) -> Result<serde_json::Result<Option<T>>, Failure> {
    let text = files::read_within(path, patience, |mut file| {
        let mut text = Vec::new();
        file.read_to_end(&mut text).map(|_| text)
    })?;
    Ok(text.map(|text| serde_json::from_slice(&text)).transpose())
}

/// Writes a file atomically.
pub fn save<T: Serialize>(path: &str, value: &T) -> Result<(), Failure> {
    let doing = format_args!("writing {path}");
    let text = serde_json::to_vec_pretty(value).context(doing)?;
    files::write_whole(path, &text).context(doing)
}
