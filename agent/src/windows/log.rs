//! Writes the agent's own log: one line for each decision.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use protocol::paths::AGENT_LOG_DIR;
use windows_storage_agent::rotation::Rotating;

use super::win32::now;

/// The maximum size of each of the two files, in bytes.
const LARGEST: u64 = 2 << 20;

static LOG: LazyLock<Mutex<Rotating>> = LazyLock::new(|| {
    let path = PathBuf::from(format!(r"{AGENT_LOG_DIR}\agent.log"));
    Mutex::new(Rotating::new(path, LARGEST))
});

/// Writes one line.
pub fn line(text: impl AsRef<str>) {
    let text = text.as_ref().replace(['\r', '\n'], " ");
    if let Ok(mut log) = LOG.lock() {
        log.append(&format!("{} {text}\n", now()));
    }
}

/// Closes the file; the next line opens it again.
pub fn close() {
    if let Ok(mut log) = LOG.lock() {
        log.close();
    }
}

/// Logs a failure on which nothing else depends.
pub fn unless_ok<T>(doing: impl Display, result: Result<T, impl Display>) {
    if let Err(error) = result {
        line(format!("{doing}: {error}"));
    }
}
