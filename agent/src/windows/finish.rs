//! How a change ends: its bookkeeping, in an order that no reader and no crash can see through.
//!
//! The end is noted while the journal is still there. A reader that finds no journal finds the end; a crash in between
//! has the rest done again, which changes nothing that was done.

use std::collections::BTreeMap;
use std::time::SystemTime;

use protocol::paths::{DESIRED_FILE, JOURNAL_FILE, STATE_FILE};
use protocol::{Failure, LastResult, Outcome, Request};
use windows_storage_agent::journal::{End, Journal, Phase, Recovery, bad_end, recover};
use windows_storage_agent::timestamp::rfc3339;

use super::fault::point;
use super::transaction::{Worker, remove_uploads};
use super::{log, store};

impl Worker {
    /// The new state works.
    pub(super) fn commit(&mut self, journal: &Journal) -> Result<End, Failure> {
        if let Err(failure) = self.keep(&journal.request, &journal.commands) {
            self.try_again_later();
            return Err(failure);
        }
        point("kept");
        for change in &journal.services {
            self.set_recovery(&change.name, true);
        }
        remove_uploads(&journal.request);
        let end = journal
            .end
            .clone()
            .unwrap_or_else(|| End::good(Outcome::Applied, None));
        self.close(journal, &end);
        Ok(end)
    }

    /// After a step that failed.
    pub(super) fn give_up(&mut self, journal: &mut Journal, why: Failure) -> End {
        log::line(format!(
            "{}: {:?}: {}",
            journal.request.id, why.category, why.message
        ));
        journal.end = Some(End::bad(Outcome::RolledBack, why));
        // Without it, a crash from here on would lose the reason, not more.
        save_journal(journal);
        point("reason saved");
        if journal.first {
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
                let unfinished = format!("{}; it is tried again", failure.message);
                let end = bad_end(journal, Recovery::Undo, &[unfinished]);
                self.note(&journal.request.id, &end);
                end
            }
        }
    }

    /// Nothing worked before, so what is there now is the best there is: the keeper tries it again and again.
    fn leave(&mut self, journal: &Journal) -> End {
        let left: Vec<String> = self
            .keep(&journal.request, &journal.commands)
            .err()
            .map(|failure| failure.message)
            .into_iter()
            .collect();
        for change in &journal.services {
            self.set_recovery(&change.name, true);
        }
        remove_uploads(&journal.request);
        let end = bad_end(journal, Recovery::Leave, &left);
        self.close(journal, &end);
        end
    }

    fn go_back(&mut self, journal: &mut Journal) -> Result<End, Failure> {
        let problems = match self.undo(journal) {
            Ok(problems) => problems,
            Err(failure) => {
                log::line(format!(
                    "{}: going back is not finished: {}",
                    journal.request.id, failure.message
                ));
                self.try_again_later();
                return Err(failure);
            }
        };
        let end = bad_end(journal, Recovery::Undo, &problems);
        journal.phase = Phase::Undone;
        journal.end = Some(end.clone());
        save_journal(journal);
        point("undone");
        self.close(journal, &end);
        Ok(end)
    }

    /// Notes the end, then forgets the journal.
    fn close(&mut self, journal: &Journal, end: &End) {
        self.note(&journal.request.id, end);
        point("noted");
        match store::forget(JOURNAL_FILE) {
            Ok(()) => self.again = None,
            Err(failure) => {
                log::line(failure.message);
                self.try_again_later();
            }
        }
        point("journal forgotten");
    }

    /// Deals with a change that was cut off, if there is one. An error means that it is tried again later.
    pub fn recover(&mut self) -> Result<(), Failure> {
        let Some(mut journal) = store::load_or_set_aside::<Journal>(JOURNAL_FILE) else {
            self.again = None;
            return Ok(());
        };
        let recovery = recover(&journal);
        log::line(format!(
            "request {} was cut off: {recovery:?}",
            journal.request.id
        ));
        match recovery {
            Recovery::Commit => drop(self.commit(&journal)?),
            Recovery::Undo => drop(self.go_back(&mut journal)?),
            Recovery::Leave => {
                let end = bad_end(&journal, recovery, &[]);
                self.close(&journal, &end);
            }
            Recovery::Close => {
                let end = journal.end.clone();
                let end = end.unwrap_or_else(|| bad_end(&journal, recovery, &[]));
                self.close(&journal, &end);
            }
        }
        Ok(())
    }

    /// A new request goes on from what is there, where an earlier one cannot be undone for now. What worked is not
    /// dropped like that.
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
        let given_up = format!("{}; given up for a later request", failure.message);
        let end = bad_end(&journal, Recovery::Undo, &[given_up]);
        self.close(&journal, &end);
        Ok(())
    }

    /// Keeps the node to a request from now on.
    pub(super) fn keep(
        &mut self,
        request: &Request,
        commands: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let names: Vec<String> = request
            .services
            .iter()
            .map(|service| service.name.clone())
            .collect();
        let memory = &mut self.kept.memory;
        if memory.ours != names || memory.commands != *commands {
            memory.ours = names;
            memory.commands.clone_from(commands);
            store::save(STATE_FILE, memory)?;
            point("names kept");
        }
        if self.kept.request.as_ref() != Some(request) {
            store::save(DESIRED_FILE, request)?;
            self.kept.request = Some(request.clone());
        }
        Ok(())
    }

    /// Notes how a request ended.
    pub(super) fn note(&mut self, id: &str, end: &End) {
        let why = end
            .failure
            .as_ref()
            .map(|failure| format!(": {:?}: {}", failure.category, failure.message))
            .unwrap_or_default();
        log::line(format!("request {id}: {:?}{why}", end.outcome));
        // The same again is not worth a write: an operator may ask every minute.
        let last = self.kept.memory.last_result.as_ref();
        if end.outcome == Outcome::Unchanged
            && last.is_some_and(|last| {
                last.id == id && matches!(last.outcome, Outcome::Unchanged | Outcome::Applied)
            })
        {
            return;
        }
        self.kept.memory.last_result = Some(LastResult {
            id: id.to_owned(),
            outcome: end.outcome,
            failure: end.failure.clone(),
            interruption_milliseconds: end.interruption_milliseconds,
            finished: rfc3339(SystemTime::now()),
            failures: LastResult::failures_after(last, id, end.outcome),
        });
        self.save_memory();
    }

    /// Writes down what is remembered; on a full disk that is tried again later.
    pub(super) fn save_memory(&mut self) {
        let saved = store::save(STATE_FILE, &self.kept.memory);
        self.kept.unsaved = saved.is_err();
        if let Err(failure) = saved {
            log::line(failure.message);
        }
    }
}

/// For what the journal can do without: the disk may be full.
fn save_journal(journal: &Journal) {
    if let Err(failure) = store::save(JOURNAL_FILE, journal) {
        log::line(failure.message);
    }
}
