//! Reads files on a node: lists them, and reads the end of each.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use ssh2::{File, FileStat, Sftp};

use super::{found, was_answered};
use crate::node::session::Session;
use crate::node::{NodeError, Reason};

/// How many bytes are requested at a time; libssh2 has several times as much in flight.
const PIECE: usize = 128 * 1024;
/// File type bits of a mode. Source: `sys/stat.h`, whose numbers SFTP uses.
const KIND_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
/// libssh2's code for the end of a folder.
const NO_MORE: ssh2::ErrorCode = ssh2::ErrorCode::Session(-16);

/// A file in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written to, in seconds since 1970.
    pub modified: u64,
}

/// What was read of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Bytes skipped at the beginning.
    pub left_out: u64,
    /// Bytes read.
    pub read: u64,
    /// Whether the file ended early, because it was truncated meanwhile.
    pub shortened: bool,
}

/// Why reading a file ended.
#[derive(Debug)]
pub enum ReadFailure {
    /// The node did not deliver it.
    Node(NodeError),
    /// The data could not be stored locally.
    Here(std::io::Error),
}

impl Session {
    /// Returns the regular files in a folder, after at most `most` entries; `None` if there is no such folder.
    pub fn files_in(&mut self, folder: &str, most: usize) -> Result<Option<Vec<Found>>, NodeError> {
        self.with_sftp(folder, |sftp| {
            match found(sftp.opendir(Path::new(folder)))? {
                Some(opened) => list(opened, most).map(Some),
                None => Ok(None),
            }
        })
    }

    /// Updates size and time of one file from the server. Windows lists a file that is being written as it was when it
    /// was opened.
    pub fn update_stat(&mut self, path: &str, file: &mut Found) -> Result<(), NodeError> {
        let stat = self.with_sftp(path, |sftp| found(sftp.stat(Path::new(path))))?;
        if let Some(stat) = stat {
            file.size = stat.size.unwrap_or(file.size);
            file.modified = stat.mtime.unwrap_or(file.modified);
        }
        Ok(())
    }

    /// Reads at most `most` bytes from the end of a file. Passes each piece to `take`, together with the number of
    /// bytes skipped at the beginning. Does not wait for data that is written meanwhile.
    pub fn read_end(
        &mut self,
        path: &str,
        most: u64,
        take: &mut dyn FnMut(u64, &[u8]) -> std::io::Result<()>,
    ) -> Result<Part, ReadFailure> {
        let opened = self.with_sftp(path, |sftp| open(sftp, path));
        let (mut file, size) = opened.map_err(ReadFailure::Node)?;
        let length = size.min(most);
        let mut part = Part {
            left_out: size - length,
            ..Part::default()
        };
        // Seeking is local to libssh2.
        let sought = file.seek(SeekFrom::Start(part.left_out));
        sought.map_err(|error| ReadFailure::Node(ended(path, part, &error)))?;
        let mut piece = vec![0; PIECE];
        while part.read < length {
            let left = usize::try_from(length - part.read);
            let wanted = left.unwrap_or(PIECE).min(PIECE);
            match file.read(&mut piece[..wanted]) {
                Ok(0) => {
                    part.shortened = true;
                    break;
                }
                Ok(read) => {
                    take(part.left_out, &piece[..read]).map_err(ReadFailure::Here)?;
                    part.read += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if !was_answered(&self.ssh) {
                        self.give_up();
                    }
                    return Err(ReadFailure::Node(ended(path, part, &error)));
                }
            }
        }
        Ok(part)
    }
}

fn open(sftp: &Sftp, path: &str) -> Result<(File, u64), ssh2::Error> {
    let mut file = sftp.open(Path::new(path))?;
    let size = file.stat()?.size.unwrap_or_default();
    Ok((file, size))
}

fn list(mut folder: File, most: usize) -> Result<Vec<Found>, ssh2::Error> {
    let mut files = Vec::new();
    // All entries count, including folders, links and invalid names, so that a server cannot continue forever.
    for _ in 0..most {
        match folder.readdir() {
            Ok((name, stat)) => files.extend(regular(&name, &stat)),
            Err(error) if error.code() == NO_MORE => break,
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// Returns a regular file. Names that lead to other folders are ignored.
fn regular(name: &Path, stat: &FileStat) -> Option<Found> {
    let name = name.to_str()?;
    let is_plain = !name.is_empty() && !name.contains(['/', '\\', ':', '\0']);
    let is_regular = stat.perm.is_none_or(|mode| mode & KIND_MASK == REGULAR);
    (is_plain && is_regular && !matches!(name, "." | "..")).then(|| Found {
        name: name.to_owned(),
        size: stat.size.unwrap_or_default(),
        modified: stat.mtime.unwrap_or_default(),
    })
}

fn ended(path: &str, part: Part, error: &std::io::Error) -> NodeError {
    Reason::TransferFailed.error(format!(
        "{path}: reading ended after {} bytes: {error}",
        part.read
    ))
}
