//! Why a kind is to be listed anew.

use kube::runtime::watcher;

use crate::deadline;
use crate::visible::visible;
use crate::watch::feed::PAGE;

pub(super) enum Interruption {
    /// The watch or the list failed.
    Watcher(watcher::Error),
    /// A page of the list did not come.
    SlowList,
    /// Objects that were left out matter now.
    Wanted,
}

impl Interruption {
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Watcher(
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status))
                | watcher::Error::WatchFailed(kube::Error::Api(status))
                | watcher::Error::WatchError(status),
            ) => Some(status),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// A bounded word for metrics.
    pub fn cause(&self) -> &'static str {
        match (self, self.status().map(|status| status.code)) {
            (Self::SlowList, _) => "SlowList",
            (Self::Wanted, _) => "Wanted",
            (Self::Watcher(_), Some(403)) => "Forbidden",
            (Self::Watcher(_), Some(404)) => "NotFound",
            // What was changed since is no longer kept, which comes with time.
            (Self::Watcher(_), Some(410)) => "Expired",
            (Self::Watcher(_), _) => "Failed",
        }
    }

    pub fn explain(&self) -> String {
        match self {
            Self::SlowList => format!("its list does not come within {} s", PAGE.as_secs()),
            Self::Wanted => "objects that were left out matter now".to_owned(),
            Self::Watcher(
                watcher::Error::InitialListFailed(cause)
                | watcher::Error::WatchStartFailed(cause)
                | watcher::Error::WatchFailed(cause),
            ) => match self.status() {
                Some(status) if status.code == 403 => {
                    format!("reading it is forbidden: {}", visible(&status.message))
                }
                _ => deadline::plain(cause),
            },
            Self::Watcher(watcher::Error::WatchError(status)) => visible(&status.message),
            Self::Watcher(other @ watcher::Error::NoResourceVersion) => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_moves_no_terminal() {
        let status = |code| {
            let mut status = kube::core::Status::failure("\u{1b}[2J no", "No");
            status.code = code;
            Box::new(status)
        };
        let forbidden = watcher::Error::InitialListFailed(kube::Error::Api(status(403)));
        let other = watcher::Error::WatchError(status(500));
        for error in [forbidden, other] {
            let told = Interruption::Watcher(error).explain();
            assert!(
                told.ends_with(" no") && !told.contains('\u{1b}'),
                "{told:?}"
            );
        }
    }
}
