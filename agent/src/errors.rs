//! From Windows' error numbers to the categories of a [`Failure`].

use std::fmt::Display;
use std::io;

use protocol::{Failure, FailureCategory};

const ACCESS_DENIED: i32 = 5;
const SHARING_VIOLATION: i32 = 32;
const LOCK_VIOLATION: i32 = 33;
const HANDLE_DISK_FULL: i32 = 39;
const DISK_FULL: i32 = 112;
/// Windows' number for a program that is running and therefore not to be replaced.
const USER_MAPPED_FILE: i32 = 1224;
const BROKEN_PIPE: i32 = 109;
const NO_DATA: i32 = 232;
const PIPE_NOT_CONNECTED: i32 = 233;
const SERVICE_REQUEST_TIMEOUT: i32 = 1053;
const SERVICE_CANNOT_ACCEPT_CTRL: i32 = 1061;
const SERVICE_NOT_ACTIVE: i32 = 1062;

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

/// Whether a service knows that it is to stop, after Windows answered with this error; false where it is to be told again
/// if it is still there. `None` is a failure for good.
///
/// A pipe that ends is the one from the service to the Service Control Manager: the process ended before it had answered
/// (<https://devblogs.microsoft.com/oldnewthing/20190405-00/?p=102389>). A service that does not answer within the manager's
/// 30 seconds was told all the same.
#[must_use]
pub fn is_told_to_stop(error: &io::Error) -> Option<bool> {
    match error.raw_os_error()? {
        SERVICE_NOT_ACTIVE | SERVICE_REQUEST_TIMEOUT => Some(true),
        SERVICE_CANNOT_ACCEPT_CTRL | BROKEN_PIPE | NO_DATA | PIPE_NOT_CONNECTED => Some(false),
        _ => None,
    }
}

/// Makes a failure of a system error and what was being done.
pub trait Context<T> {
    /// A failure of the error's own category.
    fn context(self, doing: impl Display) -> Result<T, Failure>;

    /// Likewise; what is not the disk, the access or a file in use is `otherwise`.
    fn context_or(self, otherwise: FailureCategory, doing: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T, Failure> {
        self.context_or(FailureCategory::Internal, doing)
    }

    fn context_or(self, otherwise: FailureCategory, doing: impl Display) -> Result<T, Failure> {
        self.map_err(|error| {
            let error = error.into();
            let category = match category(&error) {
                FailureCategory::Internal => otherwise,
                known => known,
            };
            Failure::new(category, format!("{doing}: {error}"))
        })
    }
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
        let failed = |number| {
            Err::<(), _>(io::Error::from_raw_os_error(number))
                .context_or(FailureCategory::ServiceStart, "starting x")
                .unwrap_err()
        };
        assert_eq!(failed(1053).category, FailureCategory::ServiceStart);
        assert_eq!(failed(5).category, FailureCategory::AccessDenied);
        assert!(failed(5).message.starts_with("starting x: "));
    }

    #[test]
    fn a_service_that_ended_before_it_answered_was_stopped_no_less() {
        let told = |number| is_told_to_stop(&io::Error::from_raw_os_error(number));
        for number in [109, 232, 233, 1061] {
            assert_eq!(told(number), Some(false), "{number}");
        }
        for number in [1053, 1062] {
            assert_eq!(told(number), Some(true), "{number}");
        }
        // No access; other services need it; it takes no such control.
        for number in [5, 1051, 1052] {
            assert_eq!(told(number), None, "{number}");
        }
        assert_eq!(is_told_to_stop(&io::Error::other("not Windows'")), None);
    }
}
