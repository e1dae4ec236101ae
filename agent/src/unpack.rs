//! Unpacking what SFTP brings compressed: in bounded memory, to exactly the announced content, once it has arrived.

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

/// The most that a frame may have its decoder remember, as a power of two of bytes: the 8 MiB that `zstd -19` asks for.
/// Source: `ZSTD_defaultCParameters` in libzstd's `clevels.h`.
const WINDOW_LOG: u32 = 23;
const BUFFER: usize = 512 << 10;
/// How soon it is checked again for what arrives, and how late while nothing does.
const POLL: Duration = Duration::from_millis(2);
const SLOWEST_POLL: Duration = Duration::from_millis(100);

/// What is announced of the content.
#[derive(Clone, Copy, Debug)]
pub struct Announced<'a> {
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 in lower-case hexadecimal.
    pub sha256: &'a str,
}

/// Why something cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The packed file cannot be read, or does not arrive.
    #[error("reading it: {0}")]
    Read(io::Error),
    /// The content cannot be written.
    #[error("writing its content: {0}")]
    Write(io::Error),
    /// It is no frame of Zstandard, is damaged or cut off, wants too much memory, or has another content than announced.
    #[error("{0}")]
    Content(String),
}

/// Unpacks one frame of Zstandard. What was written is of use only after success.
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
        // A full buffer may not have been large enough for what is there already.
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

/// The pause before the next check for something that has been awaited since then. It makes the wait an eighth longer at
/// most, or some milliseconds.
#[must_use]
pub fn pause(since: Instant) -> Duration {
    (since.elapsed() / 8).clamp(POLL, SLOWEST_POLL)
}

/// What a look finds of a file that is being brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It is not there.
    Absent,
    /// Another process has it and lets nobody read, as Windows' SFTP server does with all that it writes (`createFile_flags_setup`
    /// in Win32-OpenSSH's `fileio.c`): it is still arriving.
    Held,
    /// It is there and may not be read at this moment.
    Refused,
    /// It can be read and has so many bytes.
    Size(u64),
}

impl Sight {
    /// What the attempt to open the file and to read its size says; an error that waiting does not mend is returned.
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

/// How long nothing may come of what is still on its way: the sender has given up by then.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The wait for a file that another process brings, until it has its announced size.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    size: u64,
    deadline: Instant,
    /// How long nothing may come of it.
    pub patience: Duration,
    last: Sight,
    /// When the last look began to find what it found.
    since: Instant,
}

impl Arrival {
    /// A file that has so many bytes when it is complete; what is not there at the deadline, or after [`PATIENCE`] in which
    /// nothing came, does not come.
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

    /// Whether the file is complete, by what a look finds now. How long it is held does not count: over a slow line that is
    /// most of the time.
    pub fn is_complete(&mut self, sight: Sight, now: Instant) -> io::Result<bool> {
        let before = std::mem::replace(&mut self.last, sight);
        if before != sight || sight == Sight::Held {
            self.since = now;
        }
        let arrived = match sight {
            Sight::Size(size) if size >= self.size => return Ok(true),
            Sight::Absent if before != Sight::Absent => {
                let why = "it was taken back before it was complete";
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

/// Opens a file once it has arrived. In between it is not held open, so that the sender can remove it again.
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
