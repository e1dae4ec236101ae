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

/// More handles cannot be waited for at once.
const MOST_HANDLES: usize = 64;

/// A process that is held by a handle, so that its number is not given to another one.
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

    /// Whether a process is gone, as far as that can be known. One that has ended can be opened for as long as another process,
    /// such as the Service Control Manager, holds it.
    pub fn is_gone(id: u32) -> bool {
        Self::open(id).is_ok_and(|process| process.is_none_or(|process| process.has_ended()))
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The path of its program.
    pub fn program(&self) -> io::Result<String> {
        program(&self.handle)
    }

    /// Waits for its end; whether it ended in time.
    pub fn wait(&self, timeout: Duration) -> bool {
        wait(&self.handle, timeout)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Ends it.
    pub fn terminate(&self) -> io::Result<()> {
        // SAFETY: the handle lives as long as `self` and was opened with the right to terminate.
        check(unsafe { TerminateProcess(self.handle.as_raw_handle(), 1) })
    }
}

/// The path of a process's program, if Windows says.
pub fn program_of(id: u32) -> Option<String> {
    program(&open(id, PROCESS_QUERY_LIMITED_INFORMATION).ok()?).ok()
}

/// Waits for the end of a process; whether it ended in time.
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
    // SAFETY: the handle lives as long as `process`; the buffer has the length that is given.
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

/// A signal from one thread to another that waits for processes as well.
#[derive(Debug)]
pub struct Event(OwnedHandle);

impl Event {
    /// Makes an event that one wait resets.
    pub fn new() -> io::Result<Self> {
        // SAFETY: null stands for no security attributes and no name; the handle is new.
        unsafe { owned(CreateEventW(null(), 0, 0, null())) }.map(Self)
    }

    /// Wakes the thread that waits.
    pub fn set(&self) {
        // SAFETY: the handle lives as long as `self`. It cannot fail with such a handle.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }

    /// Waits until the event is set, one of the processes ends, or the time is up.
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
