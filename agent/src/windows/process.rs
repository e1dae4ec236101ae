//! Waits for processes and events by their handles.

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr::null;
use std::time::Duration;

use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, HANDLE, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{
    CreateEventW, OpenProcess, PROCESS_NAME_WIN32, PROCESS_QUERY_LIMITED_INFORMATION,
    PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, QueryFullProcessImageNameW, SetEvent, TerminateProcess,
    WaitForMultipleObjects, WaitForSingleObject,
};

use super::win32::{check, is, milliseconds, owned, text};

/// The most handles that one call can wait for.
const MOST_HANDLES: usize = 64;

/// A process with an open handle, so that its ID is not reused.
#[derive(Debug)]
pub struct Process {
    handle: OwnedHandle,
    id: u32,
}

impl Process {
    /// Opens a process; `None` where it is gone.
    pub fn open(id: u32) -> io::Result<Option<Self>> {
        let access = PROCESS_SYNCHRONIZE | PROCESS_TERMINATE | PROCESS_QUERY_LIMITED_INFORMATION;
        match open(id, access) {
            Err(error) if is(&error, ERROR_INVALID_PARAMETER) => Ok(None),
            result => result.map(|handle| Some(Self { handle, id })),
        }
    }

    /// Returns whether a process is known to be gone. A process that has ended can still be opened while another process,
    /// such as the Service Control Manager, has a handle to it.
    pub fn is_gone(id: u32) -> bool {
        Self::open(id).is_ok_and(|process| process.is_none_or(|process| process.has_ended()))
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the path of the program.
    pub fn program(&self) -> io::Result<String> {
        program(&self.handle)
    }

    /// Waits until the process ends; returns whether it ended in time.
    pub fn wait(&self, timeout: Duration) -> bool {
        wait(&self.handle, timeout)
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Terminates the process.
    pub fn terminate(&self) -> io::Result<()> {
        // SAFETY: the handle lives as long as `self` and was opened with the right to terminate.
        check(unsafe { TerminateProcess(self.handle.as_raw_handle(), 1) })
    }
}

/// Returns the path of a process's program, if Windows reports it.
pub fn program_of(id: u32) -> Option<String> {
    program(&open(id, PROCESS_QUERY_LIMITED_INFORMATION).ok()?).ok()
}

/// Waits until a process ends; returns whether it ended in time.
pub fn wait(process: &impl AsRawHandle, timeout: Duration) -> bool {
    // SAFETY: the handle lives as long as `process`.
    unsafe { WaitForSingleObject(process.as_raw_handle(), milliseconds(timeout)) == WAIT_OBJECT_0 }
}

fn open(id: u32, access: u32) -> io::Result<OwnedHandle> {
    // SAFETY: the call takes no pointers, and the handle is new.
    unsafe { owned(OpenProcess(access, 0, id)) }
}

fn program(process: &OwnedHandle) -> io::Result<String> {
    let (mut buffer, mut length) = ([0; 1024], 1024);
    // SAFETY: the handle lives as long as `process`; the buffer has the given length.
    check(unsafe {
        QueryFullProcessImageNameW(
            process.as_raw_handle(),
            PROCESS_NAME_WIN32,
            buffer.as_mut_ptr(),
            &raw mut length,
        )
    })?;
    Ok(text(&buffer))
}

/// A signal to a thread that waits for processes as well.
#[derive(Debug)]
pub struct Event(OwnedHandle);

impl Event {
    /// Creates an event that one wait resets.
    pub fn new() -> io::Result<Self> {
        // SAFETY: null stands for no security attributes and no name; the handle is new.
        unsafe { owned(CreateEventW(null(), 0, 0, null())) }.map(Self)
    }

    /// Wakes the waiting thread.
    pub fn set(&self) {
        // SAFETY: the handle lives as long as `self`. It cannot fail with such a handle.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }

    /// Waits until the event is set, one of the processes ends, or the timeout expires.
    pub fn wait_with<'a>(&self, processes: impl Iterator<Item = &'a Process>, timeout: Duration) {
        let handles: Vec<HANDLE> = std::iter::once(self.0.as_raw_handle())
            .chain(processes.map(|process| process.handle.as_raw_handle()))
            .take(MOST_HANDLES)
            .collect();
        let count = u32::try_from(handles.len()).unwrap_or(1);
        // SAFETY: the array holds `count` handles, all of which outlive the call.
        unsafe { WaitForMultipleObjects(count, handles.as_ptr(), 0, milliseconds(timeout)) };
    }
}
