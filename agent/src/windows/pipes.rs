//! Finds named pipes and connects to them.
//!
//! `WaitNamedPipeW` finds a pipe without opening a connection: it returns "file not found" if no process serves the name,
//! and any other result, free or busy, if one does. This holds for Windows and for Wine.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::ptr::null_mut;
use std::thread::sleep;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_PIPE_BUSY};
use windows_sys::Win32::Storage::FileSystem::SECURITY_IDENTIFICATION;
use windows_sys::Win32::System::Pipes::{
    GetNamedPipeServerProcessId, PeekNamedPipe, WaitNamedPipeW,
};

use super::win32::{check, is, wide};

const POLL: Duration = Duration::from_millis(5);

/// Returns whether a pipe is served; `name` is without `\\.\pipe\`.
pub fn is_open(name: &str) -> bool {
    let path = wide(&format!(r"\\.\pipe\{name}"));
    // SAFETY: the name is nul-terminated.
    let waited = check(unsafe { WaitNamedPipeW(path.as_ptr(), 1) });
    !waited.is_err_and(|error| is(&error, ERROR_FILE_NOT_FOUND) || is(&error, ERROR_PATH_NOT_FOUND))
}

/// Connects to a pipe's server. The server learns the caller's identity, but cannot impersonate the caller.
pub fn connect(path: &str, deadline: Instant) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .security_qos_flags(SECURITY_IDENTIFICATION);
    loop {
        match options.open(path) {
            Err(error) if is(&error, ERROR_PIPE_BUSY) && Instant::now() < deadline => sleep(POLL),
            result => return result,
        }
    }
}

/// Returns the process that serves the other end of the pipe.
pub fn server_process(pipe: &File) -> io::Result<u32> {
    let mut id = 0;
    // SAFETY: the handle lives as long as `pipe`; the result goes to a valid place.
    check(unsafe { GetNamedPipeServerProcessId(pipe.as_raw_handle(), &raw mut id) })?;
    Ok(id)
}

/// Fills the buffer; fails at the deadline.
pub fn read_exactly(mut pipe: &File, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut read = 0;
    while read < bytes.len() {
        if waiting(pipe)? > 0 {
            read += pipe.read(&mut bytes[read..])?;
        } else if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        } else {
            sleep(POLL);
        }
    }
    Ok(())
}

/// Returns how many bytes can be read without waiting; fails once the other end is closed.
fn waiting(pipe: &File) -> io::Result<u32> {
    let mut available = 0;
    // SAFETY: the handle lives as long as `pipe`; null and 0 stand for "do not copy"; the result goes to a valid place.
    check(unsafe {
        PeekNamedPipe(
            pipe.as_raw_handle(),
            null_mut(),
            0,
            null_mut(),
            &raw mut available,
            null_mut(),
        )
    })?;
    Ok(available)
}
