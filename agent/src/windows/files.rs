//! Writes files atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::time::Duration;

use protocol::Failure;
use sha2::{Digest, Sha256};
use windows_storage_agent::digest::hexadecimal;
use windows_storage_agent::errors::Context;
use windows_sys::Win32::Storage::FileSystem::{
    MOVEFILE_REPLACE_EXISTING, MOVEFILE_WRITE_THROUGH, MoveFileExW,
};

use super::acl;
use super::win32::{check, retry_for, wide};

/// How long to wait for a file that another process, such as a virus scanner, holds.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The same for reports, which can be repeated.
pub const BRIEF: Duration = Duration::from_secs(1);

/// Returns a file's SHA-256; `None` if it does not exist.
pub fn sha256(path: &str) -> Result<Option<String>, Failure> {
    sha256_within(path, PATIENCE)
}

/// Like [`sha256`], but waits only this long for a file that another process holds.
pub fn sha256_within(path: &str, patience: Duration) -> Result<Option<String>, Failure> {
    read_within(path, patience, digest)
}

/// Reads a file, if it exists; waits this long while another process holds it.
pub fn read_within<T>(
    path: &str,
    patience: Duration,
    read: impl Fn(File) -> io::Result<T>,
) -> Result<Option<T>, Failure> {
    let read = retry_for(patience, || match File::open(path) {
        Ok(file) => read(file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    });
    read.context(format_args!("reading {path}"))
}

fn digest(mut file: File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hexadecimal(&hasher.finalize())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// Renames a file and replaces any existing one, even if it is read-only. The change is on disk when this returns.
pub fn rename(from: &str, to: &str) -> io::Result<()> {
    make_writable(to)?;
    let (from, to) = (wide(from), wide(to));
    let how = MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH;
    // SAFETY: both names are nul-terminated.
    retry(|| check(unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), how) }))
}

/// Writes a file so that, whatever happens, it has either the old or the new content.
pub fn write_whole(path: &str, content: &[u8]) -> io::Result<()> {
    let beside = format!("{path}.new");
    // An existing file keeps its owner, may be open elsewhere, or be a second name of another file.
    remove(&beside)?;
    let mut file = retry(|| File::create(&beside))?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    rename(&beside, path)
}

/// Copies a program beside its destination, complete and protected; returns the path of the copy, which the caller renames.
pub fn stage_program(from: &str, to: &str) -> io::Result<String> {
    let beside = format!("{to}.new");
    remove(&beside)?;
    retry(|| fs::copy(from, &beside))?;
    make_writable(&beside)?;
    flush(&beside)?;
    acl::protect(&beside, acl::PROGRAM)?;
    Ok(beside)
}

/// Lets only administrators change an installed program, if it exists.
pub fn protect_program(path: &str) -> Result<(), Failure> {
    match acl::protect(path, acl::PROGRAM) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        protected => protected.context(format_args!("protecting {path}")),
    }
}

/// Flushes a file's content to disk.
pub fn flush(path: &str) -> io::Result<()> {
    retry(|| OpenOptions::new().write(true).open(path))?.sync_all()
}

#[allow(
    clippy::permissions_set_readonly_false,
    reason = "on Windows it takes an attribute away and gives no rights"
)]
fn make_writable(path: &str) -> io::Result<()> {
    let Ok(there) = fs::metadata(path) else {
        return Ok(());
    };
    let mut permissions = there.permissions();
    if permissions.readonly() {
        permissions.set_readonly(false);
        fs::set_permissions(path, permissions)?;
    }
    Ok(())
}

/// Removes a file, if it exists.
pub fn remove(path: &str) -> io::Result<()> {
    make_writable(path)?;
    match retry(|| fs::remove_file(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn retry<T>(attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    retry_for(PATIENCE, attempt)
}
