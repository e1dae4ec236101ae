//! Running the scripts of services.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use protocol::document::PreScript;
use windows_storage_agent::scripts::{LONGEST_VALUE, TIME_LIMIT, arguments};

use super::log;
use super::process::wait;

/// By its full path, so that no other program of that name can take its place.
const POWERSHELL: &str = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe";
/// What is read of a script's output: more than a value may have, with what is trimmed from it.
const LONGEST_OUTPUT: u64 = 16 * LONGEST_VALUE as u64;
/// How long the output of a script that has ended may be kept open by a process that it has started.
const OUTPUT: Duration = Duration::from_secs(5);

/// Runs a script to its end, or to the end of its time; the beginning of what it printed, or why it did not work.
pub fn run(script: &PreScript) -> Result<Vec<u8>, String> {
    log::line(format!("script {} runs", script.path));
    let started = Command::new(POWERSHELL)
        .args(arguments(script))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let not_started = |error| format!("PowerShell could not be started: {error}");
    let mut child = started.map_err(not_started)?;
    let (sender, output) = channel();
    if let Some(pipe) = child.stdout.take() {
        thread::spawn(move || {
            let mut text = Vec::new();
            let mut start = pipe.take(LONGEST_OUTPUT);
            let _ = start.read_to_end(&mut text);
            // Whoever writes more is not to wait for a reader for ever.
            let _ = std::io::copy(&mut start.into_inner(), &mut std::io::sink());
            let _ = sender.send(text);
        });
    }
    if !wait(&child, TIME_LIMIT) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("it did not end within {} s", TIME_LIMIT.as_secs()));
    }
    let status = child.wait().map_err(not_started)?;
    if !status.success() {
        let code = status.code().unwrap_or(-1);
        return Err(format!("it ended with exit status {code}"));
    }
    Ok(output.recv_timeout(OUTPUT).unwrap_or_default())
}
