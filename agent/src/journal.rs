//! The journal of a change: written before the node is changed, read when the agent finds it after a crash.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure_actions::FailureActions;
use protocol::{End, FailureCategory, Outcome, Request};

/// A change in hand.
///
/// It is complete before the first step: whatever step the agent ends at, going back is safe to do twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// What is being carried out.
    pub request: Request,
    /// How far it has come.
    pub phase: Phase,
    /// What changes.
    #[serde(flatten)]
    pub change: Change,
    /// Commands in which values of scripts are filled in, by service.
    #[serde(default)]
    pub commands: BTreeMap<String, String>,
    /// How the request ends, as far as that is known: why it is being undone, or how it went.
    #[serde(default)]
    pub end: Option<End>,
}

/// What changes, and must be known to go back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// There was no service to go back to.
    pub first: bool,
    /// The files that change.
    pub files: Vec<FileChange>,
    /// The services that change, in start order; those that leave come last.
    pub services: Vec<ServiceChange>,
    /// Services outside of the request that stop for the change and start again after it, in start order.
    #[serde(default)]
    pub dependents: Vec<String>,
}

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Between the old state and the new one.
    Changing,
    /// The old state is back; only the bookkeeping is left.
    Undone,
    /// The new state works; only the bookkeeping is left.
    Confirmed,
}

/// A file that gets new content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// Where it belongs.
    pub path: String,
    /// Where the new content is.
    pub upload: String,
    /// The new content's SHA-256.
    pub sha256: String,
    /// The old content's SHA-256; absent where there was no file.
    pub previous_sha256: Option<String>,
}

impl FileChange {
    /// Where the old content goes.
    #[must_use]
    pub fn previous_path(&self) -> String {
        format!("{}.previous", self.path)
    }
}

/// A service that is stopped, changed, made or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceChange {
    /// Its name.
    pub name: String,
    /// How it was configured; absent where there was none.
    pub before: Option<ServiceSettings>,
    /// Whether it was running.
    pub was_running: bool,
    /// What Windows did when it crashed, for a service of another owner; absent for ours, and where Windows did not say.
    #[serde(default)]
    pub failure_actions: Option<FailureActions>,
}

/// How a service is configured, as far as the agent sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSettings {
    /// The command line.
    pub command: String,
    /// The description.
    pub description: String,
    /// The services that it needs.
    pub dependencies: Vec<String>,
    /// Windows' number for how it starts: 2 automatic, 3 manual, 4 disabled.
    pub start_type: u32,
    /// The variables that its process gets beside the system's, each `NAME=value`.
    #[serde(default)]
    pub environment: Vec<String>,
}

/// Windows' number for a service that starts with the machine.
pub const AUTO_START: u32 = 2;

/// What to do with a journal that is found at the agent's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Finish the bookkeeping: the change had worked.
    Commit,
    /// Put back what was there.
    Undo,
    /// Leave what is there: nothing had worked before, and the same request may come again.
    Leave,
    /// Note how it ended: all else is done.
    Close,
}

/// Decides what to do with a journal that is found at the agent's start.
#[must_use]
pub fn recover(journal: &Journal) -> Recovery {
    match (journal.phase, journal.change.first) {
        (Phase::Confirmed, _) => Recovery::Commit,
        (Phase::Undone, _) => Recovery::Close,
        (Phase::Changing, false) => Recovery::Undo,
        (Phase::Changing, true) => Recovery::Leave,
    }
}

/// How a request ends that was undone, or left as it is, after these problems.
#[must_use]
pub fn bad_end(journal: &Journal, recovery: Recovery, problems: &[String]) -> End {
    let why = journal.end.as_ref().and_then(|end| end.failure.clone());
    let mut why = why.unwrap_or_else(|| {
        let message = "the agent ended in the middle of the request";
        FailureCategory::Interrupted.failure(message)
    });
    if recovery == Recovery::Leave {
        why.message += "; nothing had worked before, so it was left as it is";
    }
    let mut outcome = Outcome::Failed;
    if !problems.is_empty() {
        why.message += "; going back was not complete: ";
        why.message += &problems.join("; ");
    } else if recovery == Recovery::Undo {
        why.message += "; what was there before is back";
        outcome = Outcome::RolledBack;
    }
    End {
        incomplete: !problems.is_empty(),
        ..End::bad(outcome, why)
    }
}

/// How one file goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUndo {
    /// It is as it was.
    Nothing,
    /// The old content, set aside, is moved back.
    MoveBack,
    /// There was none; the new one is taken away.
    Remove,
    /// The old content is gone; what is in its place stays, because no program at all would be worse.
    Lost,
    /// The old content is gone and its place is empty; the new content goes there.
    Forward,
}

