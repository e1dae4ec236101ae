//! Checks what the Service Control Manager reports and does, and how long it takes.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use protocol::ServiceState;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult};
use windows_service::{define_windows_service, service_dispatcher};
use windows_storage_agent::journal::{AUTO_START, ServiceSettings};

use crate::files::{done, for_now};
use crate::lab::{ANY, Attempt, DEPENDENT, Lab, SERVICE, within};
use crate::windows::files;
use crate::windows::process::Process;
use crate::windows::scm::{CHANGE, OpenService, Scm};

/// Longer than Windows waits before it restarts a service after its first crash.
const RECOVERED: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(10);

pub const ALL: &[Attempt] = &[
    ("service.create", "done", |lab| {
        configure(lab, SERVICE, "service", &[])
    }),
    ("service.start", "running", |_| started(SERVICE)),
    ("service.start-again", "error 1056", |_| {
        let started = open(SERVICE)?.start()?;
        Ok(if started { "started" } else { "error 1056" }.to_owned())
    }),
    ("service.own-process", "its program", |lab| {
        let runs = process()?.program()?;
        let is_own = runs.eq_ignore_ascii_case(&lab.program());
        Ok(if is_own {
            "its program".to_owned()
        } else {
            runs
        })
    }),
    ("file.delete-a-running-program", "refused for now", |lab| {
        for_now(std::fs::remove_file(lab.program()))
    }),
    ("file.rename-a-running-program", "done", |lab| {
        let aside = lab.file("aside.exe");
        files::rename(&lab.program(), &aside)?;
        done(files::rename(&aside, &lab.program()))
    }),
    ("service.dependent", "running", |lab| {
        configure(lab, DEPENDENT, "service", &[SERVICE])?;
        started(DEPENDENT)
    }),
    ("service.stop-with-a-dependent", "error 1051", |_| {
        open(SERVICE)?.ask_to_stop()?;
        Ok("asked".to_owned())
    }),
    ("service.stop", "stopped", |_| {
        stopped(DEPENDENT)?;
        started(SERVICE)?;
        stopped(SERVICE)
    }),
    ("service.process-after-stop", "ended", |_| {
        started(SERVICE)?;
        let process = process()?;
        stopped(SERVICE)?;
        Ok(within(SOON, "ended", "still there", || process.has_ended()))
    }),
    ("service.crash-is-noticed", "stopped", |_| {
        open(SERVICE)?.set_recovery(false)?;
        started(SERVICE)?;
        process()?.terminate()?;
        Ok(within(SOON, "stopped", "still running", || {
            state(SERVICE) == ServiceState::Stopped
        }))
    }),
    ("service.crash-is-recovered", "running again", |_| {
        open(SERVICE)?.set_recovery(true)?;
        started(SERVICE)?;
        let before = process()?;
        before.terminate()?;
        Ok(within(RECOVERED, "running again", "not started", || {
            process().is_ok_and(|now| now.id() != before.id() && !now.has_ended())
        }))
    }),
    ("service.delete-while-open", "error 1072", |_| {
        open(SERVICE)?.set_recovery(false)?;
        stopped(SERVICE)?;
        let (first, second) = (open(SERVICE)?, open(SERVICE)?);
        first.delete()?;
        let marked = Scm::connect()?.is_marked_for_deletion(SERVICE)?;
        drop(second);
        Ok(if marked { "error 1072" } else { "not marked" }.to_owned())
    }),
    ("service.gone-when-closed", "missing", |_| {
        Ok(within(SOON, "missing", "still there", || {
            state(SERVICE) == ServiceState::Missing
        }))
    }),
    ("service.program-that-ends-at-once", ANY, |lab| {
        configure(lab, SERVICE, "--help", &[])?;
        started(SERVICE)
    }),
    ("service.program-that-is-no-service", "error 1053", |lab| {
        configure(lab, SERVICE, "hang", &[])?;
        started(SERVICE)
    }),
];

fn open(name: &str) -> io::Result<OpenService> {
    let opened = Scm::connect()?.open(name, CHANGE)?;
    opened.ok_or_else(|| io::Error::other("the service is missing"))
}

fn state(name: &str) -> ServiceState {
    let status = Scm::connect().and_then(|scm| scm.status(name));
    match status {
        Ok(Some(status)) => status.state,
        Ok(None) => ServiceState::Missing,
        Err(_) => ServiceState::Unknown,
    }
}

fn process() -> io::Result<Process> {
    let id = open(SERVICE)?.status()?.process_id;
    let process = id.map_or(Ok(None), Process::open)?;
    process.ok_or_else(|| io::Error::other("the service has no process"))
}

fn configure(lab: &Lab, name: &str, argument: &str, needs: &[&str]) -> io::Result<String> {
    let settings = ServiceSettings {
        command: format!("{} {argument}", lab.program()),
        description: "Made by windows-storage-verify, which removes it again.".to_owned(),
        dependencies: needs.iter().map(|&name| name.to_owned()).collect(),
        start_type: AUTO_START,
        environment: Vec::new(),
    };
    done(Scm::connect()?.configure(name, &settings).map(drop))
}

fn started(name: &str) -> io::Result<String> {
    open(name)?.start()?;
    Ok(within(SOON, "running", "not running", || {
        state(name) == ServiceState::Running
    }))
}

fn stopped(name: &str) -> io::Result<String> {
    open(name)?.ask_to_stop()?;
    Ok(within(SOON, "stopped", "not stopped", || {
        state(name) == ServiceState::Stopped
    }))
}

define_windows_service!(entry, serve);

/// What the Service Control Manager runs: a service that waits until it is stopped.
pub fn run() -> ExitCode {
    match service_dispatcher::start(SERVICE, entry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(_arguments: Vec<OsString>) {
    use windows_service::service::ServiceState::{Running, Stopped};
    let (sender, end) = channel();
    let handler = move |control| match control {
        ServiceControl::Stop => {
            let _ = sender.send(());
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    let Ok(handle) = service_control_handler::register(SERVICE, handler) else {
        return;
    };
    let status = |current_state, controls_accepted| ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state,
        controls_accepted,
        exit_code: ServiceExitCode::NO_ERROR,
        checkpoint: 0,
        wait_hint: Duration::ZERO,
        process_id: None,
    };
    let _ = handle.set_service_status(status(Running, ServiceControlAccept::STOP));
    let _ = end.recv();
    let _ = handle.set_service_status(status(Stopped, ServiceControlAccept::empty()));
}
