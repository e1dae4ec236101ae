//! The agent under the Service Control Manager.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use protocol::paths::AGENT_SERVICE;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{
    self, ServiceControlHandlerResult, ServiceStatusHandle,
};
use windows_service::{define_windows_service, service_dispatcher};

use super::engine::{self, Job};
use super::process::Event;
use super::{files, log, point, serve};

/// How long a stop waits for the request in hand; what is not done by then is undone at the next start.
const FINISH: Duration = Duration::from_secs(20);

define_windows_service!(service_entry, service_main);

/// Connects to the Service Control Manager and stays until the service has ended.
pub fn run() -> ExitCode {
    if service_dispatcher::start(AGENT_SERVICE, service_entry).is_ok() {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "windows-storage-agent: 'service' is what the Service Control Manager runs; use 'install' to start it"
    );
    ExitCode::FAILURE
}

/// What ends the service.
pub enum News {
    /// Windows, or a caller by way of it, wants it to stop.
    Stop,
    /// A new program is in place: it ends when the request in hand is done, and Windows starts it again.
    Retire,
    /// The machine goes down.
    Shutdown,
    /// The thread that does all work has ended.
    EngineEnded,
}

fn service_main(_arguments: Vec<OsString>) {
    let (news, heard) = channel();
    let from_windows = news.clone();
    let registered = service_control_handler::register(AGENT_SERVICE, move |control| {
        let told = match control {
            ServiceControl::Interrogate => return ServiceControlHandlerResult::NoError,
            ServiceControl::Stop => News::Stop,
            ServiceControl::Shutdown => News::Shutdown,
            _ => return ServiceControlHandlerResult::NotImplemented,
        };
        // Not accepting a second stop matters: the crate frees this closure after the first.
        if let Some(handle) = HANDLE.get() {
            report(*handle, ServiceState::StopPending, 0);
        }
        let _ = from_windows.send(told);
        ServiceControlHandlerResult::NoError
    });
    let Ok(handle) = registered else { return };
    let handle = *HANDLE.get_or_init(|| handle);
    report(handle, ServiceState::StartPending, 0);
    log::line(format!(
        "agent {} starts, process {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id()
    ));
    let jobs = match start(&news) {
        Ok(jobs) => jobs,
        Err(error) => {
            log::line(format!("the agent cannot start: {error}"));
            report(handle, ServiceState::Stopped, 1);
            return;
        }
    };
    report(handle, ServiceState::Running, 0);
    log::line("agent is up");
    let mut exit = 0;
    match heard.recv() {
        Ok(News::Retire) => {
            log::line("agent ends after the request in hand: another program is in its place");
            jobs.stop();
            // As an error, because then Windows starts it again by itself.
            exit = wait_to_retire(&heard);
        }
        Ok(News::Stop) => {
            jobs.stop();
            let finished = matches!(heard.recv_timeout(FINISH), Ok(News::EngineEnded));
            log::line(if finished {
                "agent stops"
            } else {
                "agent stops in the middle of a request; it is undone at the next start"
            });
        }
        Ok(News::Shutdown) => log::line("agent stops: Windows shuts down"),
        Ok(News::EngineEnded) | Err(_) => exit = 1,
    }
    report(handle, ServiceState::Stopped, exit);
}

/// Until the request in hand is done, unless Windows is less patient.
fn wait_to_retire(heard: &Receiver<News>) -> u32 {
    match heard.recv() {
        Ok(News::Stop | News::Shutdown) => {
            let _ = heard.recv_timeout(FINISH);
            0
        }
        Ok(News::Retire) => wait_to_retire(heard),
        Ok(News::EngineEnded) | Err(_) => 1,
    }
}

static HANDLE: std::sync::OnceLock<ServiceStatusHandle> = std::sync::OnceLock::new();

struct Jobs {
    sender: Sender<Job>,
    wake: Arc<Event>,
}

impl Jobs {
    fn stop(&self) {
        let _ = self.sender.send(Job::Stop);
        self.wake.set();
    }
}

/// Starts the threads.
fn start(news: &Sender<News>) -> std::io::Result<Jobs> {
    let wake = Arc::new(Event::new()?);
    // Before the pipe opens: whoever installed this program asks right then what runs.
    let this = std::env::current_exe()
        .ok()
        .and_then(|path| files::sha256(path.to_str()?).ok().flatten());
    point("service starts");
    let listener = serve::open()?;
    let (sender, jobs) = channel();
    let (ended, engine_wake) = (news.clone(), Arc::clone(&wake));
    let running = this.clone();
    thread::Builder::new().spawn(move || {
        if let Err(failure) = engine::run(&jobs, &engine_wake, running) {
            log::line(format!("the agent ends: {}", failure.message));
        }
        let _ = ended.send(News::EngineEnded);
    })?;
    let service = Arc::new(serve::Service {
        sha256: this,
        jobs: sender.clone(),
        wake: Arc::clone(&wake),
        news: news.clone(),
    });
    thread::Builder::new().spawn(move || serve::run(listener, &service))?;
    Ok(Jobs { sender, wake })
}

fn report(handle: ServiceStatusHandle, state: ServiceState, exit: u32) {
    let accepted = if state == ServiceState::Running {
        ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN
    } else {
        ServiceControlAccept::empty()
    };
    let pending = matches!(
        state,
        ServiceState::StartPending | ServiceState::StopPending
    );
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: accepted,
        exit_code: if exit == 0 {
            ServiceExitCode::NO_ERROR
        } else {
            ServiceExitCode::ServiceSpecific(exit)
        },
        checkpoint: u32::from(pending),
        wait_hint: if pending {
            FINISH + Duration::from_secs(5)
        } else {
            Duration::ZERO
        },
        process_id: None,
    };
    if let Err(error) = handle.set_service_status(status) {
        log::line(format!("telling Windows {state:?}: {error}"));
    }
}
