//! Reads files of a node: their names, and the end of each.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use ssh2::{File, FileStat, Sftp};

use super::{found, was_answered};
use crate::node::session::Session;
use crate::node::{NodeError, Reason};

/// What is asked for at a time; libssh2 has some times as much on its way.
const PIECE: usize = 128 * 1024;
/// The kinds of file in a mode. Source: `sys/stat.h`, whose numbers SFTP has taken over.
const KIND_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
/// libssh2's word at the end of a folder.
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
    /// What was left out at its beginning.
    pub left_out: u64,
    /// What was read.
    pub read: u64,
    /// It ended sooner than it had to: somebody has shortened it meanwhile.
    pub shortened: bool,
}

/// Why reading a file ended.
#[derive(Debug)]
pub enum ReadFailure {
    /// The node did not give it.
    Node(NodeError),
    /// It could not be put where it belongs.
    Here(std::io::Error),
}

impl Session {
    /// The regular files in a folder, at most so many; `None` where there is no such folder.
    pub fn files_in(&mut self, folder: &str, most: usize) -> Result<Option<Vec<Found>>, NodeError> {
        self.with_sftp(folder, |sftp| {
            match found(sftp.opendir(Path::new(folder)))? {
                Some(opened) => list(opened, most).map(Some),
                None => Ok(None),
            }
        })
    }

    /// What the server says of one file, which may be news: Windows lists files that are being written as they were when
    /// they were opened.
    pub fn update_stat(&mut self, path: &str, file: &mut Found) -> Result<(), NodeError> {
        let stat = self.with_sftp(path, |sftp| found(sftp.stat(Path::new(path))))?;
        if let Some(stat) = stat {
            file.size = stat.size.unwrap_or(file.size);
            file.modified = stat.mtime.unwrap_or(file.modified);
        }
        Ok(())
    }

    /// Reads at most so many bytes of a file, those at its end, and hands them on piece by piece together with how many were
    /// left out before the first. What is written to it meanwhile is not waited for.
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
        // Only libssh2 has to know.
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
                        // As where a file is sent: libssh2 has to end what it has begun.
                        self.cut();
                        let _ = file.read(&mut piece[..wanted]);
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
    // Folders, links and names that are none count as well: a server must not be able to go on for ever.
    for _ in 0..most {
        match folder.readdir() {
            Ok((name, stat)) => files.extend(regular(&name, &stat)),
            Err(error) if error.code() == NO_MORE => break,
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// A name that would lead elsewhere is nobody's.
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
