//! Starts and stops services. A stop includes the service's process, which can outlive the state "stopped".

use std::collections::BTreeMap;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::command::{program, same_path};
use protocol::{Failure, FailureCategory, ServiceState};
use windows_storage_agent::errors::{Context, may_start_again};
use windows_storage_agent::keep::LINGER;
use windows_storage_agent::probe::Problem;
use windows_storage_agent::wanted::ServiceSettings;

use super::log;
use super::probe::{self, GREETING};
use super::process::Process;
use super::scm::{CHANGE, OpenService, Scm, is_marked};

const POLL: Duration = Duration::from_millis(20);
/// How long Windows may take to end a terminated process.
const TERMINATION: Duration = Duration::from_secs(10);

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It runs.
    Alive,
    /// It has ended.
    Gone,
    /// There is no process, or it cannot be opened.
    Unknown,
}

/// The machine's services, with open handles to the processes of those that were seen running.
pub struct Services {
    /// The Service Control Manager.
    pub scm: Scm,
    /// By the service's name.
    processes: BTreeMap<String, Process>,
}

impl Services {
    /// Connects to the Service Control Manager.
    pub fn connect() -> Result<Self, Failure> {
        Ok(Self {
            scm: Scm::connect().context("reaching the Service Control Manager")?,
            processes: BTreeMap::new(),
        })
    }

    /// Keeps a handle to a service's process; returns its state.
    pub fn hold(&mut self, service: &str, id: Option<u32>) -> Held {
        let Some(id) = id else { return Held::Unknown };
        if let Some(process) = self.process(service).filter(|process| process.id() == id) {
            let ended = process.has_ended();
            return if ended { Held::Gone } else { Held::Alive };
        }
        match Process::open(id) {
            Ok(Some(process)) if !process.has_ended() => {
                self.processes.insert(service.to_owned(), process);
                Held::Alive
            }
            Ok(_) => Held::Gone,
            Err(error) => {
                log::line(format!("opening process {id} of {service}: {error}"));
                Held::Unknown
            }
        }
    }

    /// Keeps a handle to the process that serves one of the pipes if it runs the service's program: it outlived its service
    /// while no handle was open. Otherwise returns the problem at the pipes' names, if any.
    pub fn hold_server(
        &mut self,
        service: &str,
        program: &str,
        wanted: &[String],
    ) -> Option<(String, Problem)> {
        let probes = probe::all(wanted.iter(), GREETING);
        for id in probes.values().filter_map(|probe| probe.server()) {
            let Ok(Some(process)) = Process::open(id) else {
                continue;
            };
            let runs = process.program().unwrap_or_default();
            // The program may have been renamed while it ran.
            if same_path(&runs, program) || same_path(&runs, &format!("{program}.previous")) {
                self.processes.insert(service.to_owned(), process);
                return None;
            }
        }
        probe::first_of(&probes, None).unwrap_or_default()
    }

    /// Returns a service's process, if a handle to it is open.
    fn process(&self, service: &str) -> Option<&Process> {
        self.processes.get(service)
    }

    /// Returns all processes with an open handle.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// Returns whether a service's process is still running; drops the handle to one that has ended.
    pub fn check_alive(&mut self, service: &str) -> bool {
        if self.process(service).is_some_and(Process::has_ended) {
            self.processes.remove(service);
        }
        self.processes.contains_key(service)
    }

    /// Stops a service and waits for its process, including one that still serves `wanted`. Returns when the process was
    /// gone, if there was one.
    pub fn stop(
        &mut self,
        name: &str,
        wanted: &[String],
        timeout: Duration,
    ) -> Result<Option<Instant>, Failure> {
        let doing = format!("stopping service {name}");
        let Some(service) = self.scm.open(name, CHANGE).context(&doing)? else {
            return Ok(None);
        };
        let mut deadline = Instant::now() + timeout;
        let first = service.status().context(&doing)?;
        // Before the stop request: afterwards Windows no longer reports the process.
        self.hold(name, first.process_id);
        if first.state == ServiceState::Stopped && !self.check_alive(name) {
            let settings = service.settings(name).context(&doing)?;
            let program = program(&settings.command).unwrap_or_default();
            self.hold_server(name, program, wanted);
            if !self.check_alive(name) {
                return Ok(None);
            }
        }
        let mut asked = false;
        let (mut lingers_until, mut noticed_by) = (None, None);
        loop {
            let status = service.status().context(&doing)?;
            let gone = self.hold(name, status.process_id) == Held::Gone;
            let stopped = status.state == ServiceState::Stopped;
            let now = Instant::now();
            if stopped && !self.check_alive(name) {
                return Ok(Some(now));
            }
            if status.is_shared && stopped {
                // The process keeps running for other services.
                self.processes.remove(name);
                return Ok(Some(now));
            }
            if status.is_shared && now >= deadline {
                let message = format!("service {name} does not stop in time");
                return Err(FailureCategory::Other.failure(message));
            }
            if gone {
                // Windows notices at once that a process has ended. Wine never does, but it starts such a service anyway.
                if *noticed_by.get_or_insert(now + LINGER) <= now {
                    return Ok(Some(now));
                }
                sleep(POLL);
                continue;
            }
            if stopped {
                deadline = *lingers_until.get_or_insert(deadline.min(now + LINGER));
            }
            if now >= deadline {
                return self.terminate(&service, name).map(Some);
            }
            if !stopped && !asked {
                asked = service.ask_to_stop().context(&doing)?;
            }
            match self.process(name).filter(|_| stopped) {
                Some(process) => drop(process.wait(deadline.saturating_duration_since(now))),
                None => sleep(POLL),
            }
        }
    }

