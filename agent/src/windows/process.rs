//! Processes and events, as handles that can be waited for.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;

use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, HANDLE, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{
    CreateEventW, INFINITE, OpenProcess, PROCESS_NAME_WIN32, PROCESS_QUERY_LIMITED_INFORMATION,
    PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, QueryFullProcessImageNameW, SetEvent, TerminateProcess,
    WaitForMultipleObjects, WaitForSingleObject,
};

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
        // SAFETY: the call takes no pointers.
        let handle = unsafe {
            OpenProcess(
                PROCESS_SYNCHRONIZE | PROCESS_TERMINATE | PROCESS_QUERY_LIMITED_INFORMATION,
                0,
                id,
            )
        };
        if handle.is_null() {
            let error = io::Error::last_os_error();
            let gone = error.raw_os_error() == Some(ERROR_INVALID_PARAMETER.cast_signed());
            return if gone { Ok(None) } else { Err(error) };
        }
        // SAFETY: the handle is valid and owned by nobody else.
        let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
        Ok(Some(Self { handle, id }))
    }

    /// Whether a process is gone, as far as that can be known. One that has ended can be opened for as long as somebody,
    /// such as the Service Control Manager, holds it.
    pub fn is_gone(id: u32) -> bool {
        Self::open(id).is_ok_and(|process| process.is_none_or(|process| process.ended()))
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The path of its program.
    pub fn program(&self) -> io::Result<String> {
        program_by_handle(&self.handle)
    }

    /// Waits for its end; whether it ended in time.
    pub fn wait(&self, timeout: Duration) -> bool {
        // SAFETY: the handle lives as long as `self`.
        unsafe { WaitForSingleObject(self.raw(), milliseconds(timeout)) == WAIT_OBJECT_0 }
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Ends it.
    pub fn terminate(&self) -> io::Result<()> {
        // SAFETY: the handle lives as long as `self` and was opened with the right to terminate.
        if unsafe { TerminateProcess(self.raw(), 1) } == 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// The handle, to be waited for.
    pub fn raw(&self) -> HANDLE {
        self.handle.as_raw_handle()
    }
}

/// The path of a process's program, if Windows tells.
pub fn program_of(id: u32) -> Option<String> {
    // SAFETY: the call takes no pointers.
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, id) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is valid and owned by nobody else.
    let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
    program_by_handle(&handle).ok()
}

fn program_by_handle(process: &OwnedHandle) -> io::Result<String> {
    let mut buffer = vec![0; 1024];
    let mut length = 1024;
    // SAFETY: the handle lives as long as `process`; the buffer has the length that is given.
    if unsafe {
        QueryFullProcessImageNameW(
            process.as_raw_handle(),
            PROCESS_NAME_WIN32,
            buffer.as_mut_ptr(),
            &raw mut length,
        )
    } == 0
    {
        return Err(io::Error::last_os_error());
    }
    buffer.truncate(usize::try_from(length).unwrap_or(0));
    Ok(String::from_utf16_lossy(&buffer))
}

/// A signal from one thread to another that waits for processes as well.
#[derive(Debug)]
pub struct Event(OwnedHandle);

impl Event {
    /// Makes an event that one wait resets.
    pub fn new() -> io::Result<Self> {
        // SAFETY: null stands for no security attributes and no name.
        let handle = unsafe { CreateEventW(std::ptr::null(), 0, 0, std::ptr::null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is valid and owned by nobody else.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(handle) }))
    }

    /// Wakes the thread that waits.
    pub fn set(&self) {
        // SAFETY: the handle lives as long as `self`. It cannot fail with such a handle.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }

    /// Waits until the event is set, one of the processes ends, or the time is up.
    pub fn wait_with<'a>(&self, processes: impl Iterator<Item = &'a Process>, timeout: Duration) {
        let handles: Vec<HANDLE> = std::iter::once(self.0.as_raw_handle())
            .chain(processes.map(Process::raw))
            .take(MOST_HANDLES)
            .collect();
        let count = u32::try_from(handles.len()).unwrap_or(1);
        // SAFETY: the array holds `count` handles, all of which outlive the call.
        unsafe { WaitForMultipleObjects(count, handles.as_ptr(), 0, milliseconds(timeout)) };
    }
}

fn milliseconds(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_millis()).unwrap_or(INFINITE - 1)
}
