//! Stores the agent's own files: the journal, the last request and the history.

use std::{fs, io};

use protocol::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windows_storage_agent::errors::Context;

use super::{files, log};

/// Reads a file; `None` where there is none.
pub fn load<T: DeserializeOwned>(path: &str) -> Result<Option<T>, Failure> {
    let doing = format_args!("reading {path}");
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => serde_json::from_slice(&text.context(doing)?)
            .map(Some)
            .context(doing),
    }
}

/// Like [`load`], but sets aside a file that cannot be understood: the agent must come up to be mended.
pub fn load_or_set_aside<T: DeserializeOwned>(path: &str) -> Option<T> {
    load(path).unwrap_or_else(|failure| {
        log::line(format!("{failure}; it is set aside as {path}.bad"));
        let renamed = files::rename(path, &format!("{path}.bad"));
        log::unless_ok(format_args!("setting {path} aside"), renamed);
        None
    })
}

/// Writes a file whole.
pub fn save<T: Serialize>(path: &str, value: &T) -> Result<(), Failure> {
    let doing = format_args!("writing {path}");
    let text = serde_json::to_vec_pretty(value).context(doing)?;
    files::write_whole(path, &text).context(doing)
}
