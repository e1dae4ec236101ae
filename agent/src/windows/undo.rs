//! Rolls a failed change back.

use std::time::{Duration, Instant};

use protocol::Failure;
use windows_storage_agent::errors::Context;
use windows_storage_agent::journal::{
    Contents, FileChange, FileUndo, Journal, ServiceChange, undo_file,
};

use super::engine::Engine;
use super::transaction::pipes_of;
use super::{answers, files, log, point};

impl Engine {
    /// Restores what the journal recorded, and starts it. Can be repeated safely from any point.
    ///
    /// A failure of one part does not keep the others from being rolled back. The result lists problems that a retry cannot
    /// fix; an error is one that it can.
    pub(super) fn undo(&mut self, journal: &Journal) -> Result<Vec<String>, Failure> {
        let id = &journal.request.id;
        log::line(format!("{id}: going back"));
        let stop_timeout = Duration::from_secs(journal.request.stop_timeout_seconds.into());
        let start_timeout = Duration::from_secs(journal.request.start_timeout_seconds.into());
        let (mut problems, mut unfinished) = (Vec::new(), None);
        if self.differs(journal) {
            problems = self.stop_all(journal, stop_timeout);
        }
        for change in &journal.change.files {
            match put_back(change) {
                Ok(lost) => problems.extend(lost),
                Err(failure) => unfinished = unfinished.or(Some(failure)),
            }
            self.beat();
            point("file put back");
        }
        for change in &journal.change.services {
            let name = &change.name;
            let done = match &change.before {
                Some(before) => self.services.configure(name, before, stop_timeout),
                None => self.services.delete(name),
            };
            unfinished = unfinished.or(done.err());
            self.beat();
            point("service put back");
        }
        let there_before = |change: &&ServiceChange| change.before.is_some();
        for change in journal.change.services.iter().filter(there_before) {
            self.put_back_recovery(change);
            if change.was_running {
                let started = self.start_again(&change.name, stop_timeout, start_timeout);
                problems.extend(started.err().map(|failure| failure.message));
            }
            self.beat();
            point("service started again");
        }
        for name in &journal.change.dependents {
            self.resume(name, start_timeout);
            self.beat();
            point("dependent started again");
        }
        match unfinished {
            None => {
                log::line(format!("{id}: went back"));
                Ok(problems)
            }
            Some(failure) => Err(failure),
        }
    }

    /// Restores the failure actions of a service. If those of a foreign service are unknown, it gets the same as the agent's
    /// own services.
    fn put_back_recovery(&self, change: &ServiceChange) {
        let name = &change.name;
        let Some(before) = &change.failure_actions else {
            return self.services.set_recovery(name, true);
        };
        let change = |service: super::scm::OpenService| service.put_back_failure_actions(before);
        let done = self.services.scm.change(name, change);
        let doing = format_args!("putting back what Windows does when {name} crashes, {before:?}");
        log::unless_ok(doing, done);
    }

    /// Returns whether anything differs from the old state. If not, this rollback is a repetition, and running services need
    /// not stop.
    fn differs(&self, journal: &Journal) -> bool {
        let scm = &self.services.scm;
        let file_differs = |change: &FileChange| {
            files::sha256(&change.path).ok() != Some(change.previous_sha256.clone())
        };
        let service_differs =
            |change: &ServiceChange| scm.settings(&change.name).ok() != Some(change.before.clone());
        journal.change.files.iter().any(file_differs)
            || journal.change.services.iter().any(service_differs)
    }

    fn stop_all(&mut self, journal: &Journal, timeout: Duration) -> Vec<String> {
        let mut failed = Vec::new();
        for name in journal.change.dependents.iter().rev() {
            failed.extend(self.services.stop(name, &[], timeout).err());
        }
        for change in journal.change.services.iter().rev() {
            let pipes = pipes_of(&journal.request, &change.name);
            failed.extend(self.stop(&change.name, &pipes, timeout).err());
            self.beat();
            point("stopped to go back");
        }
        failed.into_iter().map(|failure| failure.message).collect()
    }

    fn start_again(&mut self, name: &str, stop: Duration, start: Duration) -> Result<(), Failure> {
        let kept = self.kept.request.as_ref();
        let pipes = kept.map_or_else(Vec::new, |request| pipes_of(request, name));
        if !self.services.is_running(name) {
            answers::await_free(name, &pipes, stop)?;
        }
        let deadline = Instant::now() + start;
        self.services.start(name, deadline)?;
        self.services.await_pipes(name, &pipes, deadline)
    }
}

/// Restores a file; returns a problem if the old content is lost.
fn put_back(change: &FileChange) -> Result<Option<String>, Failure> {
    let (path, previous) = (&change.path, change.previous_path());
    let doing = format!("putting back {path}");
    let current = files::sha256(path)?;
    let set_aside = files::sha256(&previous)?;
    let upload = files::sha256(&change.upload)?;
    let there = Contents {
        current: current.as_deref(),
        set_aside: set_aside.as_deref(),
        upload: upload.as_deref(),
    };
    let undo = undo_file(change, there);
    let is_new = current.as_ref() == Some(&change.sha256);
    if is_new && matches!(undo, FileUndo::MoveBack | FileUndo::Remove) {
        // Back to the upload's path, so that the same request can be retried.
        files::rename(path, &change.upload).context(&doing)?;
        point("new file moved away");
    }
    let what_now = match undo {
        FileUndo::Nothing | FileUndo::Remove => return Ok(None),
        FileUndo::MoveBack => {
            files::rename(&previous, path).context(&doing)?;
            return Ok(None);
        }
        FileUndo::Lost if current.is_some() => "what is there stays",
        FileUndo::Lost => "hand over a request that brings it",
        FileUndo::Forward => {
            files::rename(&change.upload, path).context(&doing)?;
            "the new content takes its place"
        }
    };
    Ok(Some(format!(
        "the old content of {path} is neither there nor at {previous}; {what_now}"
    )))
}
