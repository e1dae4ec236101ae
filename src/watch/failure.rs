//! What a failed list or watch means, and what is said of it.

use std::time::Duration;

use kube::runtime::watcher;

use crate::client::{deadline, forbidden};
use crate::visible::visible;

/// Why a list or a watch failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The API server refused, or could not be reached.
    Call(kube::Error),
    /// An event of a watch could not be read, so it is missing.
    Lost(kube::Error),
    /// A page of the list did not arrive within this time.
    SlowList(Duration),
}

impl From<watcher::Error> for Failure {
    fn from(error: watcher::Error) -> Self {
        use kube::Error::{LinesCodecMaxLineLengthExceeded, SerdeError};
        match error {
            watcher::Error::WatchFailed(
                error @ (SerdeError(_) | LinesCodecMaxLineLengthExceeded),
            ) => Self::Lost(error),
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::Call(error),
            watcher::Error::WatchError(status) => Self::Call(kube::Error::Api(status)),
            watcher::Error::NoResourceVersion => Self::Call(kube::Error::Service(
                "the answer has no resourceVersion".into(),
            )),
        }
    }
}

impl Failure {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Call(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Returns whether the kind must be listed by another `watcher`, because this one would not: the server no longer keeps
    /// the changes, the kind itself is gone, an event is missing, or a page does not end.
    pub fn needs_watcher(&self) -> bool {
        match self {
            Self::Call(_) => matches!(self.code(), Some(404 | 410)),
            Self::Lost(_) | Self::SlowList(_) => true,
        }
    }

    /// Returns the label value for metrics, out of a fixed set.
    pub fn cause(&self) -> &'static str {
        match (self, self.code()) {
            (Self::SlowList(_), _) => "SlowList",
            (_, Some(403)) => "Forbidden",
            (_, Some(404)) => "NotFound",
            // The server no longer keeps the changes since then, which is normal after some time.
            (_, Some(410)) => "Expired",
            _ => "Failed",
        }
    }

    /// Returns what the condition says of it, which is the same for each kind that may not be read.
    pub fn problem(&self) -> String {
        match self {
            Self::Call(kube::Error::Api(status)) if status.code == 403 => {
                forbidden::to_operator(&status.message)
            }
            _ => self.explain(),
        }
    }

    /// Returns what the log says of it.
    pub fn explain(&self) -> String {
        match self {
            Self::SlowList(limit) => {
                format!("its list did not arrive within {} s", limit.as_secs())
            }
            Self::Call(kube::Error::Api(status)) if status.code == 404 => {
                format!(
                    "the API server does not serve it: {}",
                    visible(&status.message)
                )
            }
            Self::Call(failure) | Self::Lost(failure) => deadline::plain(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_moves_no_terminal() {
        for code in [403, 500] {
            let mut status = kube::core::Status::failure("\u{1b}[2J no", "No");
            status.code = code;
            let failure = Failure::Call(kube::Error::Api(Box::new(status)));
            let (shown, problem) = (failure.explain(), failure.problem());
            assert!(shown.ends_with(" no"), "{shown:?}");
            assert!(!shown.contains('\u{1b}') && !problem.contains('\u{1b}'));
        }
    }

    #[test]
    fn only_what_watcher_would_ask_for_in_vain_needs_another_one() {
        let failed = |code| {
            let mut status = kube::core::Status::failure("no", "No");
            status.code = code;
            watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
        };
        let long = || kube::Error::LinesCodecMaxLineLengthExceeded;
        for (error, needs_watcher) in [
            (failed(410), true),
            (failed(404), true),
            (failed(403), false),
            (failed(429), false),
            (failed(500), false),
            (watcher::Error::InitialListFailed(long()), false),
            (watcher::Error::WatchFailed(long()), true),
            (watcher::Error::NoResourceVersion, false),
        ] {
            let failure = Failure::from(error);
            let is = failure.needs_watcher();
            assert_eq!(is, needs_watcher, "{}", failure.explain());
        }
        assert!(Failure::SlowList(Duration::ZERO).needs_watcher());
    }
}
