//! Unpacks compressed files that SFTP uploads, in bounded memory, and only to exactly the announced content.

use std::io::{self, ErrorKind, Read, Write};

use sha2::{Digest, Sha256};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use crate::digest::hexadecimal;

/// The largest window that a frame may ask for, as a power of two in bytes: the 8 MiB of `zstd -19`. Source:
/// `ZSTD_defaultCParameters` in libzstd's `clevels.h`.
const WINDOW_LOG: u32 = 23;
const BUFFER: usize = 512 << 10;

/// Why a file cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The packed file cannot be read.
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

/// Unpacks one Zstandard frame whose content has this size and SHA-256. What is written is valid only on success.
pub fn unpack(
    mut packed: impl Read,
    mut content: impl Write,
    announced: u64,
    sha256: &str,
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
        if size > announced {
            return Err(wrong_size(size, announced));
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
    if size != announced {
        return Err(wrong_size(size, announced));
    }
    if begin != end || packed.read(&mut [0]).map_err(UnpackError::Read)? != 0 {
        return Err(wrong("it goes on after its end"));
    }
    let found = hexadecimal(&hasher.finalize());
    if found != sha256 {
        let why = format!("its content has sha256 {found}, not {sha256} as announced");
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

fn wrong_size(found: u64, announced: u64) -> UnpackError {
    wrong(format!(
        "its content has {found} bytes or more, not {announced} as announced"
    ))
}

#[cfg(test)]
mod tests;
