//! Runs the agent as a Windows service.

use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use protocol::Failure;
use protocol::paths::AGENT_SERVICE;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{
    self, ServiceControlHandlerResult, ServiceStatusHandle,
};
use windows_service::{define_windows_service, service_dispatcher};
use windows_storage_agent::events::Event as Told;
use windows_sys::Win32::Foundation::ERROR_SHUTDOWN_IN_PROGRESS;

use super::engine::{self, Signals};
use super::process::Event;
use super::scm::Scm;
use super::win32::is;
use super::{events, files, log, point, presence};

/// How long a stop waits for the current request. An unfinished request is rolled back at the next start.
const FINISH: Duration = Duration::from_secs(20);

define_windows_service!(service_entry, service_main);

/// Connects to the Service Control Manager and returns when the service has ended.
pub fn run() -> ExitCode {
    if service_dispatcher::start(AGENT_SERVICE, service_entry).is_ok() {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "windows-storage-agent: 'service' is what the Service Control Manager runs; use 'install' to start it"
    );
    ExitCode::FAILURE
}

/// What happens to the service.
enum News {
    /// The thread that does all work is ready.
    Up,
    /// Windows stops the service, on its own or for a caller.
    Stop,
    /// Windows shuts down.
    Shutdown,
    /// The thread that does all work has ended, for this reason.
    EngineEnded(Result<(), Failure>),
}

fn service_main(_arguments: Vec<OsString>) {
    let Ok(wake) = Event::new() else { return };
    let signals = Arc::new(Signals {
        wake,
        stops: AtomicBool::new(false),
    });
    let (news, heard) = channel();
    let (for_windows, from_windows) = (Arc::clone(&signals), news.clone());
    let registered = service_control_handler::register(AGENT_SERVICE, move |control| {
        let what = match control {
            ServiceControl::Interrogate => return ServiceControlHandlerResult::NoError,
            ServiceControl::UserEvent(_) => {
                for_windows.wake.set();
                return ServiceControlHandlerResult::NoError;
            }
            ServiceControl::Stop => News::Stop,
            ServiceControl::Shutdown => {
                SHUTS_DOWN.store(true, Ordering::Relaxed);
                News::Shutdown
            }
            _ => return ServiceControlHandlerResult::NotImplemented,
        };
        // No second stop may be accepted: the crate frees this closure after the first one.
        report(ServiceState::StopPending, 0);
        let _ = from_windows.send(what);
        ServiceControlHandlerResult::NoError
    });
    let Ok(handle) = registered else { return };
    let _ = HANDLE.set(handle);
    report(ServiceState::StartPending, 0);
    log::line(format!(
        "agent {} starts, process {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id()
    ));
    let exit = match start(Arc::clone(&signals), news) {
        Ok(()) => wait_for_the_end(&signals, &heard),
        Err(error) => not_started(&error),
    };
    report(ServiceState::Stopped, exit);
}

/// Waits until the service is to end; returns the exit code. After one other than 0 Windows restarts the service.
fn wait_for_the_end(signals: &Signals, heard: &Receiver<News>) -> u32 {
    let mut is_up = false;
    let exit = loop {
        match heard.recv() {
            Ok(News::Up) => {
                is_up = true;
                report(ServiceState::Running, 0);
                log::line("agent is up");
                let version = env!("CARGO_PKG_VERSION");
                let text = format!("windows-storage-agent {version} has started.");
                events::report(Told::Started, &text);
            }
            Ok(News::Stop) => {
                signals.stops.store(true, Ordering::Relaxed);
                signals.wake.set();
                let finished = matches!(heard.recv_timeout(FINISH), Ok(News::EngineEnded(_)));
                log::line(if finished {
                    "agent stops"
                } else {
                    "agent stops in the middle of a request; it is rolled back at the next start"
                });
                break 0;
            }
            Ok(News::Shutdown) => {
                log::line("agent stops: Windows shuts down");
                break 0;
            }
            Ok(News::EngineEnded(Err(failure))) if !is_up => return not_started(&failure),
            Ok(News::EngineEnded(ended)) => {
                log::unless_ok("the agent ends", ended);
                break 1;
            }
            Err(_) => break 1,
        }
    };
    events::report(Told::Stopped, "windows-storage-agent stops.");
    exit
}

/// Reports why the service cannot start; returns the exit code.
fn not_started(error: &dyn Display) -> u32 {
    let why = format!("the agent cannot start: {error}");
    log::line(&why);
    events::report(Told::NotStarted, &why);
    1
}

/// Returns whether Windows shuts down: it has announced that, or refuses Service Control Manager calls.
pub fn is_shutting_down() -> bool {
    #[cfg(feature = "fault-injection")]
    if fault_injection::shuts_down() {
        return true;
    }
    let refused = Scm::connect().err();
    SHUTS_DOWN.load(Ordering::Relaxed)
        || refused.is_some_and(|error| is(&error, ERROR_SHUTDOWN_IN_PROGRESS))
}

static SHUTS_DOWN: AtomicBool = AtomicBool::new(false);
static HANDLE: OnceLock<ServiceStatusHandle> = OnceLock::new();

/// Starts the thread that does all work.
fn start(signals: Arc<Signals>, news: Sender<News>) -> std::io::Result<()> {
    // Before the service runs, because the installer asks at once for its program.
    let this = std::env::current_exe().ok();
    let this = this.and_then(|path| files::sha256(path.to_str()?).ok().flatten());
    point("service starts");
    presence::set_program(&this.unwrap_or_default())?;
    thread::Builder::new().spawn(move || {
        let ended = engine::run(&signals, || drop(news.send(News::Up)));
        let _ = news.send(News::EngineEnded(ended));
    })?;
    Ok(())
}

fn report(state: ServiceState, exit: u32) {
    let Some(handle) = HANDLE.get() else { return };
    let none = ServiceControlAccept::empty();
    let all = ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN;
    let pending = FINISH + Duration::from_secs(5);
    let (controls_accepted, checkpoint, wait_hint) = match state {
        ServiceState::Running => (all, 0, Duration::ZERO),
        ServiceState::StartPending | ServiceState::StopPending => (none, 1, pending),
        _ => (none, 0, Duration::ZERO),
    };
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted,
        exit_code: match exit {
            0 => ServiceExitCode::NO_ERROR,
            exit => ServiceExitCode::ServiceSpecific(exit),
        },
        checkpoint,
        wait_hint,
        process_id: None,
    };
    let doing = format_args!("reporting {state:?} to Windows");
    log::unless_ok(doing, handle.set_service_status(status));
}
