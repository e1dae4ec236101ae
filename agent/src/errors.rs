//! Maps Windows error numbers to the categories of a [`Failure`].

use std::fmt::Display;
use std::io;

use protocol::{Failure, FailureCategory};

const ACCESS_DENIED: i32 = 5;
const SHARING_VIOLATION: i32 = 32;
const LOCK_VIOLATION: i32 = 33;
const HANDLE_DISK_FULL: i32 = 39;
const DISK_FULL: i32 = 112;
/// The program is running, so it cannot be replaced.
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
/// The error that every Service Control Manager call returns once Windows shuts down.
const SHUTDOWN_IN_PROGRESS: i32 = 1115;

/// Returns the category of a Windows error.
pub fn category(error: &io::Error) -> FailureCategory {
    match error.raw_os_error() {
        Some(DISK_FULL | HANDLE_DISK_FULL) => FailureCategory::DiskFull,
        Some(ACCESS_DENIED) => FailureCategory::AccessDenied,
        Some(SHUTDOWN_IN_PROGRESS) => FailureCategory::Interrupted,
        Some(
            ACCESS_DISABLED_BY_POLICY
            | SYSTEM_INTEGRITY_POLICY_VIOLATION
            | VIRUS_INFECTED
            | VIRUS_DELETED,
        ) => FailureCategory::Blocked,
        _ => FailureCategory::Other,
    }
}

/// Returns whether to start a service once more after this error. Windows reports "no process connected within 30 seconds"
/// also while another service keeps the Service Control Manager busy, or because of a slow disk or a virus scanner, so one
/// retry is worthwhile. A lock on its database is released by itself.
pub fn may_start_again(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(SERVICE_REQUEST_TIMEOUT | SERVICE_DATABASE_LOCKED)
    )
}

/// Adds to a failure about a blocked program what an administrator needs to allow it: the path and SHA-256 of each program
/// that may be meant.
pub fn named<'a>(
    mut failure: Failure,
    programs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Failure {
    if failure.category == FailureCategory::Blocked {
        let programs = programs.into_iter();
        let programs = programs.map(|(path, sha256)| format!("{path} with sha256 {sha256}"));
        let programs: Vec<String> = programs.collect();
        failure.message = format!("{}; blocked: {}", failure.message, programs.join(", "));
    }
    failure
}

/// Returns whether a retry may help: a virus scanner holds new files for a moment, and a process that is ending still holds
/// its program.
pub fn may_pass(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(ACCESS_DENIED | SHARING_VIOLATION | LOCK_VIOLATION | USER_MAPPED_FILE)
    )
}

/// Returns whether a service has received its stop request, after Windows answered with this error; false if the request
/// must be repeated while the service exists. `None` means that the error is permanent.
///
/// A broken pipe is the one from the service to the Service Control Manager: the process ended before it answered
/// (<https://devblogs.microsoft.com/oldnewthing/20190405-00/?p=102389>). A service that does not answer within the manager's
/// 30 seconds has still received the request.
pub fn is_stopping(error: &io::Error) -> Option<bool> {
    match error.raw_os_error()? {
        SERVICE_NOT_ACTIVE | SERVICE_REQUEST_TIMEOUT => Some(true),
        SERVICE_CANNOT_ACCEPT_CTRL | BROKEN_PIPE | NO_DATA | PIPE_NOT_CONNECTED => Some(false),
        _ => None,
    }
}

/// Converts a system error to a [`Failure`] that names the failed action.
pub trait Context<T> {
    /// Returns a failure with the error's category.
    fn context(self, doing: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T, Failure> {
        self.map_err(|error| {
            let error = error.into();
            category(&error).failure(format!("{doing}: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_windows_have_a_category_and_say_whether_a_service_stops() {
        use FailureCategory::{AccessDenied, Blocked, DiskFull, Interrupted, Other};
        for (number, expected, stops) in [
            (2, Other, None),
            (5, AccessDenied, None),
            (32, Other, None),
            (33, Other, None),
            (39, DiskFull, None),
            (112, DiskFull, None),
            (1260, Blocked, None),
            (4551, Blocked, None),
            (225, Blocked, None),
            (226, Blocked, None),
            (109, Other, Some(false)),
            (232, Other, Some(false)),
            (233, Other, Some(false)),
            // Dependent services run; control not accepted; timeout; control not accepted now; service not active.
            (1051, Other, None),
            (1052, Other, None),
            (1053, Other, Some(true)),
            (1061, Other, Some(false)),
            (1062, Other, Some(true)),
            (1115, Interrupted, None),
            (1224, Other, None),
        ] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(category(&error), expected, "{number}");
            assert_eq!(is_stopping(&error), stops, "{number}");
            assert_eq!(may_pass(&error), [5, 32, 33, 1224].contains(&number));
            let failure = Err::<(), _>(error).context("starting x").unwrap_err();
            assert_eq!(failure.category, expected);
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
