//! Transfers files over SFTP: checks, sends and removes them.

mod reading;

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use ssh2::{File, OpenFlags, OpenType, Sftp};

use crate::node::session::{OPERATION, Session, milliseconds};
use crate::node::{NodeError, Reason, socket};
pub use reading::{Found, Part, ReadFailure};

/// The most bytes of a file in flight, in memory until they are acknowledged. OpenSSH accepts no more than 2 MiB of a
/// channel's data before it has processed it (`CHAN_SES_WINDOW_DEFAULT` in its `channels.h`). 64 nodes have a place to be worked on.
const PIECE: usize = 1280 << 10;
/// Time limit for sending a window: libssh2 takes no acknowledgement before it has sent all of it, and over a slow line
/// the largest window takes a minute or more. TCP detects a dead host sooner.
const HANDING_OVER: Duration = Duration::from_secs(4 * 60);

/// SFTP status codes. Source: draft-ietf-secsh-filexfer-13, section 9.1, and libssh2's `libssh2_sftp.h`.
mod code {
    pub const NO_SUCH_FILE: i32 = 2;
    pub const PERMISSION_DENIED: i32 = 3;
    pub const FAILURE: i32 = 4;
    pub const NO_SUCH_PATH: i32 = 10;
    pub const NO_SPACE: i32 = 14;
    pub const QUOTA_EXCEEDED: i32 = 15;
}

impl Session {
    /// Returns whether a file exists.
    pub fn exists(&mut self, path: &str) -> Result<bool, NodeError> {
        self.with_sftp(path, |sftp| found(sftp.stat(Path::new(path))))
            .map(|found| found.is_some())
    }

    /// Creates a folder, and returns whether it is new. An existing folder is refused like one that cannot be created;
    /// the latter shows when a file is written to it.
    pub fn make_folder(&mut self, path: &str) -> Result<bool, NodeError> {
        self.with_sftp(path, |sftp| match sftp.mkdir(Path::new(path), 0o755) {
            Err(error) if sftp_code(&error).is_none() => Err(error),
            done => Ok(done.is_ok()),
        })
    }

    /// Writes a file from the start. Its name must be one that nobody uses before it is verified.
    pub fn upload(&mut self, path: &str, content: &[u8]) -> Result<(), NodeError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let created = self.with_sftp(path, |sftp| {
            sftp.open_mode(Path::new(path), flags, 0o644, OpenType::File)
        });
        let mut file = created?;
        let mut acknowledged = 0;
        self.ssh.set_timeout(milliseconds(HANDING_OVER));
        let written = self.write(&mut file, content, &mut acknowledged);
        self.ssh.set_timeout(milliseconds(OPERATION));
        let size = content.len();
        let Err(error) = written.and_then(|()| Ok(file.close()?)) else {
            return Ok(());
        };
        if was_answered(&self.ssh) {
            // Free the space that the partial file takes.
            drop(file);
            let _ = self.remove(path);
            return Err(refused_write(path, acknowledged, size, &error));
        }
        self.give_up();
        // libssh2 frees what belongs to a file only after the packet that it has begun to send.
        let rest = piece(content, acknowledged);
        let _ = socket::with_sink(&self.ssh, || drop(file.write(rest)));
        Err(Reason::TransferFailed.error(format!(
            "{path}: sending ended after {acknowledged} of {size} bytes: {error}"
        )))
    }

    /// Sends as much as may be in flight, and takes acknowledgements, until everything is acknowledged.
    fn write(
        &self,
        file: &mut File,
        content: &[u8],
        acknowledged: &mut usize,
    ) -> std::io::Result<()> {
        while *acknowledged < content.len() {
            self.fence.pass().map_err(std::io::Error::other)?;
            // libssh2 remembers how much of this it has already sent, and skips that.
            match file.write(piece(content, *acknowledged))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                more => *acknowledged += more,
            }
        }
        Ok(())
    }

    /// Removes a file if it exists.
    pub fn remove(&mut self, path: &str) -> Result<(), NodeError> {
        self.with_sftp(path, |sftp| found(sftp.unlink(Path::new(path))))
            .map(drop)
    }

    /// Removes a folder if it exists and is empty.
    pub fn remove_folder(&mut self, path: &str) -> Result<(), NodeError> {
        self.with_sftp(path, |sftp| found(sftp.rmdir(Path::new(path))))
            .map(drop)
    }

    /// Runs `work` over SFTP, which is opened when first needed.
    fn with_sftp<T>(
        &mut self,
        path: &str,
        work: impl FnOnce(&Sftp) -> Result<T, ssh2::Error>,
    ) -> Result<T, NodeError> {
        self.sftp = Some(match self.sftp.take() {
            Some(sftp) => sftp,
            None => self.ssh.sftp().map_err(|error| {
                self.give_up();
                Reason::TransferFailed.error(format!(
                    "the server offers no SFTP: {error}; check the line \"Subsystem sftp\" in sshd_config on the node, and \
                     that a shell in which sshd starts it (DefaultShell in HKLM\\SOFTWARE\\OpenSSH) prints nothing of \
                     its own, as a profile of PowerShell may"
                ))
            })?,
        });
        self.check_lease()?;
        let done = self.sftp.as_ref().map_or(Err(ssh2::Error::eof()), work);
        done.map_err(|error| {
            if sftp_code(&error).is_none() {
                self.give_up();
            }
            transfer(path, &error)
        })
    }
}

