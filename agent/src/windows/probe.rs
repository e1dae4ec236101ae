//! Probes the servers of named pipes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use protocol::Failure;
use protocol::seen::SeenProcess;
use windows_storage_agent::errors::Context;
use windows_storage_agent::grpc::{CALL, FRAME_HEADER, Frame, METHOD, Verdict};
use windows_storage_agent::probe::{self, Probe, Problem};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_PIPE_BUSY};

use super::win32::is;
use super::{machine, pipes};

/// How long a server may take to greet before it counts as stuck.
pub const GREETING: Duration = Duration::from_secs(3);
/// How long a call may take: Windows may have to read from a slow disk.
const ANSWER: Duration = Duration::from_secs(10);
/// The pipe of csi-proxy that serves [`METHOD`].
const CALLED: &str = "csi-proxy-filesystem-v1";

/// Probes all these pipes at the same time.
pub fn all<'a>(
    names: impl Iterator<Item = &'a String>,
    limit: Duration,
) -> BTreeMap<String, Probe> {
    let names: BTreeSet<&String> = names.collect();
    thread::scope(|scope| {
        let probes: Vec<_> = names
            .into_iter()
            .map(|name| (name, scope.spawn(move || one(name, limit))))
            .collect();
        let probes = probes.into_iter().map(|(name, probe)| {
            let probe = probe.join();
            let probe = probe.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (name.clone(), probe)
        });
        probes.collect()
    })
}

fn one(name: &str, limit: Duration) -> Probe {
    let deadline = Instant::now() + limit;
    let pipe = match pipes::connect(&path(name), deadline) {
        Ok(pipe) => pipe,
        Err(error) if is(&error, ERROR_FILE_NOT_FOUND) || is(&error, ERROR_PATH_NOT_FOUND) => {
            // A name without a server cannot be opened, but it exists: clients wait for it, and no new server can create it.
            return if pipes::is_open(name) {
                Probe::Kept
            } else {
                Probe::Closed
            };
        }
        Err(error) if is(&error, ERROR_PIPE_BUSY) => return Probe::Busy,
        Err(_) => return Probe::Silent(None),
    };
    let server = pipes::server_process(&pipe).ok();
    match greeting(&pipe, deadline) {
        Ok(()) => Probe::Greets(server),
        Err(_) => Probe::Silent(server),
    }
}

/// Returns the processes that serve these pipes, to tell them apart from the service's own.
pub fn processes(probes: &BTreeMap<String, Probe>) -> io::Result<Vec<SeenProcess>> {
    let servers: BTreeSet<u32> = probes.values().filter_map(|probe| probe.server()).collect();
    let servers: Vec<u32> = servers.into_iter().collect();
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    machine::processes(&servers)
}

/// Returns the first of a service's pipes on which it cannot be used; `own` is the service's process.
pub fn first_problem(
    wanted: &[String],
    own: Option<u32>,
) -> Result<Option<(String, Problem)>, Failure> {
    first_of(&all(wanted.iter(), GREETING), own)
}

/// Returns the first problem among these results.
pub fn first_of(
    probes: &BTreeMap<String, Probe>,
    own: Option<u32>,
) -> Result<Option<(String, Problem)>, Failure> {
    let processes = processes(probes).context("listing processes")?;
    Ok(probe::first_problem(probes, own, &processes))
}

/// Checks that csi-proxy answers a real call, if one of these pipes supports it.
pub fn check_call(names: &[String]) -> Result<(), String> {
    if !names.iter().any(|name| name == CALLED) {
        return Ok(());
    }
    // In a separate thread: a write to a pipe whose server does not read blocks for as long as that server lives.
    let (sender, result) = channel();
    let thread = thread::Builder::new().spawn(move || {
        let _ = sender.send(call());
    });
    let ended = thread.and_then(|_| {
        let ended = result.recv_timeout(ANSWER);
        ended.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    });
    match ended {
        Ok(Verdict::Answered) => Ok(()),
        Ok(Verdict::Refused) => Err(format!("{METHOD} is refused on pipe {CALLED}")),
        Err(error) => Err(format!(
            "{METHOD} is not answered on pipe {CALLED}: {error}"
        )),
    }
}

fn call() -> io::Result<Verdict> {
    let deadline = Instant::now() + ANSWER;
    let pipe = pipes::connect(&path(CALLED), deadline)?;
    greeting(&pipe, deadline)?;
    (&pipe).write_all(CALL)?;
    loop {
        if let Some(verdict) = read_frame(&pipe, deadline)?.verdict() {
            return Ok(verdict);
        }
    }
}

fn greeting(pipe: &File, deadline: Instant) -> io::Result<()> {
    let greets = read_frame(pipe, deadline)?.is_greeting();
    greets
        .then_some(())
        .ok_or(io::ErrorKind::InvalidData.into())
}

/// Reads a frame and discards its content.
fn read_frame(pipe: &File, deadline: Instant) -> io::Result<Frame> {
    let mut header = [0; FRAME_HEADER];
    pipes::read_exactly(pipe, &mut header, deadline)?;
    let frame = Frame::parse(header).ok_or(io::ErrorKind::InvalidData)?;
    pipes::read_exactly(pipe, &mut vec![0; frame.length], deadline)?;
    Ok(frame)
}

fn path(name: &str) -> String {
    format!(r"\\.\pipe\{name}")
}
