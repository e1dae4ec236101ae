//! Stores the agent's own files: the journal, the stored request and the memory.

use std::{fs, io};

use protocol::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windows_storage_agent::errors::Context;

use super::{files, log};

/// Reads a file; `None` if it does not exist.
pub fn load<T: DeserializeOwned>(path: &str) -> Result<Option<T>, Failure> {
    let doing = format_args!("reading {path}");
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => serde_json::from_slice(&text.context(doing)?)
            .map(Some)
            .context(doing),
    }
}

/// Like [`load`], but sets aside a file that cannot be parsed: the agent must start so that it can be repaired.
pub fn load_or_set_aside<T: DeserializeOwned>(path: &str) -> Option<T> {
    load(path).unwrap_or_else(|failure| {
        log::line(format!("{failure}; it is set aside as {path}.bad"));
        let renamed = files::rename(path, &format!("{path}.bad"));
        log::unless_ok(format_args!("setting {path} aside"), renamed);
        None
    })
}

/// Writes a file atomically.
pub fn save<T: Serialize>(path: &str, value: &T) -> Result<(), Failure> {
    let doing = format_args!("writing {path}");
    let text = serde_json::to_vec_pretty(value).context(doing)?;
    files::write_whole(path, &text).context(doing)
}
