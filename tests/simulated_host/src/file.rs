//! A file of a simulated host.

use std::fmt::Write as _;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

/// For larger files, only size and hash are kept, so that a fleet fits into memory.
const KEPT: u64 = 256 * 1024;
/// Packed files are kept until they are unpacked.
const KEPT_PACKED: u64 = 64 * 1024 * 1024;

/// A file.
#[derive(Clone, Debug, Default)]
pub struct File {
    size: u64,
    hash: Sha256,
    content: Vec<u8>,
    packed: bool,
    /// The content is generated: numbered lines of [`LINE`] bytes, which are not stored.
    of_lines: bool,
    modified: u32,
}

/// The length of the lines of [`File::of_lines`], in bytes.
pub const LINE: u64 = 16;

impl File {
    /// Returns when it was last written to, in seconds since 1970.
    pub fn time(&self) -> u32 {
        self.modified
    }

    /// Creates a file with this content.
    pub fn new(content: &[u8]) -> Self {
        let mut file = Self::default();
        file.append(content);
        file
    }

    /// Creates a log of any size with the lines `line 0000000000` and so on.
    pub fn of_lines(size: u64) -> Self {
        Self {
            size,
            of_lines: true,
            ..Self::default()
        }
    }

    /// Sets when it was last written to, in seconds since 1970.
    pub fn modified(self, modified: u32) -> Self {
        Self { modified, ..self }
    }

    /// Returns at most `most` bytes from this offset on.
    pub fn read(&self, offset: u64, most: u32) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(most.into()));
        if !self.of_lines {
            let place = |byte| usize::try_from(byte).unwrap_or(usize::MAX);
            let part = self.content.get(place(offset.min(end))..place(end));
            return part.unwrap_or_default().to_vec();
        }
        let mut part = Vec::new();
        let mut at = offset;
        while at < end {
            let line = format!("line {:010}\n", at / LINE);
            let from = usize::try_from(at % LINE).unwrap_or_default();
            part.extend_from_slice(&line.as_bytes()[from..]);
            at += LINE - at % LINE;
        }
        part.truncate(usize::try_from(end.saturating_sub(offset)).unwrap_or_default());
        part
    }

    /// Creates a packed file, whose content is kept until it is unpacked.
    pub(super) fn packed() -> Self {
        Self {
            packed: true,
            ..Self::default()
        }
    }

    pub(super) fn append(&mut self, data: &[u8]) {
        self.hash.update(data);
        self.size += data.len() as u64;
        if self.size <= (if self.packed { KEPT_PACKED } else { KEPT }) {
            self.content.extend_from_slice(data);
        } else {
            self.content = Vec::new();
        }
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns its SHA-256 in lower-case hexadecimal.
    pub fn sha256(&self) -> String {
        let hash = self.hash.clone().finalize();
        hash.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Returns its content, or nothing if the file is larger than 256 KiB and not packed.
    pub fn content(&self) -> &[u8] {
        &self.content
    }
}

impl Write for File {
    /// Appends to the file.
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.append(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
