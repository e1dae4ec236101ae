//! Decides after an interrupted watch whether its kind must be listed again.

use std::time::Duration;

use crate::deadline;
use crate::visible::visible;
use crate::watch::feed::PAGE;

pub(super) enum Interruption {
    /// The watch or the list failed.
    Failed(kube::Error),
    /// A page of the list did not arrive in time.
    SlowList,
    /// The server's answer has no resourceVersion.
    NoVersion,
    /// Objects that were left out are needed now.
    Wanted,
    /// A second watch shows more than this one.
    Stale,
    /// The server ended the watch too soon, without an error.
    Ended(Duration),
}

impl From<kube::Error> for Interruption {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error)
    }
}

impl Interruption {
    /// Returns the API server's answer.
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Failed(kube::Error::Api(status)) => Some(status),
            _ => None,
        }
    }

    fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Returns whether the server no longer keeps the changes since then.
    pub fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// Returns whether the kind must be listed again: the server no longer keeps the changes, the kind itself is gone, or
    /// only a list shows what was left out. In all other cases the watch resumes where it was.
    pub fn needs_list(&self) -> bool {
        match self {
            Self::Failed(_) => matches!(self.code(), Some(404 | 410)),
            Self::SlowList | Self::NoVersion | Self::Wanted => true,
            Self::Stale | Self::Ended(_) => false,
        }
    }

    /// Returns the label value for metrics, out of a fixed set.
    pub fn cause(&self) -> &'static str {
        match (self, self.code()) {
            (Self::SlowList, _) => "SlowList",
            (Self::Wanted, _) => "Wanted",
            (Self::Stale, _) => "Stale",
            (Self::Ended(_), _) => "Ended",
            (Self::Failed(_), Some(403)) => "Forbidden",
            (Self::Failed(_), Some(404)) => "NotFound",
            // The server no longer keeps the changes since then, which is normal after some time.
            (Self::Failed(_), Some(410)) => "Expired",
            (Self::Failed(_) | Self::NoVersion, _) => "Failed",
        }
    }

    pub fn explain(&self) -> String {
        match self {
            Self::SlowList => format!("its list did not arrive within {} s", PAGE.as_secs()),
            Self::NoVersion => "the answer has no resourceVersion".to_owned(),
            Self::Wanted => "objects that were skipped are needed now".to_owned(),
            Self::Stale => "it missed changes that a second watch received".to_owned(),
            Self::Ended(lived) => format!("the server ended it after {} s", lived.as_secs()),
            Self::Failed(kube::Error::Api(status)) if status.code == 403 => {
                format!("reading it is forbidden: {}", visible(&status.message))
            }
            Self::Failed(kube::Error::Api(status)) if status.code == 404 => {
                format!(
                    "the API server does not serve it: {}",
                    visible(&status.message)
                )
            }
            Self::Failed(failure) => deadline::plain(failure),
        }
    }

    /// Like [`Self::explain`], for kinds whose objects must not be shown: without the server's message, which may contain
    /// what was requested.
    pub fn explain_without_words(&self) -> String {
        use kube::Error::{Auth, HyperError, Service};
        match (self.code(), self) {
            (Some(403), _) => "reading it is forbidden".to_owned(),
            (Some(code), _) => format!("the API server answers {code}"),
            // These three are about the connection, and contain nothing that was sent on it.
            (None, Self::Failed(failure))
                if !matches!(failure, Service(_) | HyperError(_) | Auth(_)) =>
            {
                "the answer is not one of an API server".to_owned()
            }
            (None, _) => self.explain(),
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
            let shown = Interruption::Failed(kube::Error::Api(status));
            assert!(shown.explain().contains("canary"));
            assert!(!shown.explain_without_words().contains("canary"));
        }
        let error = serde_json::from_str::<u8>(r#""canary""#).unwrap_err();
        assert!(error.to_string().contains("canary"));
        let error = kube::Error::SerdeError(error);
        let shown = Interruption::Failed(error).explain_without_words();
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn what_the_server_says_moves_no_terminal() {
        for code in [403, 500] {
            let mut status = kube::core::Status::failure("\u{1b}[2J no", "No");
            status.code = code;
            let shown = Interruption::Failed(kube::Error::Api(Box::new(status))).explain();
            assert!(
                shown.ends_with(" no") && !shown.contains('\u{1b}'),
                "{shown:?}"
            );
        }
    }

    #[test]
    fn only_what_is_gone_or_was_left_out_is_listed_again() {
        let failed = |code| {
            let mut status = kube::core::Status::failure("no", "No");
            status.code = code;
            Interruption::Failed(kube::Error::Api(Box::new(status)))
        };
        for (interruption, needs_list) in [
            (failed(410), true),
            (failed(404), true),
            (failed(403), false),
            (failed(429), false),
            (failed(500), false),
            (
                Interruption::Failed(kube::Error::LinesCodecMaxLineLengthExceeded),
                false,
            ),
            (Interruption::Stale, false),
            (Interruption::Ended(Duration::ZERO), false),
            (Interruption::Wanted, true),
            (Interruption::NoVersion, true),
        ] {
            assert_eq!(
                interruption.needs_list(),
                needs_list,
                "{}",
                interruption.explain()
            );
        }
    }
}
