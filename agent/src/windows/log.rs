//! The agent's own log: a line for each decision.

use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};
use std::time::SystemTime;

use protocol::paths::AGENT_LOG_DIR;
use windows_storage_agent::rotation::Rotating;
use windows_storage_agent::timestamp::rfc3339;

/// In bytes, for each of two files.
const LARGEST: u64 = 2 << 20;

static LOG: LazyLock<Mutex<Rotating>> = LazyLock::new(|| {
    let path = PathBuf::from(format!(r"{AGENT_LOG_DIR}\agent.log"));
    Mutex::new(Rotating::new(path, LARGEST))
});

/// Writes one line.
pub fn line(text: impl AsRef<str>) {
    let line = format!(
        "{} {}\n",
        rfc3339(SystemTime::now()),
        text.as_ref().replace(['\r', '\n'], " ")
    );
    if let Ok(mut log) = LOG.lock() {
        log.append(&line);
    }
}
