//! The journal of a change. The agent writes it before it changes the node, and reads it when it starts after a crash.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure_actions::FailureActions;
use protocol::{End, FailureCategory, Outcome, Request};

/// A change in progress.
///
/// The journal is complete before the first step, and rolling back twice is safe, so the agent may end at any step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// The request that is carried out.
    pub request: Request,
    /// The phase that the change has reached.
    pub phase: Phase,
    /// What the change affects.
    #[serde(flatten)]
    pub change: Change,
    /// Commands with the values of scripts filled in, by service.
    #[serde(default)]
    pub commands: BTreeMap<String, String>,
    /// How the request ends, once that is known: why it is rolled back, or its result.
    #[serde(default)]
    pub end: Option<End>,
}

/// What a change affects, with all that a rollback needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Whether there was no service to roll back to.
    pub first: bool,
    /// The files that change.
    pub files: Vec<FileChange>,
    /// The services that change, in start order, followed by those that are deleted.
    pub services: Vec<ServiceChange>,
    /// Services outside the request that are stopped for the change and started again after it, in start order.
    #[serde(default)]
    pub dependents: Vec<String>,
}

/// The phase of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Between the old state and the new one.
    Changing,
    /// The old state is restored; only the bookkeeping is left.
    Undone,
    /// The new state works; only the bookkeeping is left.
    Confirmed,
}

/// A file that gets new content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// The file's path.
    pub path: String,
    /// The path of the uploaded new content.
    pub upload: String,
    /// SHA-256 of the new content.
    pub sha256: String,
    /// SHA-256 of the old content; absent if there was no file.
    pub previous_sha256: Option<String>,
}

impl FileChange {
    /// Returns the path to which the old content is moved.
    #[must_use]
    pub fn previous_path(&self) -> String {
        format!("{}.previous", self.path)
    }
}

/// A service that is stopped, changed, created or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceChange {
    /// Its name.
    pub name: String,
    /// The configuration before the change; absent if the service did not exist.
    pub before: Option<ServiceSettings>,
    /// Whether it was running.
    pub was_running: bool,
    /// The failure actions of a foreign service before the change; absent for the agent's own services, and where Windows
    /// does not report them.
    #[serde(default)]
    pub failure_actions: Option<FailureActions>,
}

/// The part of a service's configuration that the agent sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSettings {
    /// The command line.
    pub command: String,
    /// The description.
    pub description: String,
    /// The services that it depends on.
    pub dependencies: Vec<String>,
    /// The start type as Windows numbers it: 2 automatic, 3 manual, 4 disabled.
    pub start_type: u32,
    /// Environment variables that its process gets in addition to the system's, each `NAME=value`.
    #[serde(default)]
    pub environment: Vec<String>,
}

/// The start type of a service that starts with the machine, as Windows numbers it.
pub const AUTO_START: u32 = 2;

/// What the agent does with a journal that it finds when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Finish the bookkeeping: the change worked.
    Commit,
    /// Roll back.
    Undo,
    /// Leave the node as it is: nothing worked before, and the same request may come again.
    Leave,
    /// Record how the request ended: everything else is done.
    Close,
}

/// Decides what to do with a journal that the agent finds when it starts.
#[must_use]
pub fn recover(journal: &Journal) -> Recovery {
    match (journal.phase, journal.change.first) {
        (Phase::Confirmed, _) => Recovery::Commit,
        (Phase::Undone, _) => Recovery::Close,
        (Phase::Changing, false) => Recovery::Undo,
        (Phase::Changing, true) => Recovery::Leave,
    }
}

/// Returns how a request ended that was rolled back, or left as it is, with these problems.
#[must_use]
pub fn bad_end(journal: &Journal, recovery: Recovery, problems: &[String]) -> End {
    let why = journal.end.as_ref().and_then(|end| end.failure.clone());
    let mut why = why.unwrap_or_else(|| {
        let message = "the agent ended in the middle of the request";
        FailureCategory::Interrupted.failure(message)
    });
    if recovery == Recovery::Leave {
        why.message +=
            "; there was no working version to roll back to, so the node was left as it is";
    }
    let mut outcome = Outcome::Failed;
    if !problems.is_empty() {
        why.message += "; the rollback is incomplete: ";
        why.message += &problems.join("; ");
    } else if recovery == Recovery::Undo {
        why.message += "; the previous state is restored";
        outcome = Outcome::RolledBack;
    }
    End {
        incomplete: !problems.is_empty(),
        ..End::bad(outcome, why)
    }
}

/// How one file is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUndo {
    /// Nothing is to be done.
    Nothing,
    /// The old content, which was set aside, is moved back.
    MoveBack,
    /// There was no file; the new one is moved away.
    Remove,
    /// The old content is lost. Whatever is in its place stays, because no program at all would be worse.
    Lost,
    /// The old content is lost and nothing is in its place, so the new content goes there.
    Forward,
}

/// SHA-256 of what is at the paths where a file's old and new content may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents<'a> {
    /// At the file's own path.
    pub current: Option<&'a str>,
    /// Where the old content was set aside.
    pub set_aside: Option<&'a str>,
    /// At the path of the upload.
    pub upload: Option<&'a str>,
}

/// Decides how a file is rolled back.
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
        // The content before the change; then the contents now: in place, set aside, uploaded.
        for (before, current, set_aside, upload, expected) in [
            ("old", "old", "older", "new", Nothing),
            // Between the two renames, and after the second.
            ("old", "", "old", "new", MoveBack),
            ("old", "new", "old", "", MoveBack),
            // After the rollback, and while the new file is moved away.
            ("old", "old", "", "new", Nothing),
            ("old", "", "old", "", MoveBack),
            ("old", "new", "", "", Lost),
            ("old", "x", "", "new", Lost),
            ("old", "", "", "new", Forward),
            ("old", "", "x", "x", Lost),
            ("", "", "", "new", Nothing),
            // The file is removed only if its content is the request's.
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
                "the previous state is restored",
            ),
            (
                Recovery::Undo,
                &["x is lost".to_owned()],
                Outcome::Failed,
                "the rollback is incomplete: x is lost",
            ),
            (
                Recovery::Leave,
                &[],
                Outcome::Failed,
                "there was no working version to roll back to, so the node was left as it is",
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
