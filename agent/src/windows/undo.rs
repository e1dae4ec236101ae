//! Going back to what was there before a change.

use std::time::{Duration, Instant};

use protocol::Failure;
use windows_storage_agent::errors::failed_to;
use windows_storage_agent::journal::{
    Contents, FileChange, FileUndo, Journal, ServiceChange, undo_file,
};

use super::fault::point;
use super::transaction::{Worker, pipes_of, seconds};
use super::{control, files, log};

impl Worker {
    /// Puts back what the journal says was there, and starts it. Safe to do again at any point.
    ///
    /// What goes wrong with one part keeps no other part from going back. The result lists what cannot be mended by
    /// doing it again; an error is what can.
    pub(super) fn undo(&mut self, journal: &Journal) -> Result<Vec<String>, Failure> {
        log::line(format!("{}: going back", journal.request.id));
        let stop_timeout = seconds(journal.request.stop_timeout_seconds);
        let start_timeout = seconds(journal.request.start_timeout_seconds);
        let mut problems = Vec::new();
        let mut unfinished = None;
        if self.differs(journal) {
            self.stop_all(journal, stop_timeout, &mut problems);
        }
        for change in &journal.files {
            match put_back(change) {
                Ok(None) => {}
                Ok(Some(lost)) => problems.push(lost),
                Err(failure) => unfinished = unfinished.or(Some(failure)),
            }
            point("file put back");
        }
        for change in &journal.services {
            let done = match &change.before {
                Some(before) => self.configure(&change.name, before, stop_timeout),
                None => self.delete(&change.name),
            };
            unfinished = unfinished.or(done.err());
            point("service put back");
        }
        for change in journal
            .services
            .iter()
            .filter(|change| change.before.is_some())
        {
            self.put_back_recovery(change);
            if change.was_running
                && let Err(failure) = self.start_again(change, stop_timeout, start_timeout)
            {
                problems.push(failure.message);
            }
            point("service started again");
        }
        for name in &journal.dependents {
            self.resume(name, start_timeout);
            point("dependent started again");
        }
        match unfinished {
            None => {
                log::line(format!("{}: went back", journal.request.id));
                Ok(problems)
            }
            Some(failure) => Err(failure),
        }
    }

    /// What Windows does when the service crashes; where somebody else's is not known, it is started again like ours.
    fn put_back_recovery(&self, change: &ServiceChange) {
        let name = &change.name;
        let Some(before) = &change.failure_actions else {
            return self.set_recovery(name, true);
        };
        let put_back = self.scm.open_to_change(name).and_then(|service| {
            service.map_or(Ok(()), |service| service.put_back_failure_actions(before))
        });
        if let Err(error) = put_back {
            log::line(format!(
                "putting back what Windows does when {name} crashes, {before:?}: {error}"
            ));
        }
    }

    /// Whether anything is not as it was. Otherwise this is done again, and what runs need not stop.
    fn differs(&self, journal: &Journal) -> bool {
        let files = journal
            .files
            .iter()
            .any(|change| files::sha256(&change.path).ok() != Some(change.previous_sha256.clone()));
        files
            || journal.services.iter().any(|change| {
                let now = self
                    .scm
                    .open(&change.name)
                    .and_then(|service| service.map(|service| service.settings()).transpose());
                now.ok() != Some(change.before.clone())
            })
    }

    fn stop_all(&mut self, journal: &Journal, timeout: Duration, problems: &mut Vec<String>) {
        for name in journal.dependents.iter().rev() {
            let stopped = control::stop(&self.scm, &mut self.processes, name, &[], timeout);
            problems.extend(stopped.err().map(|failure| failure.message));
        }
        for change in journal.services.iter().rev() {
            let pipes = pipes_of(&journal.request, &change.name);
            let stopped = self.stop(&change.name, &pipes, timeout);
            problems.extend(stopped.err().map(|failure| failure.message));
            point("stopped to go back");
        }
    }

    fn start_again(
        &mut self,
        change: &ServiceChange,
        stop: Duration,
        start: Duration,
    ) -> Result<(), Failure> {
        let pipes = self
            .kept
            .request
            .as_ref()
            .map(|request| pipes_of(request, &change.name))
            .unwrap_or_default();
        if !control::is_running(&self.scm, &change.name) {
            let free_by = Instant::now() + stop;
            control::await_pipes_free(&mut self.processes, &change.name, &pipes, free_by)?;
        }
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

/// Puts a file back; says so where its old content is lost.
fn put_back(change: &FileChange) -> Result<Option<String>, Failure> {
    let doing = format!("putting back {}", change.path);
    let failed = |error| failed_to(&doing, &error);
    let current = files::sha256(&change.path).map_err(failed)?;
    let set_aside = files::sha256(&change.previous_path()).map_err(failed)?;
    let upload = files::sha256(&change.upload).map_err(failed)?;
    let undo = undo_file(
        change,
        Contents {
            current: current.as_deref(),
            set_aside: set_aside.as_deref(),
            upload: upload.as_deref(),
        },
    );
    let is_new = current.as_ref() == Some(&change.sha256);
    if is_new && matches!(undo, FileUndo::MoveBack | FileUndo::Remove) {
        // Back to where it came from, so that the same request can be tried again.
        files::rename(&change.path, &change.upload).map_err(failed)?;
        point("new file moved away");
    }
    let lost = |what: &str| {
        format!(
            "the old content of {} is neither there nor at {}; {what}",
            change.path,
            change.previous_path()
        )
    };
    match undo {
        FileUndo::Nothing | FileUndo::Remove => Ok(None),
        FileUndo::MoveBack => files::rename(&change.previous_path(), &change.path)
            .map(|()| None)
            .map_err(failed),
        FileUndo::Lost if current.is_some() => Ok(Some(lost("what is there stays"))),
        FileUndo::Lost => Ok(Some(lost("hand over a request that brings it"))),
        FileUndo::Forward => files::rename(&change.upload, &change.path)
            .map(|()| Some(lost("the new content takes its place")))
            .map_err(failed),
    }
}
