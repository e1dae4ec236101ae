//! Going back to what was there before a change.

use std::time::{Duration, Instant};

use windows_storage_agent::errors::{failed_to, failure};
use windows_storage_agent::journal::{FileChange, FileUndo, Journal, ServiceChange, undo_file};
use windows_storage_agent::paths::JOURNAL_FILE;
use windows_storage_agent::protocol::{Failure, FailureCategory, Request};

use super::transaction::{Worker, pipes_of, seconds};
use super::{control, files, log, store};

impl Worker {
    /// Puts back what the journal says was there, and starts it. Safe to do again at any point.
    pub(super) fn undo(&mut self, journal: &Journal) -> Result<(), Failure> {
        log::line(format!("{}: going back", journal.request.id));
        let stop_timeout = seconds(journal.request.stop_timeout_seconds);
        let start_timeout = seconds(journal.request.start_timeout_seconds);
        for change in journal.services.iter().rev() {
            let pipes = pipes_of(&journal.request, &change.name);
            control::stop(
                &self.scm,
                &mut self.processes,
                &change.name,
                &pipes,
                stop_timeout,
            )?;
        }
        for change in &journal.files {
            put_back(change)?;
        }
        for change in &journal.services {
            match &change.before {
                Some(before) => self.configure(&change.name, before)?,
                None => self.delete(&change.name)?,
            }
        }
        // From here on the node is as it was; a service that does not come up is the keeper's affair.
        store::forget(JOURNAL_FILE)?;
        let before = self.kept.request.clone();
        for change in journal
            .services
            .iter()
            .filter(|change| change.before.is_some())
        {
            self.set_recovery(&change.name);
            if change.was_running {
                self.start_again(change, before.as_ref(), stop_timeout, start_timeout)?;
            }
        }
        log::line(format!("{}: went back", journal.request.id));
        Ok(())
    }

    fn start_again(
        &mut self,
        change: &ServiceChange,
        before: Option<&Request>,
        stop: Duration,
        start: Duration,
    ) -> Result<(), Failure> {
        let pipes = before
            .map(|request| pipes_of(request, &change.name))
            .unwrap_or_default();
        control::await_pipes_free(
            &mut self.processes,
            &change.name,
            &pipes,
            Instant::now() + stop,
        )?;
        let deadline = Instant::now() + start;
        control::start(&self.scm, &mut self.processes, &change.name, deadline)?;
        control::await_pipes(
            &self.scm,
            &mut self.processes,
            &change.name,
            &pipes,
            deadline,
        )
    }
}

fn put_back(change: &FileChange) -> Result<(), Failure> {
    let doing = format!("putting back {}", change.path);
    let failed = |error| failed_to(&doing, &error);
    let current = files::sha256(&change.path).map_err(failed)?;
    let set_aside = files::sha256(&change.previous_path()).map_err(failed)?;
    let undo = undo_file(change, current.as_deref(), set_aside.as_deref());
    let is_new = current.as_ref() == Some(&change.sha256);
    if is_new && matches!(undo, FileUndo::MoveBack | FileUndo::Remove) {
        // Back to where it came from, so that the same request can be tried again.
        files::rename(&change.path, &change.upload).map_err(failed)?;
    }
    match undo {
        FileUndo::Nothing | FileUndo::Remove => Ok(()),
        FileUndo::MoveBack => files::rename(&change.previous_path(), &change.path).map_err(failed),
        FileUndo::Lost => Err(failure(
            FailureCategory::Internal,
            format!(
                "{doing}: its old content is neither there nor at {}",
                change.previous_path()
            ),
        )),
    }
}
