//! The agent's own files: journal, kept request, memory.

use std::{fs, io};

use protocol::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windows_storage_agent::errors::failed_to;

use super::{files, log};

/// Reads a file; `None` where there is none.
pub fn load<T: DeserializeOwned>(path: &str) -> Result<Option<T>, Failure> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed_to(&format!("reading {path}"), &error)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| failed_to(&format!("reading {path}"), &io::Error::from(error)))
}

/// Like [`load`], but sets aside a file that cannot be understood: the agent must come up to be mended.
pub fn load_or_set_aside<T: DeserializeOwned>(path: &str) -> Option<T> {
    match load(path) {
        Ok(value) => value,
        Err(failure) => {
            log::line(format!(
                "{}; it is set aside as {path}.bad",
                failure.message
            ));
            if let Err(error) = files::rename(path, &format!("{path}.bad")) {
                log::line(format!("setting {path} aside: {error}"));
            }
            None
        }
    }
}

/// Writes a file whole.
pub fn save<T: Serialize>(path: &str, value: &T) -> Result<(), Failure> {
    let doing = format!("writing {path}");
    let text = serde_json::to_vec_pretty(value)
        .map_err(|error| failed_to(&doing, &io::Error::from(error)))?;
    files::write_whole(path, &text).map_err(|error| failed_to(&doing, &error))
}

/// Removes a file.
pub fn forget(path: &str) -> Result<(), Failure> {
    files::remove(path).map_err(|error| failed_to(&format!("removing {path}"), &error))
}
