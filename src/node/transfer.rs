//! Files over a session's SFTP: looked for, brought, renamed, removed.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use ssh2::{File, OpenFlags, OpenType, RenameFlags, Sftp};

use crate::node::session::{Session, WOULD_BLOCK};
use crate::node::{NodeError, Reason};

/// What one SFTP write gets at most: packets are pipelined only within one write, and all of them are in memory until they
/// are acknowledged.
const LARGEST_SLICE: usize = 4 << 20;
/// Enough for 10 MB/s over a round trip of 25 ms.
const SMALLEST_SLICE: usize = 256 << 10;
/// What all that is being sent may take of the process's memory, as long as that leaves each the smallest slice.
const BUDGET: usize = 16 << 20;

/// Files that this process is sending.
static SENDING: AtomicUsize = AtomicUsize::new(0);

/// One of them, until it is dropped.
struct Sending;

impl Sending {
    fn begin() -> Self {
        SENDING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        SENDING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How much of each of so many files may go into one write.
fn slice(files: usize) -> usize {
    (BUDGET / files.max(1)).clamp(SMALLEST_SLICE, LARGEST_SLICE)
}

/// SFTP status codes. Source: draft-ietf-secsh-filexfer-13, section 9.1, and libssh2's `libssh2_sftp.h`.
mod code {
    pub const NO_SUCH_FILE: i32 = 2;
    pub const PERMISSION_DENIED: i32 = 3;
    pub const NO_SUCH_PATH: i32 = 10;
    pub const NO_SPACE: i32 = 14;
    pub const QUOTA_EXCEEDED: i32 = 15;
}

impl Session {
    /// Whether there is such a file.
    pub fn exists(&mut self, path: &str) -> Result<bool, NodeError> {
        self.with_sftp(path, |sftp| found(sftp.stat(Path::new(path))))
            .map(|found| found.is_some())
    }

    /// Makes a folder and those above it.
    pub fn make_folders(&mut self, path: &str) -> Result<(), NodeError> {
        let ends = path
            .match_indices('/')
            .map(|(at, _)| at)
            .skip(1)
            .chain([path.len()]);
        let made = self.with_sftp(path, |sftp| answered(sftp.mkdir(Path::new(path), 0o755)))?;
        if made.is_ok() {
            return Ok(());
        }
        for end in ends {
            let folder = &path[..end];
            if !self.exists(folder)? {
                self.with_sftp(folder, |sftp| sftp.mkdir(Path::new(folder), 0o755))?;
            }
        }
        Ok(())
    }

    /// Writes a file from the start. Its name must be one that nobody uses before it was verified: word that it could be
    /// closed is not waited for.
    pub fn upload(&mut self, path: &str, content: &[u8]) -> Result<(), NodeError> {
        let file = self.with_sftp(path, |sftp| create(sftp, path))?;
        self.write(file, path, content)
    }

    /// One file in a folder that may have to be made.
    pub fn upload_into(
        &mut self,
        folder: &str,
        path: &str,
        content: &[u8],
    ) -> Result<(), NodeError> {
        // Nearly always it is there or its parent is: that is not asked before.
        let found = self.with_sftp(path, |sftp| found(create(sftp, path)))?;
        if let Some(file) = found {
            return self.write(file, path, content);
        }
        self.make_folders(folder)?;
        self.upload(path, content)
    }

    fn write(&mut self, mut file: File, path: &str, content: &[u8]) -> Result<(), NodeError> {
        let _sending = Sending::begin();
        let mut sent = 0;
        while sent < content.len() {
            // A smaller slice than before only lets what is on its way be acknowledged first.
            let slice = slice(SENDING.load(Ordering::Relaxed));
            let next = &content[sent..content.len().min(sent + slice)];
            let problem = match file.write(next) {
                Ok(0) => "the node takes no more data".to_owned(),
                Ok(written) => {
                    sent += written;
                    continue;
                }
                Err(error) if was_answered(&self.ssh) => {
                    // The server still answers: give back the space that the torso takes.
                    drop(file);
                    let _ = self.remove(path);
                    return Err(refused_write(path, sent, content.len(), &error));
                }
                Err(error) => error.to_string(),
            };
            self.give_up();
            return Err(NodeError::new(
                Reason::TransferFailed,
                format!(
                    "{path}: sending ended after {sent} of {} bytes: {problem}",
                    content.len()
                ),
            ));
        }
        self.close(file, path)
    }

    /// Closes a file without a round trip: the server carries out one request after the other.
    fn close(&mut self, mut file: File, path: &str) -> Result<(), NodeError> {
        self.ssh.set_blocking(false);
        let closed = file.close();
        self.ssh.set_blocking(true);
        match closed {
            Err(error) if error.code() == WOULD_BLOCK => {
                self.closing.push(file);
                Ok(())
            }
            closed => self.with_sftp(path, |_| closed),
        }
    }

    /// Gives a file its name; what had that name before goes.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), NodeError> {
        // Not every server renames over a file, and what had this name is of no use without its new content.
        self.remove(to)?;
        self.with_sftp(to, |sftp| rename(sftp, from, to))
    }

    /// Gives a file its name if the server does so.
    pub fn try_rename(&mut self, from: &str, to: &str) -> Result<bool, NodeError> {
        self.with_sftp(to, |sftp| answered(rename(sftp, from, to)))
            .map(|renamed| renamed.is_ok())
    }

    /// Removes a file if it is there.
    pub fn remove(&mut self, path: &str) -> Result<(), NodeError> {
        self.with_sftp(path, |sftp| found(sftp.unlink(Path::new(path))))
            .map(drop)
    }

    /// Does something over SFTP, which is opened when it is first needed.
    fn with_sftp<T>(
        &mut self,
        path: &str,
        work: impl FnOnce(&Sftp) -> Result<T, ssh2::Error>,
    ) -> Result<T, NodeError> {
        if self.sftp.is_none() {
            let opened = self.ssh.sftp().map_err(|error| {
                self.give_up();
                NodeError::new(
                    Reason::TransferFailed,
                    format!(
                        "the server offers no SFTP: {error}; check the line \"Subsystem sftp\" in sshd_config on the node"
                    ),
                )
            })?;
            self.sftp = Some(opened);
        }
        let done = match &self.sftp {
            Some(sftp) => work(sftp),
            // It was opened just now.
            None => Err(ssh2::Error::eof()),
        };
        done.map_err(|error| {
            if sftp_code(&error).is_none() {
                self.give_up();
            }
            transfer(path, &error)
        })
    }
}

fn create(sftp: &Sftp, path: &str) -> Result<File, ssh2::Error> {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
    sftp.open_mode(Path::new(path), flags, 0o644, OpenType::File)
}

fn rename(sftp: &Sftp, from: &str, to: &str) -> Result<(), ssh2::Error> {
    let flags = Some(RenameFlags::ATOMIC | RenameFlags::NATIVE);
    sftp.rename(Path::new(from), Path::new(to), flags)
}

/// A refusal is an answer: the outer error is the loss of the connection.
fn answered<T>(result: Result<T, ssh2::Error>) -> Result<Result<T, ssh2::Error>, ssh2::Error> {
    match result {
        Err(error) if sftp_code(&error).is_none() => Err(error),
        answer => Ok(answer),
    }
}

/// Nothing there is an answer too.
fn found<T>(result: Result<T, ssh2::Error>) -> Result<Option<T>, ssh2::Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(
                sftp_code(&error),
                Some(code::NO_SUCH_FILE | code::NO_SUCH_PATH)
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn sftp_code(error: &ssh2::Error) -> Option<i32> {
    match error.code() {
        ssh2::ErrorCode::SFTP(code) => Some(code),
        ssh2::ErrorCode::Session(_) => None,
    }
}

fn transfer(path: &str, error: &ssh2::Error) -> NodeError {
    let hint = match sftp_code(error) {
        Some(code::PERMISSION_DENIED) => {
            "; the SSH user must be an administrator of the node, and no virus scanner may hold the file"
        }
        Some(code::NO_SPACE | code::QUOTA_EXCEEDED) => {
            return NodeError::new(
                Reason::DiskFull,
                format!("{path}: {error}; free some space on drive C:"),
            );
        }
        _ => "",
    };
    NodeError::new(Reason::TransferFailed, format!("{path}: {error}{hint}"))
}

/// Whether the last failure was an answer of the SFTP server and not the loss of the connection: the crate's
/// `io::Error` does not tell.
fn was_answered(session: &ssh2::Session) -> bool {
    const SFTP_PROTOCOL: i32 = -31;
    ssh2::Error::last_session_error(session)
        .is_some_and(|error| error.code() == ssh2::ErrorCode::Session(SFTP_PROTOCOL))
}

/// Windows' SFTP server has no code of its own for a full disk: a write that fails after the file could be opened is
/// one in all likelihood.
fn refused_write(path: &str, sent: usize, size: usize, error: &dyn std::fmt::Display) -> NodeError {
    NodeError::new(
        Reason::DiskFull,
        format!(
            "the node took {sent} of {size} bytes of {path} and then refused to write ({error}): in all likelihood no \
             space is left on drive C:; free some space. What ran on the node before still runs"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_sent_shares_what_it_may_take_of_memory() {
        assert_eq!(slice(0), LARGEST_SLICE);
        for files in 1..=BUDGET / SMALLEST_SLICE {
            let taken = files * slice(files);
            assert!(taken <= BUDGET, "{files} files take {taken}");
        }
        assert_eq!(slice(1_000), SMALLEST_SLICE);
    }
}
