//! Carrying out a plan.

use std::time::{Duration, Instant};

use windows_storage_agent::command::log_folders;
use windows_storage_agent::errors::{failed_to, service_failed_to};
use windows_storage_agent::journal::{FileChange, Journal, Phase, Recovery, recover};
use windows_storage_agent::order::key;
use windows_storage_agent::paths::{DESIRED_FILE, JOURNAL_FILE, STATE_FILE};
use windows_storage_agent::plan::{Plan, Step, plan, settings};
use windows_storage_agent::protocol::{Failure, FailureCategory, Outcome, Request};
use windows_storage_agent::validate::validate;

use super::control::{self, Processes};
use super::observe::{Kept, observe};
use super::scm::Scm;
use super::{acl, files, log, store};

/// How a request ended.
pub struct Ending {
    /// How.
    pub outcome: Outcome,
    /// Why, if not well.
    pub failure: Option<Failure>,
    /// How long pipes were closed.
    pub interruption: Option<Duration>,
}

impl Ending {
    /// An end that is no success.
    pub fn bad(outcome: Outcome, failure: Failure) -> Self {
        Self {
            outcome,
            failure: Some(failure),
            interruption: None,
        }
    }
}

/// When pipes closed and opened.
#[derive(Default)]
struct Clock {
    closed: Option<Instant>,
    opened: Option<Instant>,
}

/// The means to change the node.
pub struct Worker {
    /// The Service Control Manager.
    pub scm: Scm,
    /// The processes of services.
    pub processes: Processes,
    /// What is on disk.
    pub kept: Kept,
}

impl Worker {
    /// Carries out a request, whole or not at all.
    pub fn carry_out(&mut self, request: &Request) -> Ending {
        self.try_carry_out(request)
            .unwrap_or_else(|failure| Ending::bad(Outcome::Failed, failure))
    }

    fn try_carry_out(&mut self, request: &Request) -> Result<Ending, Failure> {
        validate(request)?;
        if let Some(journal) = store::load::<Journal>(JOURNAL_FILE)? {
            self.recover(&journal)?;
        }
        let plan = plan(request, &observe(&self.scm, request, &self.kept)?)?;
        let mut clock = Clock::default();
        if !plan.changes_anything() {
            // There may still be pipes to wait for.
            self.carry_out_steps(request, &plan.steps, &mut clock)?;
            self.keep(request)?;
            remove_uploads(request);
            return Ok(Ending {
                outcome: Outcome::Unchanged,
                failure: None,
                interruption: None,
            });
        }
        for file in &plan.files {
            // Before anything is stopped: once it is in place it must not be writable for a moment.
            let doing = format!("preparing {}", file.upload);
            acl::protect(&file.upload, acl::PROGRAM)
                .and_then(|()| files::flush(&file.upload))
                .map_err(|error| failed_to(&doing, &error))?;
        }
        make_log_folders(request)?;
        let Plan {
            steps,
            files,
            services,
            first,
        } = plan;
        let mut journal = Journal {
            request: request.clone(),
            phase: Phase::Changing,
            first,
            files,
            services,
        };
        store::save(JOURNAL_FILE, &journal)?;
        match self.carry_out_steps(request, &steps, &mut clock) {
            Ok(()) => {
                journal.phase = Phase::Confirmed;
                store::save(JOURNAL_FILE, &journal)?;
                self.commit(&journal)?;
                let interruption = clock
                    .closed
                    .zip(clock.opened)
                    .map(|(closed, opened)| opened.saturating_duration_since(closed));
                Ok(Ending {
                    outcome: Outcome::Applied,
                    failure: None,
                    interruption,
                })
            }
            Err(failure) => Ok(self.give_up(&journal, failure)),
        }
    }

    /// After a step that failed.
    fn give_up(&mut self, journal: &Journal, mut why: Failure) -> Ending {
        log::line(format!(
            "{}: {:?}: {}",
            journal.request.id, why.category, why.message
        ));
        if journal.first {
            // Nothing worked before, so what is there now is the best there is: it is tried again and again.
            let left = self.commit(journal);
            if let Err(failure) = left {
                why.message = format!("{}; and {}", why.message, failure.message);
            }
            return Ending::bad(Outcome::Failed, why);
        }
        match self.undo(journal) {
            Ok(()) => {
                remove_uploads(&journal.request);
                Ending::bad(Outcome::RolledBack, why)
            }
            Err(failure) => {
                log::line(format!(
                    "{}: going back failed: {}",
                    journal.request.id, failure.message
                ));
                why.message = format!(
                    "{}; going back failed as well: {}",
                    why.message, failure.message
                );
                Ending::bad(Outcome::Failed, why)
            }
        }
    }

    /// Deals with a change that was cut off; says whether the node was put back.
    pub fn recover(&mut self, journal: &Journal) -> Result<Recovery, Failure> {
        let recovery = recover(journal);
        log::line(format!(
            "request {} was cut off: {recovery:?}",
            journal.request.id
        ));
        match recovery {
            Recovery::Commit => self.commit(journal)?,
            Recovery::Undo => self.undo(journal)?,
            Recovery::Leave => store::forget(JOURNAL_FILE)?,
        }
        Ok(recovery)
    }

    fn commit(&mut self, journal: &Journal) -> Result<(), Failure> {
        self.keep(&journal.request)?;
        for change in &journal.services {
            self.set_recovery(&change.name);
        }
        remove_uploads(&journal.request);
        store::forget(JOURNAL_FILE)
    }

