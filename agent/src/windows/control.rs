//! Starting and stopping services for good: with their processes, which outlive the state "stopped".

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::command::{program, same_path};
use protocol::order::key;
use protocol::{Failure, FailureCategory, ServiceState};
use windows_storage_agent::errors::service_failed_to;
use windows_storage_agent::journal::ServiceSettings;
use windows_storage_agent::keep::LINGER;

use super::process::Process;
use super::scm::{OpenService, Scm, is_marked};
use super::{log, pipes};

const POLL: Duration = Duration::from_millis(20);
/// How long Windows may take to end a process that is terminated.
const TERMINATION: Duration = Duration::from_secs(10);

/// What has become of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is there.
    Alive,
    /// It has ended.
    Gone,
    /// There is none, or it cannot be opened.
    Unknown,
}

/// The processes of services, held from when they were seen running.
#[derive(Default)]
pub struct Processes(BTreeMap<String, Process>);

impl Processes {
    /// Holds a service's process.
    pub fn hold(&mut self, service: &str, id: Option<u32>) -> Held {
        let Some(id) = id else { return Held::Unknown };
        if let Some(process) = self.get(service).filter(|process| process.id() == id) {
            return if process.ended() {
                Held::Gone
            } else {
                Held::Alive
            };
        }
        match Process::open(id) {
            Ok(Some(process)) if process.ended() => Held::Gone,
            Ok(Some(process)) => {
                self.0.insert(key(service), process);
                Held::Alive
            }
            Ok(None) => Held::Gone,
            Err(error) => {
                log::line(format!("opening process {id} of {service}: {error}"));
                Held::Unknown
            }
        }
    }

    /// Holds the process that serves one of the pipes, if its program is the service's: it has lived on after its service
    /// stopped while nobody watched. The answer tells of a process that is somebody else's.
    pub fn hold_server(
        &mut self,
        service: &str,
        program: &str,
        wanted: &[String],
    ) -> Option<String> {
        let id = wanted
            .iter()
            .filter(|pipe| pipes::is_open(pipe))
            .find_map(|pipe| pipes::server_of(pipe))?;
        let process = Process::open(id).ok().flatten()?;
        let runs = process.program().unwrap_or_default();
        // The program may have been renamed under it.
        if same_path(&runs, program) || same_path(&runs, &format!("{program}.previous")) {
            self.0.insert(key(service), process);
            return None;
        }
        Some(format!("process {id}, {runs}"))
    }

    /// A service's process, if it is held.
    pub fn get(&self, service: &str) -> Option<&Process> {
        self.0.get(&key(service))
    }