/// The contents, by SHA-256, of the places in which a file's old and new content may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents<'a> {
    /// In the file's own place.
    pub current: Option<&'a str>,
    /// Where the old content was set aside.
    pub set_aside: Option<&'a str>,
    /// Where the new content came from.
    pub upload: Option<&'a str>,
}

/// Decides how a file goes back.
#[must_use]
pub fn undo_file(change: &FileChange, there: Contents<'_>) -> FileUndo {
    match &change.previous_sha256 {
        previous if previous.as_deref() == there.current => FileUndo::Nothing,
        Some(previous) if there.set_aside == Some(previous) => FileUndo::MoveBack,
        Some(_) if there.current.is_none() && there.upload == Some(&change.sha256) => {
            FileUndo::Forward
        }
        Some(_) => FileUndo::Lost,
        None if there.current == Some(&change.sha256) => FileUndo::Remove,
        None => FileUndo::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_of_a_replacement_goes_back() {
        use FileUndo::{Forward, Lost, MoveBack, Nothing, Remove};
        // What was there before; what is in the file's place, set aside and uploaded now.
        for (before, current, set_aside, upload, expected) in [
            ("old", "old", "older", "new", Nothing),
            // Between the two renames, and after the second.
            ("old", "", "old", "new", MoveBack),
            ("old", "new", "old", "", MoveBack),
            // After it went back, and while the new one is moved away.
            ("old", "old", "", "new", Nothing),
            ("old", "", "old", "", MoveBack),
            ("old", "new", "", "", Lost),
            ("old", "x", "", "new", Lost),
            ("old", "", "", "new", Forward),
            ("old", "", "x", "x", Lost),
            ("", "", "", "new", Nothing),
            // It is taken away only where it is ours.
            ("", "new", "", "", Remove),
            ("", "other", "", "", Nothing),
        ] {
            let some = |content: &'static str| (!content.is_empty()).then_some(content);
            let change = FileChange {
                path: r"C:\k\a.exe".into(),
                upload: String::new(),
                sha256: "new".into(),
                previous_sha256: some(before).map(Into::into),
            };
            let there = Contents {
                current: some(current),
                set_aside: some(set_aside),
                upload: some(upload),
            };
            assert_eq!(undo_file(&change, there), expected, "{before} {there:?}");
        }
    }

    fn journal() -> Journal {
        Journal {
            request: crate::plan::tests::request(),
            phase: Phase::Changing,
            change: Change::default(),
            commands: BTreeMap::new(),
            end: None,
        }
    }

    #[test]
    fn recovery_by_phase() {
        for (phase, first, expected) in [
            (Phase::Changing, false, Recovery::Undo),
            (Phase::Changing, true, Recovery::Leave),
            (Phase::Confirmed, false, Recovery::Commit),
            (Phase::Confirmed, true, Recovery::Commit),
            (Phase::Undone, false, Recovery::Close),
        ] {
            let mut journal = journal();
            (journal.phase, journal.change.first) = (phase, first);
            assert_eq!(recover(&journal), expected, "{phase:?} {first}");
        }
    }

    #[test]
    fn a_bad_end_says_why_and_what_is_left() {
        let mut journal = journal();
        let cut_off = bad_end(&journal, Recovery::Undo, &[]);
        assert_eq!(cut_off.outcome, Outcome::RolledBack);
        let category = cut_off.failure.unwrap().category;
        assert_eq!(category, FailureCategory::Interrupted);
        let why = FailureCategory::PipesMissing.failure("no pipes");
        journal.end = Some(End::bad(Outcome::RolledBack, why));
        for (recovery, problems, outcome, said) in [
            (
                Recovery::Undo,
                &[][..],
                Outcome::RolledBack,
                "what was there before is back",
            ),
            (
                Recovery::Undo,
                &["x is lost".to_owned()],
                Outcome::Failed,
                "going back was not complete: x is lost",
            ),
            (
                Recovery::Leave,
                &[],
                Outcome::Failed,
                "nothing had worked before, so it was left as it is",
            ),
        ] {
            let message = format!("no pipes; {said}");
            let why = FailureCategory::PipesMissing.failure(message);
            let expected = End {
                incomplete: !problems.is_empty(),
                ..End::bad(outcome, why)
            };
            assert_eq!(bad_end(&journal, recovery, problems), expected);
        }
    }

    #[test]
    fn a_journal_of_an_earlier_agent_is_understood() {
        let mut text = serde_json::to_value(journal()).unwrap();
        let fields = text.as_object_mut().unwrap();
        for field in ["dependents", "commands", "end"] {
            fields.remove(field);
        }
        assert_eq!(serde_json::from_value::<Journal>(text).unwrap(), journal());
    }
}
