//! Wraps the Service Control Manager.
//!
//! Commands are set by a direct call: the crate would quote the program again, but a command must be exactly the request's.

use std::io;
use std::ptr::{null, null_mut};

use protocol::ServiceState;
use protocol::command::program;
use windows_service::service::{
    Service, ServiceAccess, ServiceErrorControl, ServiceInfo, ServiceStartType, ServiceType,
    UserEventCode,
};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};
use windows_storage_agent::errors::is_stopping;
use windows_storage_agent::wanted::ServiceSettings;
use windows_sys::Win32::Foundation::{
    ERROR_SERVICE_ALREADY_RUNNING, ERROR_SERVICE_DOES_NOT_EXIST, ERROR_SERVICE_MARKED_FOR_DELETE,
};
use windows_sys::Win32::System::Services::{
    ChangeServiceConfig2W, ChangeServiceConfigW, QueryServiceStatusEx, SC_STATUS_PROCESS_INFO,
    SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO, SERVICE_CONTINUE_PENDING, SERVICE_NO_CHANGE,
    SERVICE_PAUSE_PENDING, SERVICE_PAUSED, SERVICE_REQUIRED_PRIVILEGES_INFOW, SERVICE_RUNNING,
    SERVICE_START_PENDING, SERVICE_STATUS_PROCESS, SERVICE_STOP_PENDING, SERVICE_STOPPED,
    SERVICE_WIN32_SHARE_PROCESS,
};

use super::registry::{self, DEPENDENCIES, DESCRIPTION};
use super::win32::{check, is, size, wide, wide_list};

/// The right to read a service.
pub const READ: ServiceAccess = ServiceAccess::QUERY_CONFIG.union(ServiceAccess::QUERY_STATUS);
/// All rights to a service that the agent uses.
pub const CHANGE: ServiceAccess = READ
    .union(ServiceAccess::CHANGE_CONFIG)
    .union(ServiceAccess::START)
    .union(ServiceAccess::STOP)
    .union(ServiceAccess::DELETE);

/// A connection to the Service Control Manager.
pub struct Scm(ServiceManager);

/// A service's state as queried.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Its state.
    pub state: ServiceState,
    /// Its process, also while it starts or stops.
    pub process_id: Option<u32>,
    /// The exit code that Windows reports.
    pub exit_code: u32,
    /// Whether its process also runs other services.
    pub is_shared: bool,
}

impl Scm {
    /// Connects.
    pub fn connect() -> io::Result<Self> {
        let access = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
        let manager = ServiceManager::local_computer(None::<&str>, access);
        manager.map(Self).map_err(plain)
    }

    /// Opens a service, if it exists.
    pub fn open(&self, name: &str, access: ServiceAccess) -> io::Result<Option<OpenService>> {
        match self.0.open_service(name, access).map_err(plain) {
            Err(error) if is(&error, ERROR_SERVICE_DOES_NOT_EXIST) || is_marked(&error) => Ok(None),
            result => result.map(|service| Some(OpenService(service))),
        }
    }

    /// Returns a service's state, if it exists.
    pub fn status(&self, name: &str) -> io::Result<Option<Status>> {
        let service = self.open(name, READ)?;
        service.map(|service| service.status()).transpose()
    }

    /// Returns a service's configuration, if it exists.
    pub fn settings(&self, name: &str) -> io::Result<Option<ServiceSettings>> {
        let service = self.open(name, READ)?;
        service.map(|service| service.settings(name)).transpose()
    }

    /// Changes a service, if it exists.
    pub fn change(
        &self,
        name: &str,
        change: impl FnOnce(OpenService) -> io::Result<()>,
    ) -> io::Result<()> {
        self.open(name, CHANGE)?.map_or(Ok(()), change)
    }

    /// Sends a service a control of its own, which ends the pause of the agent's.
    pub fn wake(&self, name: &str) -> io::Result<()> {
        let service = self.open(name, ServiceAccess::USER_DEFINED_CONTROL)?;
        // The first of the codes that Windows leaves to services.
        let code = UserEventCode::from_raw(128).map_err(|_| io::ErrorKind::InvalidInput)?;
        service.map_or(Ok(()), |it| it.0.notify(code).map(drop).map_err(plain))
    }

    /// Returns whether a service was deleted but still exists, because it runs or another process has it open.
    pub fn is_marked_for_deletion(&self, name: &str) -> io::Result<bool> {
        let opened = self.0.open_service(name, CHANGE).map_err(plain);
        match opened.and_then(|service| change(&service, SERVICE_NO_CHANGE, null(), null())) {
            Err(error) if is_marked(&error) => Ok(true),
            Err(error) if is(&error, ERROR_SERVICE_DOES_NOT_EXIST) => Ok(false),
            result => result.map(|()| false),
        }
    }

    /// Creates a service or changes it.
    pub fn configure(&self, name: &str, settings: &ServiceSettings) -> io::Result<OpenService> {
        let service = match self.open(name, CHANGE)? {
            Some(service) => service,
            None => self.create(name, settings)?,
        };
        let command = wide(&settings.command);
        // An empty list, unlike null, removes all dependencies.
        let mut needed = wide_list(&settings.dependencies);
        needed.push(0);
        let start = settings.start_type;
        change(&service.0, start, command.as_ptr(), needed.as_ptr())?;
        let described = service.0.set_description(&settings.description);
        described.map_err(plain)?;
        Ok(service)
    }

