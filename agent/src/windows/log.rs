//! The agent's own log: a line for each decision, two files of bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::sync::Mutex;
use std::time::SystemTime;

use windows_storage_agent::paths::AGENT_LOG_DIR;
use windows_storage_agent::timestamp::rfc3339;

const LARGEST: u64 = 2 << 20;

static OPEN: Mutex<Option<(File, u64)>> = Mutex::new(None);

/// Writes one line. A log that cannot be written must not stop the work.
pub fn line(text: impl AsRef<str>) {
    let line = format!(
        "{} {}\n",
        rfc3339(SystemTime::now()),
        text.as_ref().replace(['\r', '\n'], " ")
    );
    let Ok(mut open) = OPEN.lock() else { return };
    if open.as_ref().is_some_and(|(_, size)| *size >= LARGEST) {
        *open = None;
    }
    if open.is_none() {
        *open = reopen();
    }
    if let Some((file, size)) = open.as_mut()
        && file.write_all(line.as_bytes()).is_ok()
    {
        *size += line.len() as u64;
    }
}

fn reopen() -> Option<(File, u64)> {
    let path = format!(r"{AGENT_LOG_DIR}\agent.log");
    if fs::metadata(&path).is_ok_and(|there| there.len() >= LARGEST) {
        // Where somebody holds the old file open, the current one is emptied: the bound matters more than its content.
        let moved = fs::rename(&path, format!("{path}.1")).is_ok();
        if !moved {
            File::create(&path).ok()?;
        }
    }
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .ok()?;
    let size = file.metadata().ok()?.len();
    Some((file, size))
}