    /// Keeps the node to a request from now on.
    fn keep(&mut self, request: &Request) -> Result<(), Failure> {
        let names: Vec<String> = request
            .services
            .iter()
            .map(|service| service.name.clone())
            .collect();
        if self.kept.memory.ours != names {
            self.kept.memory.ours = names;
            store::save(STATE_FILE, &self.kept.memory)?;
        }
        if self.kept.request.as_ref() != Some(request) {
            store::save(DESIRED_FILE, request)?;
            self.kept.request = Some(request.clone());
        }
        Ok(())
    }

    fn carry_out_steps(
        &mut self,
        request: &Request,
        steps: &[Step],
        clock: &mut Clock,
    ) -> Result<(), Failure> {
        let stop_timeout = seconds(request.stop_timeout_seconds);
        let start_timeout = seconds(request.start_timeout_seconds);
        let mut deadline = Instant::now() + start_timeout;
        for step in steps {
            log::line(format!("{}: {}", request.id, describe(step)));
            match step {
                Step::Stop(name) => {
                    let gone = control::stop(
                        &self.scm,
                        &mut self.processes,
                        name,
                        &pipes_of(request, name),
                        stop_timeout,
                    )?;
                    clock.closed = clock.closed.or(gone);
                }
                Step::Delete(name) => self.delete(name)?,
                Step::Replace(file) => replace(file)?,
                Step::Configure(service) => self.configure(&service.name, &settings(service))?,
                Step::Start(name) => {
                    control::await_pipes_free(
                        &mut self.processes,
                        name,
                        &pipes_of(request, name),
                        Instant::now() + stop_timeout,
                    )?;
                    deadline = Instant::now() + start_timeout;
                    control::start(&self.scm, &mut self.processes, name, deadline)?;
                    clock.opened = Some(Instant::now());
                }
                Step::AwaitPipes(pipes) => {
                    control::await_pipes(
                        &self.scm,
                        &mut self.processes,
                        &pipes.service,
                        &pipes.pipes,
                        deadline,
                    )?;
                    clock.opened = Some(Instant::now());
                }
            }
        }
        Ok(())
    }

    pub(super) fn configure(
        &self,
        name: &str,
        settings: &windows_storage_agent::journal::ServiceSettings,
    ) -> Result<(), Failure> {
        let failed = |error| {
            service_failed_to(
                &format!("configuring service {name}"),
                &error,
                FailureCategory::ServiceStart,
            )
        };
        self.scm.configure(name, settings).map(drop).map_err(failed)
    }

    pub(super) fn delete(&self, name: &str) -> Result<(), Failure> {
        let failed = |error| {
            service_failed_to(
                &format!("deleting service {name}"),
                &error,
                FailureCategory::ServiceStop,
            )
        };
        match self.scm.open_to_change(name).map_err(failed)? {
            Some(service) => service.delete().map_err(failed),
            None => Ok(()),
        }
    }

    /// Lets Windows restart the service as well; where it refuses, the keeper alone does it.
    pub(super) fn set_recovery(&self, name: &str) {
        let set = self
            .scm
            .open_to_change(name)
            .and_then(|service| service.map_or(Ok(()), |service| service.set_recovery(true)));
        if let Err(error) = set {
            log::line(format!(
                "setting what Windows does when {name} crashes: {error}"
            ));
        }
    }
}

/// The pipes of a service of a request.
pub fn pipes_of(request: &Request, service: &str) -> Vec<String> {
    request
        .pipes
        .iter()
        .filter(|pipes| key(&pipes.service) == key(service))
        .flat_map(|pipes| pipes.pipes.clone())
        .collect()
}

/// A number of seconds as a duration.
pub fn seconds(number: u32) -> Duration {
    Duration::from_secs(u64::from(number))
}

fn replace(file: &FileChange) -> Result<(), Failure> {
    let doing = format!("replacing {}", file.path);
    if file.previous_sha256.is_some() {
        files::rename(&file.path, &file.previous_path())
            .map_err(|error| failed_to(&doing, &error))?;
    }
    files::rename(&file.upload, &file.path).map_err(|error| failed_to(&doing, &error))
}

fn make_log_folders(request: &Request) -> Result<(), Failure> {
    for folder in request
        .services
        .iter()
        .flat_map(|service| log_folders(&service.path))
    {
        std::fs::create_dir_all(folder)
            .map_err(|error| failed_to(&format!("making the log folder {folder}"), &error))?;
    }
    Ok(())
}

fn remove_uploads(request: &Request) {
    for upload in request.files.iter().filter_map(|file| file.upload.as_ref()) {
        if let Err(error) = files::remove(upload) {
            log::line(format!("removing {upload}: {error}"));
        }
    }
}

fn describe(step: &Step) -> String {
    match step {
        Step::Stop(name) => format!("stop service {name}"),
        Step::Delete(name) => format!("delete service {name}"),
        Step::Replace(file) => format!(
            "replace {}, now {}, by {}",
            file.path,
            file.previous_sha256.as_deref().unwrap_or("absent"),
            file.sha256
        ),
        Step::Configure(service) => {
            format!("configure service {} as: {}", service.name, service.path)
        }
        Step::Start(name) => format!("start service {name}"),
        Step::AwaitPipes(pipes) => {
            format!("wait for {} pipes of {}", pipes.pipes.len(), pipes.service)
        }
    }
}