    /// Lets go of processes that have ended; whether a service's process is still there.
    pub fn is_alive(&mut self, service: &str) -> bool {
        if self.get(service).is_some_and(Process::ended) {
            self.0.remove(&key(service));
        }
        self.0.contains_key(&key(service))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Process> {
        self.0.values()
    }
}

/// Stops a service and waits for its process, the one that serves `wanted` included; says when the process was gone, if
/// there was one.
pub fn stop(
    scm: &Scm,
    processes: &mut Processes,
    name: &str,
    wanted: &[String],
    timeout: Duration,
) -> Result<Option<Instant>, Failure> {
    let failed = |error| {
        service_failed_to(
            &format!("stopping service {name}"),
            &error,
            FailureCategory::ServiceStop,
        )
    };
    let Some(service) = scm.open_to_change(name).map_err(failed)? else {
        return Ok(None);
    };
    let mut deadline = Instant::now() + timeout;
    let first = service.status().map_err(failed)?;
    // Before it is asked to stop: afterwards Windows no longer tells.
    processes.hold(name, first.process_id);
    if first.state == ServiceState::Stopped && !processes.is_alive(name) {
        let command = service.settings().map_err(failed)?.command;
        processes.hold_server(name, program(&command).unwrap_or_default(), wanted);
        if !processes.is_alive(name) {
            return Ok(None);
        }
    }
    let mut asked = false;
    let (mut lingers_until, mut noticed_by) = (None, None);
    loop {
        let status = service.status().map_err(failed)?;
        let gone = processes.hold(name, status.process_id) == Held::Gone;
        let stopped = status.state == ServiceState::Stopped;
        if stopped && !processes.is_alive(name) {
            return Ok(Some(Instant::now()));
        }
        if gone {
            // Windows notices at once that a process has ended; Wine never does, but starts such a service all the same.
            if *noticed_by.get_or_insert_with(|| Instant::now() + LINGER) <= Instant::now() {
                return Ok(Some(Instant::now()));
            }
            sleep(POLL);
            continue;
        }
        if stopped {
            deadline = *lingers_until.get_or_insert_with(|| deadline.min(Instant::now() + LINGER));
        }
        if Instant::now() >= deadline {
            return terminate(processes, &service, name);
        }
        if !stopped && !asked {
            asked = service.ask_to_stop().map_err(failed)?;
        }
        match processes.get(name) {
            Some(process) if stopped => {
                process.wait(deadline.saturating_duration_since(Instant::now()));
            }
            _ => sleep(POLL),
        }
    }
}

fn terminate(
    processes: &mut Processes,
    service: &OpenService,
    name: &str,
) -> Result<Option<Instant>, Failure> {
    let stuck = |why: &str| {
        Failure::new(
            FailureCategory::ServiceStop,
            format!("service {name} does not stop in time, and {why}"),
        )
    };
    let process = processes
        .get(name)
        .ok_or_else(|| stuck("its process is not known"))?;
    log::line(format!(
        "service {name} stops, but its process {} does not end in time; it is terminated",
        process.id()
    ));
    process
        .terminate()
        .map_err(|error| stuck(&format!("its process cannot be terminated: {error}")))?;
    if !process.wait(TERMINATION) {
        return Err(stuck("its process survives its termination"));
    }
    let gone = Instant::now();
    while service
        .status()
        .is_ok_and(|status| status.state != ServiceState::Stopped)
        && gone.elapsed() < LINGER
    {
        sleep(POLL);
    }
    Ok(Some(gone))
}

/// Makes a service or changes it. One that is about to be deleted can neither be changed nor made; that is waited for.
pub fn configure(
    scm: &Scm,
    name: &str,
    settings: &ServiceSettings,
    deadline: Instant,
) -> Result<(), Failure> {
    loop {
        match scm.configure(name, settings) {
            Err(error) if is_marked(&error) && Instant::now() < deadline => sleep(POLL),
            result => {
                return result.map(drop).map_err(|error| {
                    service_failed_to(
                        &format!("configuring service {name}"),
                        &error,
                        FailureCategory::ServiceStart,
                    )
                });
            }
        }
    }
}

/// Deletes a service, if it is there.
pub fn delete(scm: &Scm, name: &str) -> Result<(), Failure> {
    scm.open_to_change(name)
        .and_then(|service| service.map_or(Ok(()), |service| service.delete()))
        .map_err(|error| {
            service_failed_to(
                &format!("deleting service {name}"),
                &error,
                FailureCategory::ServiceStop,
            )
        })
}

/// Whether the Service Control Manager calls a service running.
pub fn is_running(scm: &Scm, name: &str) -> bool {
    scm.open(name)
        .and_then(|service| service.map(|service| service.status()).transpose())
        .is_ok_and(|status| status.is_some_and(|status| status.state == ServiceState::Running))
}

/// Starts a service and waits until the Service Control Manager calls it running.
pub fn start(
    scm: &Scm,
    processes: &mut Processes,
    name: &str,
    deadline: Instant,
) -> Result<(), Failure> {
    let failed = |error| {
        service_failed_to(
            &format!("starting service {name}"),
            &error,
            FailureCategory::ServiceStart,
        )
    };
    let gone = || {
        Failure::new(
            FailureCategory::ServiceStart,
            format!("service {name} is not there"),
        )
    };
    let service = scm.open_to_change(name).map_err(failed)?.ok_or_else(gone)?;
    service.start().map_err(failed)?;
    loop {
        let status = service.status().map_err(failed)?;
        let gone = processes.hold(name, status.process_id) == Held::Gone;
        match status.state {
            ServiceState::Running => return Ok(()),
            // Wine goes on calling such a service starting.
            ServiceState::StartPending if gone => {
                let message = format!("service {name} ended while it started");
                return Err(Failure::new(FailureCategory::ServiceStart, message));
            }
            ServiceState::Stopped => {
                let message = format!(
                    "service {name} ended right after its start, with exit code {}",
                    status.exit_code
                );
                return Err(Failure::new(FailureCategory::ServiceStart, message));
            }
            state if Instant::now() >= deadline => {
                let message = format!("service {name} is not running in time, but {state:?}");
                return Err(Failure::new(FailureCategory::ServiceStart, message));
            }
            _ => sleep(POLL),
        }
    }
}

/// Waits until a service has opened all its pipes.
pub fn await_pipes(
    scm: &Scm,
    processes: &mut Processes,
    name: &str,
    wanted: &[String],
    deadline: Instant,
) -> Result<(), Failure> {
    let mut missing: Vec<&String> = wanted.iter().collect();
    loop {
        missing.retain(|pipe| !pipes::is_open(pipe));
        if missing.is_empty() {
            return Ok(());
        }
        if has_ended(scm, processes, name) {
            let message = format!(
                "service {name} ended before it opened all its pipes; {}",
                names(&missing, "missing")
            );
            return Err(Failure::new(FailureCategory::ServiceStart, message));
        }
        if Instant::now() >= deadline {
            let message = format!(
                "service {name} runs but does not open all its pipes; {}",
                names(&missing, "missing")
            );
            return Err(Failure::new(FailureCategory::PipesMissing, message));
        }
        sleep(POLL);
    }
}

/// Waits until nobody serves a service's pipes any more: its old process, or one that somebody else started, holds them.
pub fn await_pipes_free(
    processes: &mut Processes,
    name: &str,
    wanted: &[String],
    deadline: Instant,
) -> Result<(), Failure> {
    let mut held: Vec<&String> = wanted.iter().collect();
    loop {
        held.retain(|pipe| pipes::is_open(pipe));
        if held.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let who = processes
                .hold_server(name, "", wanted)
                .unwrap_or_else(|| "an unknown process".to_owned());
            let message = format!(
                "the pipes of service {name} are served by {who}, so it cannot start; {}",
                names(&held, "held")
            );
            return Err(Failure::new(FailureCategory::Foreign, message));
        }
        sleep(POLL);
    }
}

/// Whether a service that was started has ended again.
fn has_ended(scm: &Scm, processes: &mut Processes, name: &str) -> bool {
    let status = scm
        .open(name)
        .and_then(|service| service.map(|service| service.status()).transpose());
    match status {
        Ok(Some(status)) if status.state != ServiceState::Stopped => {
            processes.hold(name, status.process_id) == Held::Gone
        }
        Ok(_) => true,
        Err(_) => false,
    }
}

fn names(pipes: &[&String], what: &str) -> String {
    let shown: Vec<&str> = pipes.iter().take(5).map(|pipe| pipe.as_str()).collect();
    let more = pipes.len() - shown.len();
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{what}: {}{rest}", shown.join(", "))
}
