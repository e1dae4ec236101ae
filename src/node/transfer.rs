//! Files over a session's SFTP: looked for, brought, renamed, removed.

mod pipelined;
mod reading;
mod sent;
mod window;

use std::io::{ErrorKind, Write};
use std::path::Path;

use ssh2::{File, OpenFlags, OpenType, RenameFlags, Sftp};

use crate::node::session::Session;
use crate::node::{NodeError, Reason};
pub use reading::{Found, Part, ReadFailure};
pub use sent::Sent;
use window::{FIRST_BURST, Sending, window};

/// A channel, the subsystem in it, and the version that it speaks.
const SFTP_ROUND_TRIPS: u32 = 3;

/// A file that was closed, and whose closing was not yet confirmed.
pub struct Closing {
    file: File,
    path: String,
    size: usize,
}

/// A file on its way. Where it is given up, it is closed as well, which waits for the server.
pub struct Upload<'a> {
    file: File,
    path: String,
    content: &'a [u8],
    acknowledged: usize,
    _sending: Sending,
}

impl<'a> Upload<'a> {
    fn of(file: File, path: &str, content: &'a [u8]) -> Self {
        Self {
            file,
            path: path.to_owned(),
            content,
            acknowledged: 0,
            _sending: Sending::begin(),
        }
    }

    /// Hands over what may be on its way beyond what is, and takes acknowledgements; how much was acknowledged.
    fn write(&mut self, most: usize) -> std::io::Result<usize> {
        let most = match self.acknowledged {
            0 => most.min(FIRST_BURST),
            _ => most,
        };
        // libssh2 knows what it has sent already of what it is given here, and skips that.
        let end = self.content.len().min(self.acknowledged + most);
        let next = &self.content[self.acknowledged..end];
        let acknowledged = match self.file.write(next)? {
            // libssh2 has one mark for all files of a session that it was left waiting for an acknowledgement: after another
            // file it goes by that first, and sends nothing.
            0 => self.file.write(next)?,
            acknowledged => acknowledged,
        };
        self.acknowledged += acknowledged;
        Ok(acknowledged)
    }
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
        let made = self.with_sftp(path, |sftp| answered(make(sftp, path)))?;
        if made.is_ok() {
            return Ok(());
        }
        for end in ends {
            let folder = &path[..end];
            if !self.exists(folder)? {
                self.with_sftp(folder, |sftp| make(sftp, folder))?;
            }
        }
        Ok(())
    }

    /// Writes a file from the start. Its name must be one that nobody uses before it was verified: word that it could be
    /// closed is not waited for.
    pub fn upload(&mut self, path: &str, content: &[u8]) -> Result<(), NodeError> {
        let file = self.with_sftp(path, |sftp| create(sftp, path))?;
        self.finish_upload(Upload::of(file, path, content))
    }

    /// Sends the rest of a file, until all has been acknowledged.
    pub fn finish_upload(&mut self, mut upload: Upload<'_>) -> Result<(), NodeError> {
        while upload.acknowledged < upload.content.len() {
            if let Err(closed) = self.fence.pass() {
                return Err(self.sending_ended(upload, &std::io::Error::other(closed)));
            }
            // A smaller window than before only lets what is on its way be acknowledged first.
            match upload.write(self.window()) {
                Ok(0) => {
                    let problem = ErrorKind::WriteZero.into();
                    return Err(self.sending_ended(upload, &problem));
                }
                Ok(_) => {}
                Err(error) => return Err(self.sending_ended(upload, &error)),
            }
        }
        let size = upload.content.len();
        // The server carries out one request after the other: what comes next need not wait for this one's answer.
        match self.without_waiting(|| upload.file.close()) {
            Ok(Some(())) => {}
            Ok(None) => self.closing.borrow_mut().push(Closing {
                file: upload.file,
                path: upload.path,
                size,
            }),
            Err(error) => return Err(self.sending_ended(upload, &error)),
        }
        self.sent.set(self.sent.get().and(true, size));
        Ok(())
    }

    /// How much of a file may be on its way now.
    fn window(&self) -> usize {
        window(self.round_trip.get())
    }

    /// Sees that what was sent is closed: what is open to be written cannot be run.
    pub(super) fn confirm_closed(&self) -> Result<(), NodeError> {
        let mut closing = self.closing.take();
        for Closing { file, path, size } in &mut closing {
            if let Err(error) = file.close() {
                // What waits for it does not start.
                self.give_up();
                return Err(match sftp_code(&error) {
                    Some(_) => refused_write(path, *size, *size, &error),
                    None => transfer(path, &error),
                });
            }
        }
        Ok(())
    }

    fn sending_ended(&mut self, mut upload: Upload<'_>, error: &std::io::Error) -> NodeError {
        let sent = self.sent.get().and(false, upload.acknowledged);
        self.sent.set(sent);
        let is_lost = !was_answered(&self.ssh);
        if is_lost {
            self.cut();
            let _ = upload.write(self.window());
            self.give_up();
        }
        let Upload {
            file,
            path,
            content,
            acknowledged,
            ..
        } = upload;
        let size = content.len();
        if !is_lost {
            // The server still answers: give back the space that the torso takes.
            drop(file);
            let _ = self.remove(&path);
            return refused_write(&path, acknowledged, size, error);
        }
        NodeError::new(
            Reason::TransferFailed,
            format!("{path}: sending ended after {acknowledged} of {size} bytes: {error}"),
        )
    }

    /// Removes a file if it is there.
    pub fn remove(&mut self, path: &str) -> Result<(), NodeError> {
        self.with_sftp(path, |sftp| found(sftp.unlink(Path::new(path))))
            .map(drop)
    }

    /// Opens SFTP when it is first needed.
    fn open_sftp(&mut self) -> Result<(), NodeError> {
        if self.sftp.is_none() {
            let opened = self.ask(SFTP_ROUND_TRIPS, ssh2::Session::sftp).map_err(|error| {
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
        self.check_lease()
    }

    /// Does something over SFTP.
    fn with_sftp<T>(
        &mut self,
        path: &str,
        work: impl FnOnce(&Sftp) -> Result<T, ssh2::Error>,
    ) -> Result<T, NodeError> {
        self.open_sftp()?;
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

fn make(sftp: &Sftp, folder: &str) -> Result<(), ssh2::Error> {
    sftp.mkdir(Path::new(folder), 0o755)
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
