//! From Windows' error numbers to the categories of a [`Failure`].

use std::io;

use crate::protocol::{Failure, FailureCategory};

/// Windows' number for a file that is not there.
pub const FILE_NOT_FOUND: i32 = 2;
/// Windows' number for a folder that is not there.
pub const PATH_NOT_FOUND: i32 = 3;
const ACCESS_DENIED: i32 = 5;
/// Windows' number for a file that another process holds.
pub const SHARING_VIOLATION: i32 = 32;
const LOCK_VIOLATION: i32 = 33;
const HANDLE_DISK_FULL: i32 = 39;
const DISK_FULL: i32 = 112;
/// Windows' number for a program that is running and therefore not to be replaced.
const USER_MAPPED_FILE: i32 = 1224;

/// The category of a Windows error.
#[must_use]
pub fn category(error: &io::Error) -> FailureCategory {
    match error.raw_os_error() {
        Some(DISK_FULL | HANDLE_DISK_FULL) => FailureCategory::DiskFull,
        Some(ACCESS_DENIED) => FailureCategory::AccessDenied,
        Some(SHARING_VIOLATION | LOCK_VIOLATION | USER_MAPPED_FILE) => FailureCategory::FileInUse,
        _ => FailureCategory::Internal,
    }
}

/// Whether waiting may help: a virus scanner holds new files for a moment, a process that ends holds its program.
#[must_use]
pub fn may_pass(error: &io::Error) -> bool {
    matches!(
        category(error),
        FailureCategory::FileInUse | FailureCategory::AccessDenied
    )
}

/// A failure of the given kind.
#[must_use]
pub fn failure(category: FailureCategory, message: impl Into<String>) -> Failure {
    Failure {
        category,
        message: message.into(),
    }
}

/// A failure from a system error and what was being done.
#[must_use]
pub fn failed_to(what: &str, error: &io::Error) -> Failure {
    failure(category(error), format!("{what}: {error}"))
}

/// Like [`failed_to`], for errors of the Service Control Manager: what is not the disk or the access is `otherwise`.
#[must_use]
pub fn service_failed_to(what: &str, error: &io::Error, otherwise: FailureCategory) -> Failure {
    let category = match category(error) {
        FailureCategory::Internal => otherwise,
        known => known,
    };
    failure(category, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_numbers() {
        let of = |number| category(&io::Error::from_raw_os_error(number));
        assert_eq!(of(112), FailureCategory::DiskFull);
        assert_eq!(of(39), FailureCategory::DiskFull);
        assert_eq!(of(5), FailureCategory::AccessDenied);
        assert_eq!(of(32), FailureCategory::FileInUse);
        assert_eq!(of(2), FailureCategory::Internal);
        let start = service_failed_to(
            "starting x",
            &io::Error::from_raw_os_error(1053),
            FailureCategory::ServiceStart,
        );
        assert_eq!(start.category, FailureCategory::ServiceStart);
    }
}
