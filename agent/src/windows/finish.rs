//! Ends a change: updates its records in such an order that neither a reader nor a crash sees them half done.
//!
//! The end is recorded while the journal still exists. A reader that finds no journal finds the end. After a crash in
//! between, the remaining steps are repeated, which is safe.

use std::collections::BTreeMap;
use std::time::Instant;

use protocol::command::same_path;
use protocol::paths::{DESIRED_FILE, JOURNAL_FILE, STATE_FILE};
use protocol::{End, Failure, LastResult, Outcome, Request};
use windows_storage_agent::errors::{Context, named};
use windows_storage_agent::events::Event;
use windows_storage_agent::journal::{Journal, Phase, Recovery, bad_end, recover};
use windows_storage_agent::keep::Backoff;

use super::engine::Engine;
use super::transaction::remove_uploads;
use super::win32::now;
use super::{events, files, log, point, store};

impl Engine {
    /// Ends a change whose new state works.
    pub(super) fn commit(&mut self, journal: &Journal) -> Result<End, Failure> {
        if let Err(failure) = self.keep(&journal.request, &journal.commands) {
            self.try_again_later();
            return Err(failure);
        }
        point("kept");
        self.let_run(journal);
        let end = journal.end.clone();
        let end = end.unwrap_or_else(|| End::good(Outcome::Applied, None));
        self.close(journal, &end);
        Ok(end)
    }

    /// Ends a change of which a step failed.
    pub(super) fn give_up(&mut self, journal: &mut Journal, why: Failure) -> End {
        let why = name_blocked(why, &journal.request);
        log::line(format!("{}: {:?}: {why}", journal.request.id, why.category));
        journal.end = Some(End::bad(Outcome::RolledBack, why));
        // If this fails, a crash from here on loses only the reason.
        save_journal(journal);
        point("reason saved");
        if journal.change.first {
            return self.leave(journal);
        }
        match self.go_back(journal) {
            Ok(end) => {
                if end.outcome == Outcome::RolledBack {
                    remove_uploads(&journal.request);
                }
                end
            }
            Err(failure) => {
                let unfinished = format!("{failure}; retrying");
                let end = bad_end(journal, Recovery::Undo, &[unfinished]);
                self.note(&journal.request.id, &end);
                end
            }
        }
    }

    /// Leaves the node as it is: nothing worked before. The keeper retries the services.
    fn leave(&mut self, journal: &Journal) -> End {
        let kept = self.keep(&journal.request, &journal.commands);
        self.let_run(journal);
        let left = kept.err().map(|failure| failure.message);
        let end = bad_end(journal, Recovery::Leave, left.as_slice());
        self.close(journal, &end);
        end
    }

    /// Lets Windows restart the services that stay, and removes the uploads, which are no longer needed.
    fn let_run(&self, journal: &Journal) {
        for change in &journal.change.services {
            self.services.set_recovery(&change.name, true);
        }
        remove_uploads(&journal.request);
    }

    fn go_back(&mut self, journal: &mut Journal) -> Result<End, Failure> {
        let problems = self.undo(journal).inspect_err(|failure| {
            let id = &journal.request.id;
            log::line(format!("{id}: rolling back is not finished: {failure}"));
        });
        if problems.is_err() {
            self.try_again_later();
        }
        let problems = problems?;
        let end = bad_end(journal, Recovery::Undo, &problems);
        journal.phase = Phase::Undone;
        journal.end = Some(end.clone());
        save_journal(journal);
        point("undone");
        self.close(journal, &end);
        Ok(end)
    }

    /// Records the end, then removes the journal.
    fn close(&mut self, journal: &Journal, end: &End) {
        self.note(&journal.request.id, end);
        point("noted");
        match files::remove(JOURNAL_FILE) {
            Ok(()) => self.again = None,
            Err(error) => {
                log::line(format!("removing {JOURNAL_FILE}: {error}"));
                self.try_again_later();
            }
        }
        point("journal forgotten");
    }

    /// Recovers from an interrupted change, if there is one; retries later if that fails.
    pub fn recover_or_log(&mut self) {
        log::unless_ok("recovery", self.recover());
    }

