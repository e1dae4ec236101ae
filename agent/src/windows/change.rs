//! Carries out a request as a transaction with a journal.
//!
//! The end is recorded while the journal still exists. A reader that finds no journal finds the end. After a crash in
//! between, the remaining steps are repeated, which is safe.

use std::time::Instant;

use protocol::command::{log_folders, same_path};
use protocol::paths::{
    CSI_PROXY_EXE, CSI_PROXY_PREVIOUS, CSI_PROXY_SERVICE, DESIRED_FILE, JOURNAL_FILE, STATE_FILE,
};
use protocol::validate::validate;
use protocol::{End, Failure, FailureCategory, LastResult, Outcome, Request};
use windows_storage_agent::errors::{Context, named};
use windows_storage_agent::events::Event;
use windows_storage_agent::journal::{Journal, Recovery};
use windows_storage_agent::keep::Backoff;
use windows_storage_agent::owners::is_log_folder;
use windows_storage_agent::wanted::{Before, Step, Wanted, is_up, plan, refuse};

use super::bring::{Limits, Stuck};
use super::engine::Engine;
use super::observe::observe;
use super::win32::now;
use super::{acl, events, files, log, machine, owners, point, service, store};

impl Engine {
    /// Carries out a request, completely or not at all.
    pub fn carry_out(&mut self, request: &Request) -> End {
        self.try_carry_out(request).unwrap_or_else(|failure| {
            let end = End::bad(Outcome::Failed, name_blocked(failure, request));
            self.note(request, &end);
            end
        })
    }

    fn try_carry_out(&mut self, request: &Request) -> Result<End, Failure> {
        validate(request)?;
        let before_earlier = self.settle_earlier()?;
        let mut wanted = Wanted::of(request);
        if let Some(before) = &before_earlier
            && before.sha256.is_some()
            && files::sha256(CSI_PROXY_PREVIOUS)? == before.sha256
        {
            // The only copy of what this one goes back to.
            wanted.aside = format!("{CSI_PROXY_EXE}.new");
        }
        let observed = observe(&self.services.scm, &wanted)?;
        let steps = plan(&wanted, &observed)?;
        let was_kept = self.kept.request.is_some();
        refuse(request, &observed, &steps, was_kept)?;
        files::protect_program(CSI_PROXY_EXE)?;
        owners::check_program(CSI_PROXY_EXE)?;
        if !was_kept && observed.sha256.as_ref() == Some(&request.sha256) {
            renew(&request.sha256)?;
        }
        if steps.iter().all(|step| *step == Step::AwaitPipes) {
            let done = self.bring(&wanted, &steps, Limits::of(request));
            done.map_err(|stuck| stuck.failure)?;
            self.keep(request)?;
            self.services.set_recovery(CSI_PROXY_SERVICE, true);
            remove_upload(request);
            let end = End::good(Outcome::Unchanged, None);
            self.close(request, &end);
            return Ok(end);
        }
        if let Some(upload) = &request.upload {
            // Before anything is stopped: the program must not be writable, even for a moment, once it is in place.
            if observed.from_sha256.is_some() {
                acl::protect(upload, acl::PROGRAM)
                    .and_then(|()| files::flush(upload))
                    .context(format_args!("preparing {upload}"))?;
            }
        }
        make_log_folders(request)?;
        let there = observed.service;
        let now = Before {
            was_kept,
            sha256: observed.sha256,
            was_running: there.as_ref().is_some_and(|there| is_up(there.state)),
            service: there.map(|there| there.settings),
        };
        let mut journal = Journal {
            request: request.clone(),
            before: before_earlier.unwrap_or(now),
            end: None,
        };
        point("journal");
        store::save(JOURNAL_FILE, &journal)?;
        point("journal saved");
        self.change(&mut journal, &wanted, &steps)
    }

    fn change(
        &mut self,
        journal: &mut Journal,
        wanted: &Wanted,
        steps: &[Step],
    ) -> Result<End, Failure> {
        let limits = Limits::of(&journal.request);
        let brought = self.bring(wanted, steps, limits);
        let brought = brought.map_err(|stuck| stuck.failure);
        let confirmed = brought.and_then(|interruption| {
            journal.end = Some(End::good(Outcome::Applied, interruption));
            store::save(JOURNAL_FILE, &journal)
        });
        point("steps done");
        match confirmed {
            Ok(()) => self.commit(journal),
            // During a shutdown no service starts, so a failure says nothing about the new state. It is recorded at the next
            // start.
            Err(failure) if service::is_shutting_down() => {
                let message = format!(
                    "{failure}; Windows shuts down, and the previous state is restored at the next start"
                );
                log::line(format!("{}: {message}", journal.request.id));
                let failure = FailureCategory::Interrupted.failure(message);
                Ok(End::bad(Outcome::Failed, failure))
            }
            Err(failure) => Ok(self.give_up(journal, failure)),
        }
    }