/// Returns what may be in flight after so much was acknowledged.
fn piece(content: &[u8], acknowledged: usize) -> &[u8] {
    &content[acknowledged..content.len().min(acknowledged + PIECE)]
}

/// Turns "no such file" into `None`.
fn found<T>(result: Result<T, ssh2::Error>) -> Result<Option<T>, ssh2::Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => match sftp_code(&error) {
            Some(code::NO_SUCH_FILE | code::NO_SUCH_PATH) => Ok(None),
            _ => Err(error),
        },
    }
}

fn sftp_code(error: &ssh2::Error) -> Option<i32> {
    match error.code() {
        ssh2::ErrorCode::SFTP(code) => Some(code),
        ssh2::ErrorCode::Session(_) => None,
    }
}

fn transfer(path: &str, error: &ssh2::Error) -> NodeError {
    let (reason, hint) = match sftp_code(error) {
        Some(code::PERMISSION_DENIED) => (
            Reason::TransferFailed,
            "; the SSH user must be an administrator of the node, and no virus scanner may hold the file",
        ),
        // Windows' server returns this for a file that is held, one that exists already, and a full disk:
        // `errno_from_Win32Error` in its `fileio.c` passes them on, and `errno_to_portable` knows none of them.
        Some(code::FAILURE) => (
            Reason::TransferFailed,
            "; does another program, such as a virus scanner, hold the file, or is drive C: full?",
        ),
        Some(code::NO_SPACE | code::QUOTA_EXCEEDED) => {
            (Reason::DiskFull, "; free some space on drive C:")
        }
        _ => (Reason::TransferFailed, ""),
    };
    reason.error(format!("{path}: {error}{hint}"))
}

/// Returns whether the last failure was an answer of the SFTP server rather than a lost connection: the crate's
/// `io::Error` does not say.
fn was_answered(session: &ssh2::Session) -> bool {
    const SFTP_PROTOCOL: i32 = -31;
    ssh2::Error::last_session_error(session)
        .is_some_and(|error| error.code() == ssh2::ErrorCode::Session(SFTP_PROTOCOL))
}

/// Creates the error for a refused write. Windows' SFTP server has no code for a full disk, but that is the likely
/// cause if a write fails after the file could be opened.
fn refused_write(path: &str, sent: usize, size: usize, error: &dyn std::fmt::Display) -> NodeError {
    Reason::DiskFull.error(format!(
        "the node took {sent} of {size} bytes of {path} and then refused to write ({error}): in all likelihood no \
         space is left on drive C:; free some space. What ran on the node before still runs"
    ))
}

#[cfg(test)]
mod tests {
    use ssh2::{Error, ErrorCode};

    use super::*;

    #[test]
    fn each_status_of_windows_server_says_what_to_do() {
        for (code, reason, words) in [
            (
                code::PERMISSION_DENIED,
                Reason::TransferFailed,
                "must be an administrator",
            ),
            // A file that is held, one that exists already, and a full disk.
            (code::FAILURE, Reason::TransferFailed, "drive C: full?"),
            (code::NO_SPACE, Reason::DiskFull, "free some space"),
            // A bad message, for example because a path is too long.
            (5, Reason::TransferFailed, "C:/k/x"),
        ] {
            let error = Error::new(ErrorCode::SFTP(code), "failure");
            let error = transfer("C:/k/x", &error);
            assert_eq!(error.reason, reason, "{code}");
            assert!(error.message.contains(words), "{error}");
        }
    }
}