    /// Recovers from an interrupted change, if there is one. On error it is retried later.
    fn recover(&mut self) -> Result<(), Failure> {
        let Some(mut journal) = store::load_or_set_aside::<Journal>(JOURNAL_FILE) else {
            self.again = None;
            return Ok(());
        };
        let recovery = recover(&journal);
        log::line(format!(
            "request {} was cut off: {recovery:?}",
            journal.request.id
        ));
        let end = match recovery {
            Recovery::Commit => return self.commit(&journal).map(drop),
            Recovery::Undo => return self.go_back(&mut journal).map(drop),
            Recovery::Close => journal.end.clone(),
            Recovery::Leave => None,
        };
        let end = end.unwrap_or_else(|| bad_end(&journal, recovery, &[]));
        self.close(&journal, &end);
        Ok(())
    }

    /// Settles an earlier change. If it cannot be rolled back for now, the new request starts from the current state, unless
    /// the change is confirmed.
    pub(super) fn settle_earlier(&mut self) -> Result<(), Failure> {
        let Err(failure) = self.recover() else {
            return Ok(());
        };
        let Some(journal) = store::load_or_set_aside::<Journal>(JOURNAL_FILE) else {
            return Ok(());
        };
        if journal.phase == Phase::Confirmed {
            return Err(failure);
        }
        let given_up = format!("{failure}; abandoned in favour of a later request");
        let end = bad_end(&journal, Recovery::Undo, &[given_up]);
        self.close(&journal, &end);
        Ok(())
    }

    /// Stores a request as the one that the agent enforces from now on.
    pub(super) fn keep(
        &mut self,
        request: &Request,
        commands: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let names = request.services.iter().map(|service| service.name.clone());
        let names: Vec<String> = names.collect();
        let memory = &mut self.kept.memory;
        if memory.ours != names || memory.commands != *commands {
            memory.ours = names;
            memory.commands.clone_from(commands);
            store::save(STATE_FILE, memory)?;
            point("names kept");
        }
        if self.kept.request.as_ref() != Some(request) {
            self.remove_files_that_leave(request)?;
            store::save(DESIRED_FILE, request)?;
            self.kept.request = Some(request.clone());
        }
        Ok(())
    }

    /// Removes files of the earlier request that this one does not list. Files that changed since are not the agent's to
    /// remove.
    fn remove_files_that_leave(&self, request: &Request) -> Result<(), Failure> {
        let stays = |path: &str| {
            let mut files = request.files.iter();
            files.any(|file| same_path(&file.path, path))
        };
        let before = self.kept.request.iter().flat_map(|kept| &kept.files);
        for file in before.filter(|file| !stays(&file.path)) {
            if files::sha256(&file.path)?.as_ref() == Some(&file.sha256) {
                files::remove(&file.path).context(format_args!("removing {}", file.path))?;
            }
        }
        Ok(())
    }

    /// Records how a request ended.
    pub(super) fn note(&mut self, id: &str, end: &End) {
        let why = end.failure.as_ref();
        let why = why.map_or_else(String::new, |why| format!(": {:?}: {why}", why.category));
        log::line(format!("request {id}: {:?}{why}", end.outcome));
        let last = self.kept.memory.last_result.as_ref();
        // A repeated result is not worth a write: an operator may ask every minute.
        let is_good =
            |last: &LastResult| matches!(last.end.outcome, Outcome::Unchanged | Outcome::Applied);
        let is_same = last.is_some_and(|last| last.id == id && is_good(last));
        if end.outcome == Outcome::Unchanged && is_same {
            return;
        }
        let failures = LastResult::failures_after(last, id, end.outcome);
        if let Some(event) = Event::of(end.outcome, failures) {
            events::report(event, &format!("Request {id}: {:?}{why}", end.outcome));
        }
        self.kept.memory.last_result = Some(LastResult {
            id: id.to_owned(),
            end: end.clone(),
            finished: now(),
            failures,
        });
        self.save_memory();
    }

    /// Saves the memory; retries later if the disk is full.
    pub(super) fn save_memory(&mut self) {
        match store::save(STATE_FILE, &self.kept.memory) {
            Ok(()) => self.unsaved = None,
            Err(failure) => {
                log::line(failure.message);
                self.unsaved
                    .get_or_insert_with(|| Backoff::after_first(Instant::now()));
            }
        }
    }

    fn try_again_later(&mut self) {
        self.again
            .get_or_insert_with(|| Backoff::after_first(Instant::now()));
    }
}

/// Adds the files of a request to a failure that is about a blocked program.
pub(super) fn name_blocked(failure: Failure, request: &Request) -> Failure {
    let files = request.files.iter();
    named(failure, files.map(|file| (&*file.path, &*file.sha256)))
}

/// Saves the journal where a failure, such as a full disk, is acceptable.
fn save_journal(journal: &Journal) {
    log::unless_ok("saving the journal", store::save(JOURNAL_FILE, journal));
}
