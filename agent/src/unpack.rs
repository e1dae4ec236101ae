//! Unpacking what SFTP brings compressed, while it still arrives: in bounded memory, to exactly the announced content.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use crate::digest::hexadecimal;
use crate::errors::may_pass;

/// The most that a frame may have its decoder remember, as a power of two of bytes: the 8 MiB that `zstd -19` asks for.
/// Source: `ZSTD_defaultCParameters` in libzstd's `clevels.h`.
const WINDOW_LOG: u32 = 23;
const BUFFER: usize = 512 << 10;
/// How soon it is checked again for what arrives, and how late while nothing does.
const POLL: Duration = Duration::from_millis(2);
const SLOWEST_POLL: Duration = Duration::from_millis(100);
/// How long it is left to arrive before more of it is read, where all that was there is read: each check opens the file,
/// which takes longer than to unpack the little that has arrived since.
const GATHER: Duration = Duration::from_millis(10);

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

/// The pause before the next check for something that has been awaited since then. Windows reports no file's
/// growth before it is closed, so this can only be a poll: it makes the wait an eighth longer at most, or some
/// milliseconds.
#[must_use]
pub fn pause(since: Instant) -> Duration {
    (since.elapsed() / 8).clamp(POLL, SLOWEST_POLL)
}

/// A file that another process still writes, from its start to its announced size.
#[derive(Debug)]
pub struct Arriving {
    path: PathBuf,
    size: u64,
    position: u64,
    seen: bool,
    /// The last look found less than was asked for.
    is_short: bool,
    deadline: Instant,
    patience: Duration,
}

/// How long nothing may come of what is still on its way: whoever sends it has given up by then.
pub const PATIENCE: Duration = Duration::from_secs(120);

impl Arriving {
    /// A file that has so many bytes when it is complete; what is not there at the deadline, or after [`PATIENCE`] without
    /// another byte, does not come.
    #[must_use]
    pub fn new(path: PathBuf, size: u64, deadline: Instant) -> Self {
        Self {
            path,
            size,
            position: 0,
            seen: false,
            is_short: false,
            deadline,
            patience: PATIENCE,
        }
    }

    /// Reads what is there after the position. The file is not held open in between, so that whoever brings it can take
    /// it back and bring it again.
    fn look(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && self.seen => {
                let why = "it was taken back before it was complete";
                return Err(io::Error::new(ErrorKind::NotFound, why));
            }
            // A virus scanner looks at it, or the server lets nobody else read.
            Err(error) if error.kind() == ErrorKind::NotFound || may_pass(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        self.seen = true;
        file.seek(SeekFrom::Start(self.position))?;
        file.read(buffer)
    }
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.size {
            // One byte more than announced is enough to know.
            return self.look(&mut buffer[..1]);
        }
        let begin = Instant::now();
        let by = self.deadline.min(begin + self.patience);
        if self.is_short {
            sleep(GATHER);
        }
        loop {
            match self.look(buffer)? {
                0 if Instant::now() >= by => {
                    let why = format!("{} of {} bytes have arrived", self.position, self.size);
                    return Err(io::Error::new(ErrorKind::TimedOut, why));
                }
                0 => sleep(pause(begin)),
                length => {
                    self.position += length as u64;
                    self.is_short = length < buffer.len();
                    return Ok(length);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
