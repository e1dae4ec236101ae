//! Runs the `PowerShell` scripts of services.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::windows::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use protocol::Failure;
use protocol::document::PreScript;
use windows_storage_agent::errors::Context;
use windows_storage_agent::scripts::{LONGEST_VALUE, Ran, TIME_LIMIT, arguments};
use windows_sys::Win32::Storage::FileSystem::FILE_SHARE_READ;

use super::job::Job;
use super::process::wait;
use super::win32::from_console;
use super::{log, owners};

/// The full path, so that no other program of that name can take its place.
const POWERSHELL: &str = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe";
/// How much of a script's output is read: more than the longest value, with the whitespace that is trimmed.
const LONGEST_OUTPUT: u64 = 16 * LONGEST_VALUE as u64;
/// How long a process that a script started may keep the output open after the script has ended.
const OUTPUT: Duration = Duration::from_secs(5);

/// Runs a script until it ends or its time limit expires.
pub fn run(script: &PreScript) -> Ran {
    let path = &script.path;
    // Kept open so that it cannot be replaced after the check.
    let _held = match checked(path) {
        Ok(file) => file,
        Err(failure) => return Ran::failed(failure.message),
    };
    log::line(format!("script {path} runs"));
    let job = Job::new();
    let started = Command::new(POWERSHELL)
        .args(arguments(script))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let not_started = |error| Ran::failed(format!("PowerShell could not be started: {error}"));
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return not_started(error),
    };
    // This is early enough: PowerShell needs longer to reach the first line of a script.
    let held = job.and_then(|job| job.take(&child).map(|()| job));
    let (printed, complaint) = (
        beginning(child.stdout.take()),
        beginning(child.stderr.take()),
    );
    let problem = if wait(&child, TIME_LIMIT) {
        if let Ok(job) = &held {
            job.let_go();
        }
        let code = child
            .wait()
            .ok()
            .and_then(|status| status.code())
            .unwrap_or(-1);
        (code != 0).then(|| format!("it ended with exit status {code}"))
    } else {
        end(&mut child, held);
        Some(format!("it did not end within {} s", TIME_LIMIT.as_secs()))
    };
    let read = |output: Receiver<Vec<u8>>| output.recv_timeout(OUTPUT).unwrap_or_default();
    Ran {
        problem,
        printed: read(printed),
        complaint: from_console(&read(complaint)),
    }
}

/// Opens the script after checking that only administrators can change it.
fn checked(path: &str) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.read(true).share_mode(FILE_SHARE_READ);
    let file = options.open(path).context("opening it")?;
    owners::check_script(path)?;
    owners::check_program(POWERSHELL)?;
    Ok(file)
}

/// Terminates a script and all processes that it started.
fn end(child: &mut Child, held: std::io::Result<Job>) {
    match held {
        Ok(job) => drop(job),
        Err(error) => log::line(format!("what a script has started may live on: {error}")),
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads an output to its end in a separate thread, and keeps the beginning.
fn beginning(output: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, read) = channel();
    if let Some(output) = output {
        thread::spawn(move || {
            let mut text = Vec::new();
            let mut start = output.take(LONGEST_OUTPUT);
            let _ = start.read_to_end(&mut text);
            // Drain the rest, so that a script that writes more does not block forever.
            let _ = std::io::copy(&mut start.into_inner(), &mut std::io::sink());
            let _ = sender.send(text);
        });
    }
    read
}
