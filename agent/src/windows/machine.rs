//! Lists all services and processes of the machine.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::ptr::null;

use protocol::seen::{SeenProcess, SeenService};
use windows_sys::Win32::Foundation::ERROR_MORE_DATA;
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::RemoteDesktop::ProcessIdToSessionId;
use windows_sys::Win32::System::Services::{
    CloseServiceHandle, ENUM_SERVICE_STATUS_PROCESSW, EnumServicesStatusExW, OpenSCManagerW,
    SC_ENUM_PROCESS_INFO, SC_HANDLE, SC_MANAGER_CONNECT, SC_MANAGER_ENUMERATE_SERVICE,
    SERVICE_STATE_ALL, SERVICE_STOPPED, SERVICE_WIN32,
};

use super::process;
use super::registry::{self, COMMAND, DEPENDENCIES, DESCRIPTION};
use super::win32::{check, is, owned, size, text, text_at};

/// The largest result that Windows returns in one call, in bytes.
const LARGEST_ANSWER: usize = 256 << 10;
const CSI_PROXY: &str = "csi-proxy.exe";

/// Returns all services that have processes. A service whose configuration cannot be read has only a name and a state.
///
/// The configuration is read from the registry, where the Service Control Manager stores it. Querying the manager would take
/// several calls to another process for each of hundreds of services.
pub fn services() -> io::Result<Vec<SeenService>> {
    let mut services = names_and_states()?;
    for service in &mut services {
        let name = &service.name;
        service.command = registry::text(name, COMMAND).unwrap_or_default();
        service.description = registry::text(name, DESCRIPTION).unwrap_or_default();
        service.dependencies = registry::texts(name, DEPENDENCIES).unwrap_or_default();
    }
    Ok(services)
}

struct Manager(SC_HANDLE);

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: we opened the handle, and it is closed once.
        unsafe { CloseServiceHandle(self.0) };
    }
}

fn names_and_states() -> io::Result<Vec<SeenService>> {
    let access = SC_MANAGER_CONNECT | SC_MANAGER_ENUMERATE_SERVICE;
    // SAFETY: null stands for this machine and the active database.
    let manager = Manager(unsafe { OpenSCManagerW(null(), null(), access) });
    if manager.0.is_null() {
        return Err(io::Error::last_os_error());
    }
    // An array of u64, so that the structures at its beginning are aligned.
    let mut buffer = vec![0_u64; LARGEST_ANSWER / size_of::<u64>()];
    let (mut found, mut resume) = (Vec::new(), 0);
    loop {
        let (mut needed, mut count) = (0, 0);
        // SAFETY: the handle is open; the buffer has the given size; all results go to valid places.
        let done = check(unsafe {
            EnumServicesStatusExW(
                manager.0,
                SC_ENUM_PROCESS_INFO,
                SERVICE_WIN32,
                SERVICE_STATE_ALL,
                buffer.as_mut_ptr().cast::<u8>(),
                size(LARGEST_ANSWER),
                &raw mut needed,
                &raw mut count,
                &raw mut resume,
                null(),
            )
        });
        match done {
            // There may be more entries. But if not even one entry fits, continuing would never end.
            Err(error) if !is(&error, ERROR_MORE_DATA) || count == 0 => return Err(error),
            _ => {}
        }
        let entries = buffer.as_ptr().cast::<ENUM_SERVICE_STATUS_PROCESSW>();
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the buffer begins with `count` such structures, and their names are nul-terminated strings in the
            // buffer.
            let (name, status) = unsafe {
                let entry = &*entries.add(index);
                (text_at(entry.lpServiceName), entry.ServiceStatusProcess)
            };
            let active = status.dwCurrentState != SERVICE_STOPPED;
            found.push(SeenService {
                name,
                active,
                process_id: (active && status.dwProcessId != 0).then_some(status.dwProcessId),
                ..SeenService::default()
            });
        }
        if done.is_ok() {
            return Ok(found);
        }
    }
}

/// Returns all processes, except those of other sessions that are called csi-proxy and not `wanted`: services run in one
/// session, and each container with process isolation has another one, in which anybody may run a program of that name
/// (<https://learn.microsoft.com/virtualization/windowscontainers/manage-containers/hyperv-container> shows one from the
/// host). Full program paths are read only for csi-proxy and for the processes in `wanted`.
pub fn processes(wanted: &[u32]) -> io::Result<Vec<SeenProcess>> {
    // SAFETY: the call takes no pointers, and the handle is new.
    let snapshot = unsafe { owned(CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0)) }?;
    let mut entry = PROCESSENTRY32W {
        dwSize: size(size_of::<PROCESSENTRY32W>()),
        ..PROCESSENTRY32W::default()
    };
    let mut found = Vec::new();
    // SAFETY: the snapshot is open; the entry contains its own size.
    let mut there = unsafe { Process32FirstW(snapshot.as_raw_handle(), &raw mut entry) };
    while there != 0 {
        let (id, name) = (entry.th32ProcessID, text(&entry.szExeFile));
        let is_wanted = wanted.contains(&id);
        let is_csi_proxy = name.eq_ignore_ascii_case(CSI_PROXY);
        if is_wanted || !is_csi_proxy || is_in_our_session(id) {
            let in_full = is_wanted || is_csi_proxy;
            let program = in_full.then(|| process::program_of(id)).flatten();
            found.push(SeenProcess {
                id,
                parent: entry.th32ParentProcessID,
                program: program.unwrap_or(name),
            });
        }
        // SAFETY: as above.
        there = unsafe { Process32NextW(snapshot.as_raw_handle(), &raw mut entry) };
    }
    Ok(found)
}

/// Returns whether a process is in the session of this one, which is that of services. If Windows does not say, it may be.
fn is_in_our_session(id: u32) -> bool {
    match (session_of(id), session_of(std::process::id())) {
        (Some(its), Some(ours)) => its == ours,
        _ => true,
    }
}

fn session_of(id: u32) -> Option<u32> {
    let mut session = 0;
    // SAFETY: the call writes one number.
    let done = unsafe { ProcessIdToSessionId(id, &raw mut session) };
    (done != 0).then_some(session)
}