    /// Ends a change whose new state works.
    fn commit(&mut self, journal: &Journal) -> Result<End, Failure> {
        if let Err(failure) = self.keep(&journal.request) {
            self.try_again_later();
            return Err(failure);
        }
        point("kept");
        self.services.set_recovery(CSI_PROXY_SERVICE, true);
        remove_upload(&journal.request);
        let end = journal.end.clone();
        let end = end.unwrap_or_else(|| End::good(Outcome::Applied, None));
        self.close(&journal.request, &end);
        Ok(end)
    }

    /// Ends a change of which a step failed.
    fn give_up(&mut self, journal: &mut Journal, why: Failure) -> End {
        let why = name_blocked(why, &journal.request);
        log::line(format!("{}: {:?}: {why}", journal.request.id, why.category));
        journal.end = Some(End::bad(Outcome::RolledBack, why));
        // If this fails, on a full disk for example, a crash from here on loses only the reason.
        log::unless_ok("saving the journal", store::save(JOURNAL_FILE, journal));
        point("reason saved");
        if journal.is_first() {
            return self.leave(journal);
        }
        match self.go_back(journal) {
            Ok(end) => {
                if end.outcome == Outcome::RolledBack {
                    remove_upload(&journal.request);
                }
                end
            }
            Err(failure) => {
                let end = stays_undone(journal, &failure);
                self.note(&journal.request, &end);
                end
            }
        }
    }

    /// Leaves the node as it is: nothing worked before. The keeper goes on trying.
    fn leave(&mut self, journal: &Journal) -> End {
        let kept = self.keep(&journal.request);
        self.services.set_recovery(CSI_PROXY_SERVICE, true);
        remove_upload(&journal.request);
        let end = journal.bad_end(Recovery::Leave, kept.err().map(|failure| failure.message));
        self.close(&journal.request, &end);
        end
    }

    /// Restores what was there before the change; if something is in the way, tries again later.
    fn go_back(&mut self, journal: &Journal) -> Result<End, Failure> {
        let problem = self.undo(journal).inspect_err(|failure| {
            let id = &journal.request.id;
            log::line(format!("{id}: rolling back is not finished: {failure}"));
        });
        if problem.is_err() {
            self.try_again_later();
        }
        let end = journal.bad_end(Recovery::Undo, problem?);
        point("undone");
        self.close(&journal.request, &end);
        Ok(end)
    }

    /// Records an end that is not the last one, unless it is known of this request.
    fn note_once(&mut self, request: &Request, end: &End) {
        let last = self.kept.memory.last_result.as_ref();
        let is_known = last.is_some_and(|last| {
            let same = (last.end.outcome, last.end.incomplete) == (end.outcome, end.incomplete);
            same && last.id == request.id
        });
        if !is_known {
            self.note(request, end);
        }
    }

    /// Restores what was there before; returns a problem that a repetition does not solve.
    fn undo(&mut self, journal: &Journal) -> Result<Option<String>, Failure> {
        log::line(format!("{}: going back", journal.request.id));
        let limits = Limits::of(&journal.request);
        let (current, set_aside) = (
            files::sha256(CSI_PROXY_EXE)?,
            files::sha256(CSI_PROXY_PREVIOUS)?,
        );
        let kept = self.kept.request.as_ref();
        let (mut wanted, lost) = Wanted::before(
            &journal.request,
            &journal.before,
            kept,
            current.as_deref(),
            set_aside.as_deref(),
        );
        let observed = observe(&self.services.scm, &wanted)?;
        if kept.is_none() && observed.service.is_none() {
            // Its owner has deleted it meanwhile.
            (wanted.service, wanted.runs) = (None, false);
        }
        let steps = plan(&wanted, &observed)?;
        let down = match self.bring(&wanted, &steps, limits) {
            Ok(_) => None,
            Err(Stuck { failure, step }) => {
                match step {
                    // A program that runs can be renamed. What does not stop goes on as it is, but what starts next is right.
                    Step::Stop => {
                        let in_place = |step: &Step| {
                            !matches!(step, Step::Stop | Step::Start | Step::AwaitPipes)
                        };
                        let rest: Vec<Step> = steps.into_iter().filter(in_place).collect();
                        self.bring(&wanted, &rest, limits)
                            .map_err(|stuck| stuck.failure)?;
                    }
                    Step::AwaitPipes => {}
                    // The keeper starts it again.
                    Step::Start if self.kept.request.is_some() => {}
                    Step::Start | Step::Replace { .. } | Step::Delete | Step::Configure(_) => {
                        return Err(failure);
                    }
                }
                Some(failure.message)
            }
        };
        self.services.set_recovery(CSI_PROXY_SERVICE, true);
        let problems: Vec<String> = lost.into_iter().chain(down).collect();
        Ok((!problems.is_empty()).then(|| problems.join("; ")))
    }