    /// Terminates the process of a service that does not stop; returns when it was gone.
    fn terminate(&self, service: &OpenService, name: &str) -> Result<Instant, Failure> {
        let stuck = |why: &str| {
            let message = format!("service {name} does not stop in time, and {why}");
            FailureCategory::Other.failure(message)
        };
        let process = self.process(name);
        let process = process.ok_or_else(|| stuck("its process is not known"))?;
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
        let has_stopped = |status: super::scm::Status| status.state == ServiceState::Stopped;
        while !service.status().is_ok_and(has_stopped) && gone.elapsed() < LINGER {
            sleep(POLL);
        }
        Ok(gone)
    }

    /// Creates or changes a service. A service that is marked for deletion can be neither changed nor created, so this waits
    /// until it is gone.
    pub fn configure(
        &self,
        name: &str,
        settings: &ServiceSettings,
        patience: Duration,
    ) -> Result<(), Failure> {
        let begin = Instant::now();
        loop {
            match self.scm.configure(name, settings) {
                Err(error) if is_marked(&error) && begin.elapsed() < patience => sleep(POLL),
                result => {
                    let result = result.context(format_args!("configuring service {name}"));
                    return result.map(drop);
                }
            }
        }
    }

    /// Deletes a service, if it exists.
    pub fn delete(&self, name: &str) -> Result<(), Failure> {
        let deleted = self.scm.change(name, |service| service.delete());
        deleted.context(format_args!("deleting service {name}"))
    }

    /// Sets whether Windows restarts the service as well. If Windows refuses, only the keeper restarts it.
    pub fn set_recovery(&self, name: &str, on: bool) {
        let set = self.scm.change(name, |service| service.set_recovery(on));
        let doing = format_args!("setting what Windows does when {name} crashes");
        log::unless_ok(doing, set);
    }

    /// Starts a service and waits until the Service Control Manager reports it as running.
    pub fn start(&mut self, name: &str, deadline: Instant) -> Result<(), Failure> {
        let doing = format!("starting service {name}");
        let failed = |why: &str| FailureCategory::Other.failure(format!("service {name} {why}"));
        let service = self.scm.open(name, CHANGE).context(&doing)?;
        let service = service.ok_or_else(|| failed("is not there"))?;
        start(&service, name, deadline).context(&doing)?;
        loop {
            let status = service.status().context(&doing)?;
            let gone = self.hold(name, status.process_id) == Held::Gone;
            let code = status.exit_code;
            return match status.state {
                ServiceState::Running => Ok(()),
                // Wine keeps reporting such a service as starting.
                ServiceState::StartPending if gone => Err(failed("ended while it started")),
                ServiceState::Stopped => Err(failed(&format!(
                    "ended right after its start, with exit code {code}"
                ))),
                state if Instant::now() >= deadline => {
                    Err(failed(&format!("is not running in time, but {state:?}")))
                }
                _ => {
                    sleep(POLL);
                    continue;
                }
            };
        }
    }

    /// Returns whether a service that was started has ended again.
    pub(super) fn check_ended(&mut self, name: &str) -> bool {
        match self.scm.status(name) {
            Ok(Some(status)) if status.state != ServiceState::Stopped => {
                self.hold(name, status.process_id) == Held::Gone
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

fn start(service: &OpenService, name: &str, deadline: Instant) -> io::Result<()> {
    let mut has_failed = false;
    loop {
        match service.start() {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let state = service.status()?.state;
                let is_ending = matches!(state, ServiceState::StopPending | ServiceState::Stopped);
                if !is_ending || Instant::now() >= deadline {
                    return Ok(());
                }
                sleep(POLL);
            }
            Err(error) if may_start_again(&error) && !has_failed => {
                log::line(format!(
                    "starting service {name}: {error}; it is tried once more"
                ));
                has_failed = true;
            }
            Err(error) => return Err(error),
        }
    }
}
