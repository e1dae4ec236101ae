//! The journal of a change. The agent writes it before it changes the node, and reads it when it starts after a crash.

use protocol::{End, FailureCategory, Outcome, Request};
use serde::{Deserialize, Serialize};

use crate::wanted::ServiceSettings;

/// A change in progress.
///
/// The journal is complete before the first step, and going back twice is safe, so the agent may end at any step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// The request that is carried out.
    pub request: Request,
    /// What was there before.
    pub before: Before,
    /// The phase that the change has reached.
    pub phase: Phase,
    /// How the request ends, once that is known: why it is rolled back, or its result.
    #[serde(default)]
    pub end: Option<End>,
}

/// The state before a change: all that a rollback needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    /// Whether the agent kept another request. With neither that nor a service there is nothing to go back to.
    pub was_kept: bool,
    /// SHA-256 of csi-proxy's program; absent if there was none.
    pub sha256: Option<String>,
    /// The configuration of its service; absent if there was none.
    pub service: Option<ServiceSettings>,
    /// Whether it was running.
    pub was_running: bool,
}

/// The phase of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Between the old state and the new one, or back at the old one: going back twice is safe.
    #[serde(alias = "Undone")]
    Changing,
    /// The new state works; only the bookkeeping is left.
    Confirmed,
}

/// What the agent does with a journal that it finds when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Finish the bookkeeping: the change worked.
    Commit,
    /// Roll back.
    Undo,
    /// Leave the node as it is: nothing worked before, and the same request may come again.
    Leave,
}

impl Journal {
    /// Returns whether nothing worked before, so that there is nothing to go back to.
    pub fn is_first(&self) -> bool {
        !self.before.was_kept && self.before.service.is_none()
    }

    /// Decides what to do with a journal that the agent finds when it starts.
    pub fn recovery(&self) -> Recovery {
        match (self.phase, self.is_first()) {
            (Phase::Confirmed, _) => Recovery::Commit,
            (Phase::Changing, false) => Recovery::Undo,
            (Phase::Changing, true) => Recovery::Leave,
        }
    }

    /// Returns how a request ended that was rolled back, or left as it is, with this problem.
    pub fn bad_end(&self, recovery: Recovery, problem: Option<String>) -> End {
        let why = self.end.as_ref().and_then(|end| end.failure.clone());
        let mut why = why.unwrap_or_else(|| {
            let message = "the agent ended in the middle of the request";
            FailureCategory::Interrupted.failure(message)
        });
        if recovery == Recovery::Leave {
            why.message +=
                "; there was no working version to roll back to, so the node was left as it is";
        }
        let incomplete = problem.is_some();
        let mut outcome = Outcome::Failed;
        if let Some(problem) = problem {
            why.message += "; the rollback is incomplete: ";
            why.message += &problem;
        } else if recovery == Recovery::Undo {
            why.message += "; the previous state is restored";
            outcome = Outcome::RolledBack;
        }
        End {
            incomplete,
            ..End::bad(outcome, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted::tests::{request, settings};

    fn journal(phase: Phase, before: Before) -> Journal {
        Journal {
            request: request(),
            before,
            phase,
            end: None,
        }
    }

    fn was_there() -> Before {
        Before {
            service: Some(settings()),
            ..Before::default()
        }
    }

    #[test]
    fn a_cut_off_change_goes_back_unless_it_worked_or_was_the_first() {
        use Phase::{Changing, Confirmed};
        use Recovery::{Commit, Leave, Undo};
        let was_kept = Before {
            was_kept: true,
            ..Before::default()
        };
        for (phase, before, expected) in [
            (Changing, Before::default(), Leave),
            (Changing, was_there(), Undo),
            (Changing, was_kept, Undo),
            (Confirmed, was_there(), Commit),
            (Confirmed, Before::default(), Commit),
        ] {
            assert_eq!(journal(phase, before).recovery(), expected, "{phase:?}");
        }
    }

    #[test]
    fn the_end_says_why_and_how_far_it_went_back() {
        use Recovery::{Leave, Undo};
        let mut journal = journal(Phase::Changing, was_there());
        let interrupted = journal.bad_end(Undo, None);
        assert_eq!(interrupted.outcome, Outcome::RolledBack);
        let failure = interrupted.failure.unwrap();
        assert_eq!(failure.category, FailureCategory::Interrupted);
        let failed = FailureCategory::Other.failure("it fell");
        journal.end = Some(End::bad(Outcome::RolledBack, failed));
        for (recovery, problem, outcome, words) in [
            (
                Undo,
                None,
                Outcome::RolledBack,
                "it fell; the previous state is restored",
            ),
            (
                Undo,
                Some("x"),
                Outcome::Failed,
                "it fell; the rollback is incomplete: x",
            ),
            (
                Leave,
                None,
                Outcome::Failed,
                "it fell; there was no working version",
            ),
        ] {
            let end = journal.bad_end(recovery, problem.map(str::to_owned));
            assert_eq!(end.outcome, outcome);
            assert_eq!(end.incomplete, problem.is_some());
            let message = end.failure.unwrap().message;
            assert!(message.starts_with(words), "{message}");
        }
    }
}
