//! The journal of a change. The agent writes it before it changes the node, and reads it when it starts after a crash.

use protocol::{End, FailureCategory, Outcome, Request};
use serde::{Deserialize, Serialize};

use crate::wanted::Before;

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
    /// How the request ends, once that is known: its result where the new state works, or why it is rolled back.
    #[serde(default)]
    pub end: Option<End>,
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

    /// Returns whether the new state works, so that only the bookkeeping is left.
    pub fn is_confirmed(&self) -> bool {
        let end = self.end.as_ref();
        end.is_some_and(|end| end.outcome == Outcome::Applied)
    }

    /// Decides what to do with a journal that the agent finds when it starts.
    pub fn recovery(&self) -> Recovery {
        match (self.is_confirmed(), self.is_first()) {
            (true, _) => Recovery::Commit,
            (false, false) => Recovery::Undo,
            (false, true) => Recovery::Leave,
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
                "; there was no working version to roll back to, so nothing was rolled back";
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

    fn journal(before: Before, end: Option<End>) -> Journal {
        Journal {
            request: request(),
            before,
            end,
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
        use Recovery::{Commit, Leave, Undo};
        let was_kept = Before {
            was_kept: true,
            ..Before::default()
        };
        let failed = End::bad(
            Outcome::RolledBack,
            FailureCategory::Other.failure("it fell"),
        );
        let (failed, worked) = (Some(failed), Some(End::good(Outcome::Applied, None)));
        for (before, end, expected) in [
            (Before::default(), None, Leave),
            (Before::default(), failed.clone(), Leave),
            (was_there(), None, Undo),
            (was_there(), failed, Undo),
            (was_kept, None, Undo),
            (was_there(), worked.clone(), Commit),
            (Before::default(), worked, Commit),
        ] {
            let journal = journal(before, end);
            assert_eq!(journal.recovery(), expected, "{journal:?}");
        }
    }

    #[test]
    fn the_end_says_why_and_how_far_it_went_back() {
        use Recovery::{Leave, Undo};
        let mut journal = journal(was_there(), None);
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