    /// Records the end, then removes the journal.
    fn close(&mut self, request: &Request, end: &End) {
        self.note(request, end);
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

    fn recover(&mut self) -> Result<(), Failure> {
        let journal = store::load_or_set_aside::<Journal>(JOURNAL_FILE);
        let Some(journal) = journal.inspect_err(|_| self.try_again_later())? else {
            self.again = None;
            return Ok(());
        };
        let recovery = journal.recovery();
        log::line(format!(
            "request {} was cut off: {recovery:?}",
            journal.request.id
        ));
        match recovery {
            Recovery::Commit => self.commit(&journal).map(drop).inspect_err(|failure| {
                let end = End::bad(Outcome::Failed, failure.clone());
                self.note_once(&journal.request, &end);
            }),
            Recovery::Undo => {
                let back = self.go_back(&journal).map(drop);
                back.inspect_err(|failure| {
                    self.note_once(&journal.request, &stays_undone(&journal, failure));
                })
            }
            Recovery::Leave => {
                let in_place = files::sha256(CSI_PROXY_EXE);
                let in_place = in_place.inspect_err(|_| self.try_again_later())?;
                // A program that is already in place is kept, or it would run and nobody would keep it running.
                if in_place.as_ref() == Some(&journal.request.sha256) {
                    self.leave(&journal);
                } else {
                    self.close(&journal.request, &journal.bad_end(recovery, None));
                }
                Ok(())
            }
        }
    }

    /// Settles an earlier change. If it cannot be rolled back for now, the next one starts from the current state, unless the
    /// earlier is confirmed. It goes back to what was there before the earlier one, which this returns.
    fn settle_earlier(&mut self) -> Result<Option<Before>, Failure> {
        let Err(failure) = self.recover() else {
            return Ok(None);
        };
        match store::load_or_set_aside::<Journal>(JOURNAL_FILE)? {
            Some(journal) if journal.is_confirmed() => Err(failure),
            journal => Ok(journal.map(|journal| journal.before)),
        }
    }

    /// Stores a request as the one that the agent enforces from now on.
    fn keep(&mut self, request: &Request) -> Result<(), Failure> {
        if self.kept.request.as_ref() != Some(request) {
            store::save(DESIRED_FILE, request)?;
            self.kept.request = Some(request.clone());
        }
        Ok(())
    }

    /// Records how a request ended.
    fn note(&mut self, request: &Request, end: &End) {
        let id = &request.id;
        let why = end.failure.as_ref();
        let why = why.map_or_else(String::new, |why| format!(": {:?}: {why}", why.category));
        log::line(format!("request {id}: {:?}{why}", end.outcome));
        let last = self.kept.memory.last_result.as_ref();
        // A repeated result is not worth a write: an operator may ask every minute.
        let is_good =
            |last: &LastResult| matches!(last.end.outcome, Outcome::Unchanged | Outcome::Applied);
        let is_same = last.is_some_and(|last| last.id == *id && is_good(last));
        if end.outcome == Outcome::Unchanged && is_same {
            return;
        }
        let failures = LastResult::failures_after(last, id, end.outcome);
        if let Some(event) = Event::of(end.outcome, failures) {
            events::report(event, &format!("Request {id}: {:?}{why}", end.outcome));
        }
        self.kept.memory.last_result = Some(LastResult {
            id: id.clone(),
            attempt: request.attempt.clone(),
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

/// Returns how a request ends whose rollback is in the way of something.
fn stays_undone(journal: &Journal, why: &Failure) -> End {
    journal.bad_end(Recovery::Undo, Some(format!("{why}; retrying")))
}

/// Adds the program to a failure that is about a blocked one.
fn name_blocked(failure: Failure, request: &Request) -> Failure {
    named(failure, [(CSI_PROXY_EXE, request.sha256.as_str())])
}

/// Puts a copy in the place of a csi-proxy.exe that nobody has brought: who had opened it for writing before it was protected
/// could still write into it, but not while it runs.
fn renew(sha256: &str) -> Result<(), Failure> {
    let processes = machine::processes(&[]).context("listing processes")?;
    let mut programs = processes.iter().map(|process| &process.program);
    if programs.any(|program| same_path(program, CSI_PROXY_EXE)) {
        return Ok(());
    }
    files::stage_program(CSI_PROXY_EXE, CSI_PROXY_EXE)
        .and_then(|copy| files::rename(&copy, CSI_PROXY_EXE))
        .context(format_args!("copying {CSI_PROXY_EXE}"))?;
    if files::sha256(CSI_PROXY_EXE)?.as_deref() == Some(sha256) {
        return Ok(());
    }
    let message = format!("{CSI_PROXY_EXE} was changed while it was looked at");
    Err(FailureCategory::BadUpload.failure(message))
}

fn make_log_folders(request: &Request) -> Result<(), Failure> {
    for folder in log_folders(&request.command()) {
        let doing = format!("making the log folder {folder}");
        if is_log_folder(folder) {
            // SYSTEM writes there under a well-known name.
            owners::check_logs_way(folder)?;
            let made = acl::make_folder(folder, acl::PROGRAM_FOLDER);
            made.context(&doing)?;
            owners::check_logs(folder)?;
        } else {
            std::fs::create_dir_all(folder).context(&doing)?;
        }
    }
    Ok(())
}

/// Removes the program that was uploaded for a request.
fn remove_upload(request: &Request) {
    if let Some(upload) = &request.upload {
        log::unless_ok(format_args!("removing {upload}"), files::remove(upload));
    }
}
