//! Sets deadlines for calls to the API server.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use kube::core::Status;
use tokio::time::Instant;

use crate::client::NoAnswer;
use crate::visible::visible;

/// How long a call other than a watch may take, unless the command line says otherwise.
pub const CALL: Duration = Duration::from_secs(15);

/// What the command line says, `--request-timeout`: of the whole process, as the arguments are.
static REQUEST_TIMEOUT: OnceLock<Duration> = OnceLock::new();

/// Sets how long a call may take from now on. Only the first time counts.
pub fn set_request_timeout(limit: Duration) {
    let _ = REQUEST_TIMEOUT.set(limit);
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No answer arrived in time.
    #[error("{what}: no answer from the API server within {} s", limit.as_secs())]
    TimedOut {
        /// The action that was attempted.
        what: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The server refused, or could not be reached.
    #[error("{what}: {}", plain(cause))]
    Refused {
        /// The action that was attempted.
        what: &'static str,
        /// The error.
        cause: Box<kube::Error>,
    },
    /// The call was cancelled or not made, for this reason.
    #[error("{0}")]
    NotMade(String),
}

impl CallError {
    /// Returns the server's answer about the refusal, if it answered.
    fn refusal(&self) -> Option<&Status> {
        match self {
            Self::Refused { cause, .. } => match cause.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::TimedOut { .. } | Self::NotMade(_) => None,
        }
    }

    /// Returns the HTTP status of the answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|status| status.code)
    }

    /// Returns the answer alone, without the attempted action.
    pub fn answer(&self) -> String {
        match self {
            Self::Refused { cause, .. } => plain(cause),
            Self::TimedOut { .. } | Self::NotMade(_) => self.to_string(),
        }
    }

    /// Returns whether another client changed or created the object meanwhile.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// Returns whether the permission is missing.
    pub fn is_forbidden(&self) -> bool {
        self.status() == Some(403)
    }

    /// Returns whether the object, its namespace or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Returns whether the server no longer keeps the requested data, such as the rest of a long list.
    pub fn is_gone(&self) -> bool {
        self.status() == Some(410)
    }

    /// Returns whether the server is overloaded or not ready, and may answer soon.
    pub fn is_busy(&self) -> bool {
        matches!(self.status(), Some(429 | 503 | 504))
    }

    /// Returns whether the call was refused because the object's namespace is being deleted.
    pub fn is_namespace_ending(&self) -> bool {
        let details = self.refusal().and_then(|status| status.details.as_ref());
        details.is_some_and(|details| {
            let mut causes = details.causes.iter();
            causes.any(|cause| cause.reason == "NamespaceTerminating")
        })
    }

    /// Returns whether the answer names an object, which means that its kind is served.
    pub fn names_an_object(&self) -> bool {
        let details = self.refusal().and_then(|status| status.details.as_ref());
        details.is_some_and(|details| !details.name.is_empty())
    }

    /// Returns whether the server has not answered at all.
    fn is_silence(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Refused { cause, .. } => {
                matches!(&**cause, kube::Error::Service(cause) if cause.is::<NoAnswer>())
            }
            Self::NotMade(_) => false,
        }
    }
}

/// An object was not written: why, and what may help.
#[derive(Debug, thiserror::Error)]
#[error("{0}{1}")]
pub struct Unwritten(pub CallError, pub &'static str);

/// Returns the message of an answer without the object around it, or what is wrong with the connection down to its cause.
/// The output of a login program is left out: it may be a credential.
pub fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => visible(&status.message),
        kube::Error::Auth(_) => "the credentials of the kubeconfig cannot be used; does kubectl work with it, and the \
                                 login program that it names?"
            .to_owned(),
        // The library's words may repeat a value, which may be a Secret's.
        kube::Error::SerdeError(error) if error.is_data() => {
            "the answer is not of the form that this version knows; was the definition of its kind changed?".to_owned()
        }
        kube::Error::SerdeError(_) => {
            "the answer is not one of an API server; is the address right, or is there a proxy or a login page?"
                .to_owned()
        }
        kube::Error::Service(cause) => visible(&causes(cause.as_ref())),
        other => visible(&causes(other)),
    }
}

/// Returns an error and its causes, each message once.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !said.contains(&words) {
            said.push_str(": ");
            said.push_str(&words);
        }
        cause = error.source();
    }
    said
}

/// Returns how long a call may take: as was set, or this long.
pub fn limit(default: Duration) -> Duration {
    REQUEST_TIMEOUT.get().copied().unwrap_or(default)
}

/// Makes a call with the timeout [`CALL`], or the one that was set.
pub async fn call<T>(
    what: &'static str,
    work: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    call_within(limit(CALL), what, work).await
}

/// Makes a call with this timeout.
pub async fn call_within<T>(
    limit: Duration,
    what: &'static str,
    work: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) => Err(CallError::Refused {
            what,
            cause: Box::new(cause),
        }),
        Err(_) => Err(CallError::TimedOut { what, limit }),
    }
}

/// After this many consecutive requests without an answer, no more are sent.
const SILENCES: u32 = 2;

/// The limits of a series of requests to one server.
#[derive(Debug)]
pub struct Budget {
    limit: Duration,
    until: Instant,
    silences: u32,
}

impl Budget {
    /// Creates a budget that lasts for this time, as long as the server answers.
    pub fn of(limit: Duration) -> Self {
        Self {
            limit,
            until: Instant::now() + limit,
            silences: 0,
        }
    }

    /// Makes a call, unless the budget is used up.
    pub async fn ask<T>(
        &mut self,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if self.silences >= SILENCES {
            return Err(CallError::NotMade(format!(
                "not asked for, because the API server has left {SILENCES} requests in a row without an answer"
            )));
        }
        let answer = tokio::time::timeout_at(self.until, call).await;
        let answer = answer.unwrap_or_else(|_| {
            let limit = self.limit.as_secs();
            let why = format!("the total time limit of {limit} s for the API server is used up");
            Err(CallError::NotMade(why))
        });
        match &answer {
            Err(error) if error.is_silence() => self.silences += 1,
            _ => self.silences = 0,
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silent_server_is_given_up_and_one_that_answers_is_not() {
        let mut budget = Budget::of(Duration::from_secs(600));
        let limit = Duration::from_secs(1);
        let timed_out = || CallError::TimedOut { what: "x", limit };
        let refused = || CallError::Refused {
            what: "x",
            cause: Box::new(kube::Error::LinesCodecMaxLineLengthExceeded),
        };
        // Any answer shows that the server is there.
        for is_silent in [true, false, true, false, true, false, true, true] {
            let error = if is_silent { timed_out() } else { refused() };
            let expected = error.to_string();
            let answer = budget.ask::<()>(async { Err(error) }).await;
            assert_eq!(answer.unwrap_err().to_string(), expected);
        }
        let not_made = budget.ask(async { Ok(()) }).await.unwrap_err();
        assert!(
            not_made.to_string().starts_with("not asked for"),
            "{not_made}"
        );
    }

    #[tokio::test]
    async fn all_calls_together_have_a_bound() {
        let mut budget = Budget::of(Duration::from_millis(20));
        budget.ask(async { Ok(()) }).await.unwrap();
        for _ in 0..3 {
            let over = budget.ask::<()>(std::future::pending()).await;
            let over = over.unwrap_err();
            assert!(over.to_string().contains("is used up"), "{over}");
        }
    }
}
