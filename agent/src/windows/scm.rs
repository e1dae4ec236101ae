//! The Service Control Manager.
//!
//! Commands are set by our own call: the crate would quote the program again, and a command must be the document's text.

use std::io;
use std::ptr::{null, null_mut};

use protocol::ServiceState;
use protocol::command::program;
use windows_service::service::{
    Service, ServiceAccess, ServiceErrorControl, ServiceInfo, ServiceStartType, ServiceType,
};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};
use windows_storage_agent::errors::was_told_to_stop;
use windows_storage_agent::journal::ServiceSettings;
use windows_sys::Win32::Foundation::{
    ERROR_SERVICE_ALREADY_RUNNING, ERROR_SERVICE_DOES_NOT_EXIST, ERROR_SERVICE_MARKED_FOR_DELETE,
};
use windows_sys::Win32::System::Services::{
    ChangeServiceConfigW, QueryServiceConfig2W, QueryServiceStatusEx, SC_STATUS_PROCESS_INFO,
    SERVICE_CONFIG_DESCRIPTION, SERVICE_CONTINUE_PENDING, SERVICE_DESCRIPTIONW, SERVICE_NO_CHANGE,
    SERVICE_PAUSE_PENDING, SERVICE_PAUSED, SERVICE_RUNNING, SERVICE_START_PENDING,
    SERVICE_STATUS_PROCESS, SERVICE_STOP_PENDING, SERVICE_STOPPED,
};

use super::acl::wide;
use super::registry;

/// In bytes: more than Windows lets a description have.
const DESCRIPTION_SPACE: usize = 8192;

/// A connection to the Service Control Manager.
pub struct Scm(ServiceManager);

/// A service's state as queried.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Its state.
    pub state: ServiceState,
    /// Its process; also while it starts or stops.
    pub process_id: Option<u32>,
    /// Windows' number for why it stopped.
    pub exit_code: u32,
}

