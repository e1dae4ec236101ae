//! Probes the servers of named pipes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::time::{Duration, Instant};
use std::{io, thread};

use protocol::Failure;
use protocol::seen::SeenProcess;
use windows_storage_agent::errors::Context;
use windows_storage_agent::grpc::{self, FRAME_HEADER};
use windows_storage_agent::probe::{self, Probe, Problem};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_PIPE_BUSY};

use super::win32::is;
use super::{machine, pipes};

/// How long a server may take to greet before it counts as stuck.
pub const GREETING: Duration = Duration::from_secs(3);

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

fn greeting(pipe: &File, deadline: Instant) -> io::Result<()> {
    let mut header = [0; FRAME_HEADER];
    pipes::read_exactly(pipe, &mut header, deadline)?;
    let length = grpc::greeting(header).ok_or(io::ErrorKind::InvalidData)?;
    pipes::read_exactly(pipe, &mut vec![0; length], deadline)
}

fn path(name: &str) -> String {
    format!(r"\\.\pipe\{name}")
}