    fn create(&self, name: &str, settings: &ServiceSettings) -> io::Result<OpenService> {
        let command = &settings.command;
        let info = ServiceInfo {
            name: name.into(),
            display_name: name.into(),
            service_type: ServiceType::OWN_PROCESS,
            start_type: ServiceStartType::AutoStart,
            error_control: ServiceErrorControl::Normal,
            executable_path: program(command).unwrap_or(command).into(),
            launch_arguments: Vec::new(),
            dependencies: Vec::new(),
            // LocalSystem
            account_name: None,
            account_password: None,
        };
        let service = self.0.create_service(&info, CHANGE).map_err(plain)?;
        Ok(OpenService(service))
    }
}

/// An open service.
pub struct OpenService(pub(super) Service);

impl OpenService {
    /// Returns the service's state and process.
    pub fn status(&self) -> io::Result<Status> {
        let (mut raw, mut needed) = (SERVICE_STATUS_PROCESS::default(), 0);
        // SAFETY: the handle lives as long as `self`; the buffer has the given size.
        check(unsafe {
            QueryServiceStatusEx(
                self.0.raw_handle(),
                SC_STATUS_PROCESS_INFO,
                (&raw mut raw).cast::<u8>(),
                size(size_of_val(&raw)),
                &raw mut needed,
            )
        })?;
        let state = match raw.dwCurrentState {
            SERVICE_STOPPED => ServiceState::Stopped,
            SERVICE_START_PENDING => ServiceState::StartPending,
            SERVICE_STOP_PENDING => ServiceState::StopPending,
            SERVICE_RUNNING => ServiceState::Running,
            SERVICE_CONTINUE_PENDING | SERVICE_PAUSE_PENDING | SERVICE_PAUSED => {
                ServiceState::Paused
            }
            _ => ServiceState::Unknown,
        };
        let has_process = raw.dwProcessId != 0 && state != ServiceState::Stopped;
        Ok(Status {
            state,
            process_id: has_process.then_some(raw.dwProcessId),
            exit_code: raw.dwWin32ExitCode,
            is_shared: raw.dwServiceType & SERVICE_WIN32_SHARE_PROCESS != 0,
        })
    }

    /// Returns the service's configuration; `name` is the service's name.
    pub fn settings(&self, name: &str) -> io::Result<ServiceSettings> {
        let config = self.0.query_config().map_err(plain)?;
        let needed = config.dependencies.iter();
        let mut dependencies: Vec<String> = needed
            .map(|needed| needed.to_system_identifier().to_string_lossy().into())
            .collect();
        if dependencies.is_empty() {
            // Wine stores the dependencies, but does not return them.
            dependencies = registry::texts(name, DEPENDENCIES)?;
        }
        Ok(ServiceSettings {
            command: config.executable_path.to_string_lossy().into_owned(),
            description: registry::text(name, DESCRIPTION)?,
            dependencies,
            start_type: config.start_type.to_raw(),
        })
    }

    /// Starts the service; returns false if Windows reports it as running, which includes one that is still stopping.
    pub fn start(&self) -> io::Result<bool> {
        match self.0.start::<&str>(&[]).map_err(plain) {
            Err(error) if is(&error, ERROR_SERVICE_ALREADY_RUNNING) => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Asks the service to stop; returns false if it cannot be asked now and the caller should retry.
    pub fn ask_to_stop(&self) -> io::Result<bool> {
        match self.0.stop().map_err(plain) {
            Ok(_) => Ok(true),
            Err(error) => is_stopping(&error).ok_or(error),
        }
    }

    /// Restricts the service's process to these privileges, from its next start on.
    pub fn need(&self, privileges: &[&str]) -> io::Result<()> {
        let names: Vec<String> = privileges.iter().map(|&name| name.to_owned()).collect();
        let mut names = wide_list(&names);
        let needed = SERVICE_REQUIRED_PRIVILEGES_INFOW {
            pmszRequiredPrivileges: names.as_mut_ptr(),
        };
        // SAFETY: the handle lives as long as `self`; the structure points to a list that ends with two nuls.
        check(unsafe {
            ChangeServiceConfig2W(
                self.0.raw_handle(),
                SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO,
                (&raw const needed).cast(),
            )
        })
    }

    /// Deletes the service.
    pub fn delete(&self) -> io::Result<()> {
        match self.0.delete().map_err(plain) {
            Err(error) if is_marked(&error) => Ok(()),
            result => result,
        }
    }
}

/// Changes the settings that are not null. The strings must be terminated as Windows expects.
fn change(
    service: &Service,
    start_type: u32,
    command: *const u16,
    dependencies: *const u16,
) -> io::Result<()> {
    // SAFETY: the handle lives as long as `service`; null leaves a setting unchanged, and the strings are terminated.
    check(unsafe {
        ChangeServiceConfigW(
            service.raw_handle(),
            SERVICE_NO_CHANGE,
            start_type,
            SERVICE_NO_CHANGE,
            command,
            null(),
            null_mut(),
            dependencies,
            null(),
            null(),
            null(),
        )
    })
}

/// Returns whether an error says that a service is marked for deletion.
pub fn is_marked(error: &io::Error) -> bool {
    is(error, ERROR_SERVICE_MARKED_FOR_DELETE)
}

/// Returns the system error inside an error of the crate.
pub(super) fn plain(error: windows_service::Error) -> io::Error {
    match error {
        windows_service::Error::Winapi(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidInput, other),
    }
}
