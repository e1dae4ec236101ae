//! Unpacks compressed files that SFTP uploads, in bounded memory, and only to exactly the announced content.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::FailureCategory;
use sha2::{Digest, Sha256};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use crate::digest::hexadecimal;
use crate::errors::category;

/// The largest window that a frame may ask for, as a power of two in bytes: the 8 MiB of `zstd -19`. Source:
/// `ZSTD_defaultCParameters` in libzstd's `clevels.h`.
const WINDOW_LOG: u32 = 23;
const BUFFER: usize = 512 << 10;
/// The shortest and the longest interval between checks for a file that is arriving.
const POLL: Duration = Duration::from_millis(2);
const SLOWEST_POLL: Duration = Duration::from_millis(100);

/// The announced properties of the content.
#[derive(Clone, Copy, Debug)]
pub struct Announced<'a> {
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 in lower-case hexadecimal.
    pub sha256: &'a str,
}

/// Why a file cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The packed file cannot be read, or does not arrive.
    #[error("reading it: {0}")]
    Read(io::Error),
    /// The content cannot be written.
    #[error("writing its content: {0}")]
    Write(io::Error),
    /// The file is not a Zstandard frame, is damaged or truncated, needs too much memory, or has other content than
    /// announced.
    #[error("{0}")]
    Content(String),
}

/// Unpacks one Zstandard frame. The written content is valid only on success.
pub fn unpack(
    mut packed: impl Read,
    mut content: impl Write,
    announced: Announced<'_>,
) -> Result<(), UnpackError> {
    let mut decoder =
        DCtx::try_create().ok_or_else(|| UnpackError::Write(ErrorKind::OutOfMemory.into()))?;
    let window = DParameter::WindowLogMax(WINDOW_LOG);
    decoder.set_parameter(window).map_err(damaged)?;
    let (mut size, mut hasher) = (0_u64, Sha256::new());
    let (mut arrived, mut buffer) = (vec![0; BUFFER], vec![0; BUFFER]);
    let (mut begin, mut end) = (0, 0);
    loop {
        let mut from = InBuffer::around(&arrived[begin..end]);
        let mut to = OutBuffer::around(buffer.as_mut_slice());
        let wanted = decoder.decompress_stream(&mut to, &mut from);
        let wanted = wanted.map_err(damaged)?;
        begin += from.pos();
        let length = to.pos();
        size += length as u64;
        if size > announced.size {
            return Err(announced.refuse_size(size));
        }
        hasher.update(&buffer[..length]);
        let written = content.write_all(&buffer[..length]);
        written.map_err(UnpackError::Write)?;
        if wanted == 0 {
            break;
        }
        // A full buffer may have been too small for the input that is already here.
        if begin == end && length < BUFFER {
            begin = 0;
            end = packed.read(&mut arrived).map_err(UnpackError::Read)?;
            if end == 0 {
                return Err(wrong("it ends before its content does"));
            }
        }
    }
    if size != announced.size {
        return Err(announced.refuse_size(size));
    }
    if begin != end || packed.read(&mut [0]).map_err(UnpackError::Read)? != 0 {
        return Err(wrong("it goes on after its end"));
    }
    let (found, announced) = (hexadecimal(&hasher.finalize()), announced.sha256);
    if found != announced {
        let why = format!("its content has sha256 {found}, not {announced} as announced");
        return Err(wrong(why));
    }
    content.flush().map_err(UnpackError::Write)
}

fn damaged(code: zstd_safe::ErrorCode) -> UnpackError {
    wrong(format!("it cannot be unpacked: {}", get_error_name(code)))
}

fn wrong(why: impl Into<String>) -> UnpackError {
    UnpackError::Content(why.into())
}

impl Announced<'_> {
    fn refuse_size(self, found: u64) -> UnpackError {
        let announced = self.size;
        wrong(format!(
            "its content has {found} bytes or more, not {announced} as announced"
        ))
    }
}

/// Returns the interval before the next check for something that has been awaited since `since`. It lengthens the wait by at
/// most an eighth, or by a few milliseconds.
#[must_use]
pub fn pause(since: Instant) -> Duration {
    (since.elapsed() / 8).clamp(POLL, SLOWEST_POLL)
}

/// The state of a file that is being uploaded, as one check finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It does not exist.
    Absent,
    /// Another process has it open without read sharing: it is still arriving. Windows' SFTP server opens every file that it
    /// writes in this way (`createFile_flags_setup` in Win32-OpenSSH's `fileio.c`).
    Held,
    /// It exists but cannot be read at the moment.
    Refused,
    /// It can be read and has this many bytes.
    Size(u64),
}

impl Sight {
    /// Interprets the result of opening the file and reading its size; returns errors that waiting cannot fix.
    pub fn of(opened: io::Result<u64>) -> io::Result<Self> {
        match opened {
            Ok(size) => Ok(Self::Size(size)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Absent),
            Err(error) => match category(&error) {
                FailureCategory::FileInUse => Ok(Self::Held),
                FailureCategory::AccessDenied => Ok(Self::Refused),
                _ => Err(error),
            },
        }
    }
}

/// How long a file may make no progress. The sender has given up by then.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The wait for a file that another process uploads, until it has its announced size.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    size: u64,
    deadline: Instant,
    /// How long the file may make no progress.
    pub patience: Duration,
    last: Sight,
    /// When `last` was first observed.
    since: Instant,
}

impl Arrival {
    /// Creates a wait for a file of `size` bytes. It times out at the deadline, or after [`PATIENCE`] without progress.
    #[must_use]
    pub fn new(size: u64, now: Instant, deadline: Instant) -> Self {
        Self {
            size,
            deadline,
            patience: PATIENCE,
            last: Sight::Absent,
            since: now,
        }
    }

    /// Returns whether the file is complete. Time during which it is held counts as progress: over a slow connection that is
    /// most of the time.
    pub fn is_complete(&mut self, sight: Sight, now: Instant) -> io::Result<bool> {
        let before = std::mem::replace(&mut self.last, sight);
        if before != sight || sight == Sight::Held {
            self.since = now;
        }
        let arrived = match sight {
            Sight::Size(size) if size >= self.size => return Ok(true),
            Sight::Absent if before != Sight::Absent => {
                let why = "it was removed before it was complete";
                return Err(io::Error::new(ErrorKind::NotFound, why));
            }
            Sight::Size(size) => format!("{size} of {} bytes have arrived", self.size),
            Sight::Absent => "it has not arrived".to_owned(),
            Sight::Held => "another process still has it open".to_owned(),
            Sight::Refused => "it may not be read".to_owned(),
        };
        if now >= self.deadline.min(self.since + self.patience) {
            return Err(io::Error::new(ErrorKind::TimedOut, arrived));
        }
        Ok(false)
    }
}

/// Opens a file once it has arrived. It is not held open between checks, so that the sender can remove it.
pub fn open_complete(path: &Path, mut arrival: Arrival) -> io::Result<File> {
    let begin = Instant::now();
    loop {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (size, file) = match opened {
            Ok((size, file)) => (Ok(size), Some(file)),
            Err(error) => (Err(error), None),
        };
        if arrival.is_complete(Sight::of(size)?, Instant::now())?
            && let Some(file) = file
        {
            return Ok(file);
        }
        sleep(pause(begin));
    }
}

#[cfg(test)]
mod tests;
