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
    #[must_use]
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
    #[must_use]
    pub fn fits(self, other: Self) -> bool {
        self.lets(other) && other.lets(self)
    }

    /// Returns whether others may remove or rename the file.
    #[must_use]
    pub fn lets_remove(self) -> bool {
        self.shares_removal
    }

    fn lets(self, other: Self) -> bool {
        (self.shares_reading || !other.reads) && (self.shares_writing || !other.writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_to_write_is_read_by_nobody_and_written_by_a_second_since_7_9() {
        let (read, local) = (Access::SFTP_READ, Access::LOCAL_READ);
        for profile in Profile::ALL {
            let write = Access::sftp_write(profile);
            for (one, other, expected) in [
                (read, read, true),
                (read, local, true),
                // Regardless of how the reader shares it.
                (write, read, false),
                (write, local, false),
                (write, write, profile != Profile::V7_7),
                (write, Access::LOCKED, false),
                (read, Access::LOCKED, false),
            ] {
                let place = format!("{} {one:?} {other:?}", profile.version);
                assert_eq!(one.fits(other), expected, "{place}");
                assert_eq!(other.fits(one), expected, "{place}");
            }
            assert!(!write.lets_remove() && !read.lets_remove());
        }
        assert!(local.lets_remove());
    }
}
