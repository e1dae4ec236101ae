//! What is written down before the node is changed, and what to do with it when the agent finds it again.

use serde::{Deserialize, Serialize};

use crate::protocol::Request;

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
    /// There was no service to go back to.
    pub first: bool,
    /// The files that change.
    pub files: Vec<FileChange>,
    /// The services that change, in start order; those that leave come last.
    pub services: Vec<ServiceChange>,
}

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Between the old state and the new one.
    Changing,
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
}

/// Decides what to do with a journal that is found at the agent's start.
#[must_use]
pub fn recover(journal: &Journal) -> Recovery {
    match (journal.phase, journal.first) {
        (Phase::Confirmed, _) => Recovery::Commit,
        (Phase::Changing, false) => Recovery::Undo,
        (Phase::Changing, true) => Recovery::Leave,
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
    /// The old content is gone.
    Lost,
}

/// Decides how a file goes back, from the content that is there and the content that was set aside.
#[must_use]
pub fn undo_file(change: &FileChange, current: Option<&str>, set_aside: Option<&str>) -> FileUndo {
    match &change.previous_sha256 {
        previous if previous.as_deref() == current => FileUndo::Nothing,
        Some(previous) if set_aside == Some(previous) => FileUndo::MoveBack,
        Some(_) => FileUndo::Lost,
        None if current == Some(&change.sha256) => FileUndo::Remove,
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

    #[test]
    fn every_point_of_a_replacement_goes_back() {
        let replaced = change(Some("old"));
        // Before the first rename, between the two, after the second, and after going back.
        assert_eq!(
            undo_file(&replaced, Some("old"), Some("older")),
            FileUndo::Nothing
        );
        assert_eq!(undo_file(&replaced, None, Some("old")), FileUndo::MoveBack);
        assert_eq!(
            undo_file(&replaced, Some("new"), Some("old")),
            FileUndo::MoveBack
        );
        assert_eq!(undo_file(&replaced, Some("old"), None), FileUndo::Nothing);
        assert_eq!(undo_file(&replaced, Some("new"), None), FileUndo::Lost);
    }

    #[test]
    fn a_new_file_is_taken_away_only_where_it_is_ours() {
        let made = change(None);
        assert_eq!(undo_file(&made, None, None), FileUndo::Nothing);
        assert_eq!(undo_file(&made, Some("new"), None), FileUndo::Remove);
        assert_eq!(undo_file(&made, Some("other"), None), FileUndo::Nothing);
    }

    #[test]
    fn recovery_by_phase() {
        let mut journal = Journal {
            request: crate::plan::tests::request(),
            phase: Phase::Changing,
            first: false,
            files: vec![],
            services: vec![],
        };
        assert_eq!(recover(&journal), Recovery::Undo);
        journal.first = true;
        assert_eq!(recover(&journal), Recovery::Leave);
        journal.phase = Phase::Confirmed;
        assert_eq!(recover(&journal), Recovery::Commit);
    }
}
