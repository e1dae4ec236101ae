//! What is written down before the node is changed, and what to do with it when the agent finds it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure_actions::FailureActions;
use protocol::{Failure, FailureCategory, Outcome, Request};

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

/// How a request ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Why it did not end well.
    pub failure: Option<Failure>,
    /// How long pipes were closed, in milliseconds.
    pub interruption_milliseconds: Option<u64>,
}

impl End {
    /// A good end.
    #[must_use]
    pub fn good(outcome: Outcome, interruption_milliseconds: Option<u64>) -> Self {
        Self {
            outcome,
            failure: None,
            interruption_milliseconds,
        }
    }

    /// An end that is no success.
    #[must_use]
    pub fn bad(outcome: Outcome, failure: Failure) -> Self {
        Self {
            outcome,
            failure: Some(failure),
            interruption_milliseconds: None,
        }
    }
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
    /// What Windows did when it crashed, for a service of somebody else's; absent for ours, and where Windows did not say.
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
        Failure::new(FailureCategory::Interrupted, message)
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
    End::bad(outcome, why)
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

    fn change(previous: Option<&str>) -> FileChange {
        FileChange {
            path: r"C:\k\a.exe".into(),
            upload: String::new(),
            sha256: "new".into(),
            previous_sha256: previous.map(Into::into),
        }
    }

    fn undone(
        previous: Option<&str>,
        current: Option<&str>,
        set_aside: Option<&str>,
        upload: Option<&str>,
    ) -> FileUndo {
        let there = Contents {
            current,
            set_aside,
            upload,
        };
        undo_file(&change(previous), there)
    }

    #[test]
    fn every_point_of_a_replacement_goes_back() {
        let (old, new) = (Some("old"), Some("new"));
        let cases = [
            (
                "before the first rename",
                old,
                Some("older"),
                new,
                FileUndo::Nothing,
            ),
            ("between the two", None, old, new, FileUndo::MoveBack),
            ("after the second", new, old, None, FileUndo::MoveBack),
            ("after going back", old, None, new, FileUndo::Nothing),
            (
                "the new one moved away already",
                None,
                old,
                None,
                FileUndo::MoveBack,
            ),
            ("the old one is lost", new, None, None, FileUndo::Lost),
            (
                "the old one is lost, another there",
                Some("x"),
                None,
                new,
                FileUndo::Lost,
            ),
            (
                "the old one is lost, nothing there",
                None,
                None,
                new,
                FileUndo::Forward,
            ),
            ("all is lost", None, Some("x"), Some("x"), FileUndo::Lost),
        ];
        for (case, current, set_aside, upload, expected) in cases {
            assert_eq!(undone(old, current, set_aside, upload), expected, "{case}");
        }
    }

    #[test]
    fn a_new_file_is_taken_away_only_where_it_is_ours() {
        assert_eq!(undone(None, None, None, Some("new")), FileUndo::Nothing);
        assert_eq!(undone(None, Some("new"), None, None), FileUndo::Remove);
        assert_eq!(undone(None, Some("other"), None, None), FileUndo::Nothing);
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
        assert_eq!(
            cut_off.failure.unwrap().category,
            FailureCategory::Interrupted
        );
        journal.end = Some(End::bad(
            Outcome::RolledBack,
            Failure::new(FailureCategory::PipesMissing, "no pipes"),
        ));
        let back = bad_end(&journal, Recovery::Undo, &[]);
        assert_eq!(back.outcome, Outcome::RolledBack);
        assert_eq!(
            back.failure.unwrap(),
            Failure::new(
                FailureCategory::PipesMissing,
                "no pipes; what was there before is back"
            )
        );
        let partly = bad_end(&journal, Recovery::Undo, &["x is lost".to_owned()]);
        assert_eq!(partly.outcome, Outcome::Failed);
        assert_eq!(
            partly.failure.unwrap().message,
            "no pipes; going back was not complete: x is lost"
        );
        let left = bad_end(&journal, Recovery::Leave, &[]);
        assert_eq!(left.outcome, Outcome::Failed);
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