impl Scm {
    /// Connects, to look only.
    pub fn look() -> io::Result<Self> {
        ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT)
            .map(Self)
            .map_err(plain)
    }

    /// Connects, to change things.
    pub fn change() -> io::Result<Self> {
        ServiceManager::local_computer(
            None::<&str>,
            ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE,
        )
        .map(Self)
        .map_err(plain)
    }

    /// Opens a service to look at it.
    pub fn open(&self, name: &str) -> io::Result<Option<OpenService>> {
        self.open_with(
            name,
            ServiceAccess::QUERY_CONFIG | ServiceAccess::QUERY_STATUS,
        )
    }

    /// Opens a service to do anything with it.
    pub fn open_to_change(&self, name: &str) -> io::Result<Option<OpenService>> {
        self.open_with(name, all_access())
    }

    fn open_with(&self, name: &str, access: ServiceAccess) -> io::Result<Option<OpenService>> {
        match self.0.open_service(name, access).map_err(plain) {
            Ok(service) => Ok(Some(OpenService {
                service,
                name: name.to_owned(),
            })),
            Err(error) if is(&error, ERROR_SERVICE_DOES_NOT_EXIST) || is_marked(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a service was deleted but is still there, because it runs or somebody has it open.
    pub fn is_marked_for_deletion(&self, name: &str) -> io::Result<bool> {
        match self.0.open_service(name, all_access()).map_err(plain) {
            Ok(service) => match change(&service, SERVICE_NO_CHANGE, null(), null()) {
                Err(error) if is_marked(&error) => Ok(true),
                result => result.map(|()| false),
            },
            Err(error) if is_marked(&error) => Ok(true),
            Err(error) if is(&error, ERROR_SERVICE_DOES_NOT_EXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a service or changes it.
    pub fn configure(&self, name: &str, settings: &ServiceSettings) -> io::Result<OpenService> {
        let service = match self.open_to_change(name)? {
            Some(service) => service,
            None => self.create(name, settings)?,
        };
        service.set_command(settings)?;
        service
            .service
            .set_description(&settings.description)
            .map_err(plain)?;
        registry::set(name, &settings.environment)?;
        Ok(service)
    }

    fn create(&self, name: &str, settings: &ServiceSettings) -> io::Result<OpenService> {
        let info = ServiceInfo {
            name: name.into(),
            display_name: name.into(),
            service_type: ServiceType::OWN_PROCESS,
            start_type: ServiceStartType::AutoStart,
            error_control: ServiceErrorControl::Normal,
            executable_path: program(&settings.command)
                .unwrap_or(&settings.command)
                .into(),
            launch_arguments: Vec::new(),
            dependencies: Vec::new(),
            // LocalSystem
            account_name: None,
            account_password: None,
        };
        self.0
            .create_service(&info, all_access())
            .map(|service| OpenService {
                service,
                name: name.to_owned(),
            })
            .map_err(plain)
    }
}

/// A service.
pub struct OpenService {
    pub(super) service: Service,
    name: String,
}

impl OpenService {
    /// Its state and process.
    pub fn status(&self) -> io::Result<Status> {
        let mut raw = SERVICE_STATUS_PROCESS::default();
        let mut needed = 0;
        let size = u32::try_from(size_of::<SERVICE_STATUS_PROCESS>()).unwrap_or(0);
        // SAFETY: the handle lives as long as `self`; the buffer has the size that is given.
        let done = unsafe {
            QueryServiceStatusEx(
                self.service.raw_handle(),
                SC_STATUS_PROCESS_INFO,
                (&raw mut raw).cast::<u8>(),
                size,
                &raw mut needed,
            )
        };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
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
        let process_id =
            (raw.dwProcessId != 0 && state != ServiceState::Stopped).then_some(raw.dwProcessId);
        Ok(Status {
            state,
            process_id,
            exit_code: raw.dwWin32ExitCode,
        })
    }

    /// Its configuration.
    pub fn settings(&self) -> io::Result<ServiceSettings> {
        let config = self.service.query_config().map_err(plain)?;
        let mut dependencies: Vec<String> = config
            .dependencies
            .iter()
            .map(|dependency| {
                dependency
                    .to_system_identifier()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        if dependencies.is_empty() {
            // Wine keeps them, but does not tell them.
            dependencies = registry::dependencies(&self.name)?;
        }
        Ok(ServiceSettings {
            command: config.executable_path.to_string_lossy().into_owned(),
            description: self.description()?,
            dependencies,
            start_type: config.start_type.to_raw(),
            environment: registry::get(&self.name)?,
        })
    }

    fn description(&self) -> io::Result<String> {
        // Of u64, so that the structure at its beginning is aligned.
        let mut buffer = vec![0_u64; DESCRIPTION_SPACE / size_of::<u64>()];
        let size = u32::try_from(DESCRIPTION_SPACE).unwrap_or(0);
        let mut needed = 0;
        // SAFETY: the handle lives as long as `self`; the buffer has the size that is given.
        let done = unsafe {
            QueryServiceConfig2W(
                self.service.raw_handle(),
                SERVICE_CONFIG_DESCRIPTION,
                buffer.as_mut_ptr().cast::<u8>(),
                size,
                &raw mut needed,
            )
        };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: on success the buffer begins with this structure, and is aligned for it.
        let text = unsafe { (*buffer.as_ptr().cast::<SERVICE_DESCRIPTIONW>()).lpDescription };
        if text.is_null() {
            return Ok(String::new());
        }
        // SAFETY: it is the buffer, all of which is initialised, as units of half a word each.
        let units = unsafe {
            std::slice::from_raw_parts(
                buffer.as_ptr().cast::<u16>(),
                DESCRIPTION_SPACE / size_of::<u16>(),
            )
        };
        // The text is in the buffer, too, and never read beyond its end.
        let start = text.addr().wrapping_sub(buffer.as_ptr().addr()) / size_of::<u16>();
        let text = units.get(start..).ok_or(io::ErrorKind::InvalidData)?;
        let text = text.split(|unit| *unit == 0).next().unwrap_or_default();
        Ok(String::from_utf16_lossy(text))
    }

    fn set_command(&self, settings: &ServiceSettings) -> io::Result<()> {
        let command = wide(&settings.command);
        // Each name ends with a nul and the list with one more; an empty list, not null, takes dependencies away.
        let mut dependencies: Vec<u16> = settings
            .dependencies
            .iter()
            .flat_map(|name| wide(name))
            .collect();
        dependencies.extend([0, 0]);
        change(
            &self.service,
            settings.start_type,
            command.as_ptr(),
            dependencies.as_ptr(),
        )
    }

    /// Starts it; one that runs already is fine.
    pub fn start(&self) -> io::Result<()> {
        match self.service.start::<&str>(&[]).map_err(plain) {
            Err(error) if !is(&error, ERROR_SERVICE_ALREADY_RUNNING) => Err(error),
            _ => Ok(()),
        }
    }

    /// Asks it to stop; false where it cannot be asked now and one should try again.
    pub fn ask_to_stop(&self) -> io::Result<bool> {
        match self.service.stop().map_err(plain) {
            Ok(_) => Ok(true),
            Err(error) => was_told_to_stop(&error).ok_or(error),
        }
    }

    /// Deletes it.
    pub fn delete(&self) -> io::Result<()> {
        match self.service.delete().map_err(plain) {
            Err(error) if !is_marked(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Changes what is not null; the texts must end as Windows expects.
fn change(
    service: &Service,
    start_type: u32,
    command: *const u16,
    dependencies: *const u16,
) -> io::Result<()> {
    // SAFETY: the handle lives as long as `service`; null leaves a setting as it is, and the other texts are terminated.
    let done = unsafe {
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
    };
    if done == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Whether an error says that a service was deleted but is still there.
pub fn is_marked(error: &io::Error) -> bool {
    is(error, ERROR_SERVICE_MARKED_FOR_DELETE)
}

fn all_access() -> ServiceAccess {
    ServiceAccess::QUERY_CONFIG
        | ServiceAccess::QUERY_STATUS
        | ServiceAccess::CHANGE_CONFIG
        | ServiceAccess::START
        | ServiceAccess::STOP
        | ServiceAccess::DELETE
}

fn is(error: &io::Error, number: u32) -> bool {
    error.raw_os_error() == Some(number.cast_signed())
}

/// The system error in one of the crate.
pub(super) fn plain(error: windows_service::Error) -> io::Error {
    match error {
        windows_service::Error::Winapi(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidInput, other),
    }
}
