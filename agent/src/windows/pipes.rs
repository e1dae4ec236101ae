//! Finds named pipes, serves the agent's own pipe, and calls it.
//!
//! `WaitNamedPipeW` finds a pipe without opening a connection: it returns "file not found" if no process serves the name,
//! and any other result, free or busy, if one does. This holds for Windows and for Wine.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr::null_mut;
use std::thread::sleep;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{
    ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_PIPE_BUSY, ERROR_PIPE_CONNECTED,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_FIRST_PIPE_INSTANCE, PIPE_ACCESS_DUPLEX, SECURITY_IDENTIFICATION,
};
use windows_sys::Win32::System::Pipes::{
    ConnectNamedPipe, CreateNamedPipeW, GetNamedPipeServerProcessId, PIPE_READMODE_BYTE,
    PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE, PIPE_WAIT, PeekNamedPipe, WaitNamedPipeW,
};

use protocol::paths::AGENT_PIPE;
use windows_sys::Win32::System::Rpc::{RPC_S_OK, UuidCreate};
use windows_sys::core::GUID;

use super::acl::{Descriptor, PRIVATE};
use super::win32::{check, is, owned, wide};

/// The maximum number of simultaneous callers.
const MOST_INSTANCES: u32 = 32;
const BUFFER: u32 = 64 << 10;
/// The longest line that the agent reads, in bytes.
const LONGEST_LINE: usize = 8 << 20;
const POLL: Duration = Duration::from_millis(5);

/// Returns whether a pipe is served; `name` is without `\\.\pipe\`.
pub fn is_open(name: &str) -> bool {
    let path = wide(&format!(r"\\.\pipe\{name}"));
    // SAFETY: the name is nul-terminated.
    let waited = check(unsafe { WaitNamedPipeW(path.as_ptr(), 1) });
    !waited.is_err_and(|error| is(&error, ERROR_FILE_NOT_FOUND) || is(&error, ERROR_PATH_NOT_FOUND))
}

/// The server end of a pipe.
pub struct Listener {
    path: String,
    next: OwnedHandle,
}

impl Listener {
    /// Opens a pipe that only SYSTEM and Administrators of this machine can use. Its name is random: any account may create
    /// pipes, and a predictable name could be taken first.
    pub fn open() -> io::Result<Self> {
        let path = format!("{AGENT_PIPE}-{}", random()?);
        let next = instance(&path, FILE_FLAG_FIRST_PIPE_INSTANCE)?;
        Ok(Self { path, next })
    }

    /// Returns the pipe's path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits for a caller.
    pub fn accept(&mut self) -> io::Result<File> {
        // SAFETY: the handle is a pipe's and lives as long as `self`; without overlapped I/O null is right.
        let connected = check(unsafe { ConnectNamedPipe(self.next.as_raw_handle(), null_mut()) });
        if let Err(error) = connected
            && !is(&error, ERROR_PIPE_CONNECTED)
        {
            self.next = instance(&self.path, 0)?;
            return Err(error);
        }
        // The next instance is created before this one can be closed, so that the name never becomes free for others.
        let caller = std::mem::replace(&mut self.next, instance(&self.path, 0)?);
        Ok(File::from(caller))
    }
}

/// Returns a unique random text.
fn random() -> io::Result<String> {
    let mut id = GUID::from_u128(0);
    // SAFETY: the result goes to a valid place.
    let made = unsafe { UuidCreate(&raw mut id) };
    if made != RPC_S_OK {
        return Err(io::Error::from_raw_os_error(made));
    }
    let rest = u64::from_be_bytes(id.data4);
    Ok(format!(
        "{:08x}{:04x}{:04x}{rest:016x}",
        id.data1, id.data2, id.data3
    ))
}

/// Creates one instance of a pipe, which only SYSTEM and Administrators of this machine can use.
fn instance(path: &str, flags: u32) -> io::Result<OwnedHandle> {
    let descriptor = Descriptor::parse(PRIVATE)?;
    let mode = PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS;
    // SAFETY: the name is nul-terminated; the attributes point to the living descriptor; the handle is new.
    unsafe {
        owned(CreateNamedPipeW(
            wide(path).as_ptr(),
            PIPE_ACCESS_DUPLEX | flags,
            mode,
            MOST_INSTANCES,
            BUFFER,
            BUFFER,
            0,
            &descriptor.attributes(),
        ))
    }
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

/// Writes a line.
pub fn write_line(mut pipe: &File, line: &str) -> io::Result<()> {
    pipe.write_all(format!("{line}\n").as_bytes())
}

/// Reads a line; fails at the deadline.
pub fn read_line(mut pipe: &File, deadline: Instant) -> io::Result<String> {
    let mut line = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    while line.last() != Some(&b'\n') {
        if waiting(pipe)? == 0 {
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep(POLL);
            continue;
        }
        let length = pipe.read(&mut buffer)?;
        line.extend_from_slice(&buffer[..length]);
        if line.len() > LONGEST_LINE {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    String::from_utf8(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Waits until the other end is closed, so that it can read everything that was written.
pub fn await_hang_up(pipe: &File, deadline: Instant) {
    while waiting(pipe).is_ok() && Instant::now() < deadline {
        sleep(POLL);
    }
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
