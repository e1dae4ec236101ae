//! Maps Windows error numbers to the categories of a [`Failure`].

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
const ACCESS_DISABLED_BY_POLICY: i32 = 1260;
const SYSTEM_INTEGRITY_POLICY_VIOLATION: i32 = 4551;
const VIRUS_INFECTED: i32 = 225;
const VIRUS_DELETED: i32 = 226;
const SERVICE_REQUEST_TIMEOUT: i32 = 1053;
const SERVICE_DATABASE_LOCKED: i32 = 1055;
const SERVICE_CANNOT_ACCEPT_CTRL: i32 = 1061;
const SERVICE_NOT_ACTIVE: i32 = 1062;
/// What every call of the Service Control Manager says once Windows shuts down.
const SHUTDOWN_IN_PROGRESS: i32 = 1115;

/// The category of a Windows error.
#[must_use]
pub fn category(error: &io::Error) -> FailureCategory {
    match error.raw_os_error() {
        Some(DISK_FULL | HANDLE_DISK_FULL) => FailureCategory::DiskFull,
        Some(ACCESS_DENIED) => FailureCategory::AccessDenied,
        Some(SHARING_VIOLATION | LOCK_VIOLATION | USER_MAPPED_FILE) => FailureCategory::FileInUse,
        Some(SHUTDOWN_IN_PROGRESS) => FailureCategory::Interrupted,
        Some(ACCESS_DISABLED_BY_POLICY | SYSTEM_INTEGRITY_POLICY_VIOLATION) => {
            FailureCategory::BlockedByPolicy
        }
        Some(VIRUS_INFECTED | VIRUS_DELETED) => FailureCategory::BlockedByScanner,
        _ => FailureCategory::Internal,
    }
}

/// Whether a service may be started again after Windows answered so. That no process has connected within 30 seconds is also
/// said while any other service keeps the Service Control Manager busy, and a slow disk or a virus scanner may be the
/// reason: once more is worth it. A lock on its database goes by itself.
#[must_use]
pub fn may_start_again(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(SERVICE_REQUEST_TIMEOUT | SERVICE_DATABASE_LOCKED)
    )
}

/// A failure as it is told: where a program is blocked, with what an administrator needs to let it through, the path and the
/// SHA-256 of each that it may be about.
#[must_use]
pub fn named<'a>(
    mut failure: Failure,
    programs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Failure {
    use FailureCategory::{BlockedByPolicy, BlockedByScanner};
    if [BlockedByPolicy, BlockedByScanner].contains(&failure.category) {
        let programs = programs.into_iter();
        let programs = programs.map(|(path, sha256)| format!("{path} with sha256 {sha256}"));
        let programs: Vec<String> = programs.collect();
        failure.message = format!("{}; blocked: {}", failure.message, programs.join(", "));
    }
    failure
}

/// Whether waiting may help: a virus scanner holds new files for a moment, a process that ends holds its program.
#[must_use]
pub fn may_pass(error: &io::Error) -> bool {
    let passing = [FailureCategory::FileInUse, FailureCategory::AccessDenied];
    passing.contains(&category(error))
}

/// Whether a service knows that it is to stop, after Windows answered with this error; false where it is to be asked again
/// if it is still there. `None` is a failure for good.
///
/// A pipe that ends is the one from the service to the Service Control Manager: the process ended before it had answered
/// (<https://devblogs.microsoft.com/oldnewthing/20190405-00/?p=102389>). A service that does not answer within the manager's
/// 30 seconds was asked all the same.
#[must_use]
pub fn is_stopping(error: &io::Error) -> Option<bool> {
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
            category.failure(format!("{doing}: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_windows_have_a_category_and_say_whether_a_service_stops() {
        use FailureCategory::{
            AccessDenied, BlockedByPolicy, BlockedByScanner, DiskFull, FileInUse, Internal,
            Interrupted,
        };
        for (number, expected, stops) in [
            (2, Internal, None),
            (5, AccessDenied, None),
            (32, FileInUse, None),
            (39, DiskFull, None),
            (112, DiskFull, None),
            (1260, BlockedByPolicy, None),
            (4551, BlockedByPolicy, None),
            (225, BlockedByScanner, None),
            (226, BlockedByScanner, None),
            (109, Internal, Some(false)),
            (232, Internal, Some(false)),
            (233, Internal, Some(false)),
            // Other services need it; it takes no such control; it timed out; it takes none now; it does not run.
            (1051, Internal, None),
            (1052, Internal, None),
            (1053, Internal, Some(true)),
            (1061, Internal, Some(false)),
            (1062, Internal, Some(true)),
            (1115, Interrupted, None),
        ] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(category(&error), expected, "{number}");
            assert_eq!(is_stopping(&error), stops, "{number}");
            let otherwise = FailureCategory::ServiceStart;
            let failed = Err::<(), _>(error).context_or(otherwise, "starting x");
            let failure = failed.unwrap_err();
            assert_eq!(failure.category == otherwise, expected == Internal);
            assert!(failure.message.starts_with("starting x: "), "{failure}");
        }
        assert_eq!(is_stopping(&io::Error::other("not Windows'")), None);
        let again = |number| may_start_again(&io::Error::from_raw_os_error(number));
        assert_eq!(
            [1053, 1055, 1056, 1058, 1069].map(again),
            [true, true, false, false, false]
        );
    }

    #[test]
    fn what_is_blocked_is_named_and_nothing_else() {
        let programs = || [(r"C:\k\csi-proxy.exe", "abc")];
        let told = |number| {
            let failed = Err::<(), _>(io::Error::from_raw_os_error(number));
            named(failed.context("starting x").unwrap_err(), programs()).message
        };
        for number in [225, 226, 1260, 4551] {
            let message = told(number);
            let named = message.ends_with(r"; blocked: C:\k\csi-proxy.exe with sha256 abc");
            assert!(named && message.starts_with("starting x: "), "{message}");
        }
        assert!(!told(5).contains("abc"));
    }
}
