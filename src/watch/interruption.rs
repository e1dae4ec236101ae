//! Why a kind is to be listed again.

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
    fn failure(&self) -> Option<&kube::Error> {
        match self {
            Self::Watcher(
                watcher::Error::InitialListFailed(failure)
                | watcher::Error::WatchStartFailed(failure)
                | watcher::Error::WatchFailed(failure),
            ) => Some(failure),
            _ => None,
        }
    }

    /// What the API server answered.
    fn status(&self) -> Option<&kube::core::Status> {
        match (self, self.failure()) {
            (Self::Watcher(watcher::Error::WatchError(status)), _)
            | (_, Some(kube::Error::Api(status))) => Some(status),
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
        match (self, self.failure(), self.status()) {
            (Self::SlowList, ..) => format!("its list does not come within {} s", PAGE.as_secs()),
            (Self::Wanted, ..) => "objects that were left out matter now".to_owned(),
            (_, Some(_), Some(status)) if status.code == 403 => {
                format!("reading it is forbidden: {}", visible(&status.message))
            }
            (_, Some(failure), _) => deadline::plain(failure),
            (_, None, Some(status)) => visible(&status.message),
            (Self::Watcher(error), None, None) => error.to_string(),
        }
    }

    /// The same for objects of which nothing may be shown: without what the server says, which may be what it was asked for.
    pub fn explain_without_words(&self) -> String {
        use kube::Error::{Auth, HyperError, Service};
        match (self.status(), self.failure()) {
            (Some(status), _) if status.code == 403 => "reading it is forbidden".to_owned(),
            (Some(status), _) => format!("the API server answers {}", status.code),
            // The way to the server, and nothing of what came on it.
            (None, None | Some(Service(_) | HyperError(_) | Auth(_))) => self.explain(),
            (None, Some(_)) => "the answer is not one of an API server".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_secret_nothing_is_shown_that_the_server_says() {
        let mut status = kube::core::Status::failure("canary", "canary");
        for code in [403, 500] {
            status.code = code;
            let status = Box::new(status.clone());
            for error in [
                watcher::Error::InitialListFailed(kube::Error::Api(status.clone())),
                watcher::Error::WatchError(status),
            ] {
                let shown = Interruption::Watcher(error);
                assert!(shown.explain().contains("canary"));
                assert!(!shown.explain_without_words().contains("canary"));
            }
        }
        let error = serde_json::from_str::<u8>(r#""canary""#).unwrap_err();
        assert!(error.to_string().contains("canary"));
        let error = watcher::Error::WatchFailed(kube::Error::SerdeError(error));
        let shown = Interruption::Watcher(error).explain_without_words();
        assert!(!shown.contains("canary"), "{shown}");
    }

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
            let shown = Interruption::Watcher(error).explain();
            assert!(
                shown.ends_with(" no") && !shown.contains('\u{1b}'),
                "{shown:?}"
            );
        }
    }
}
