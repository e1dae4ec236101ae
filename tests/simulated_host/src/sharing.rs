//! The sharing modes of open files on Windows. Source: Microsoft's documentation of `CreateFileW`.

use super::profile::Profile;

/// How a process has a file open, and what it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "Windows has a bit for each")]
pub struct Access {
    /// Opened for reading.
    pub reads: bool,
    /// Opened for writing.
    pub writes: bool,
    shares_reading: bool,
    shares_writing: bool,
    shares_removal: bool,
}

impl Access {
    /// SFTP's read access, in all versions: `createFile_flags_setup` in Win32-OpenSSH's `fileio.c`. It does not share
    /// the file for removal or renaming.
    pub const SFTP_READ: Self = Self {
        reads: true,
        writes: false,
        shares_reading: true,
        shares_writing: true,
        shares_removal: false,
    };

    /// Access of a local program that reads and shares everything, as Rust's standard library does.
    pub const LOCAL_READ: Self = Self {
        shares_removal: true,
        ..Self::SFTP_READ
    };

    /// Access of a running program or a virus scanner: nothing is shared.
    pub const LOCKED: Self = Self {
        reads: true,
        writes: false,
        shares_reading: false,
        shares_writing: false,
        shares_removal: false,
    };

    /// Returns SFTP's write access.
    pub fn sftp_write(profile: Profile) -> Self {
        Self {
            reads: false,
            writes: true,
            shares_reading: false,
            shares_writing: profile.shares_writing,
            shares_removal: false,
        }
    }

    /// Returns whether both may have the file open at the same time.
    pub fn fits(self, other: Self) -> bool {
        self.lets(other) && other.lets(self)
    }

    /// Returns whether others may remove or rename the file.
    pub fn lets_remove(self) -> bool {
        self.shares_removal
    }

    fn lets(self, other: Self) -> bool {
        (self.shares_reading || !other.reads) && (self.shares_writing || !other.writes)
    }
}
