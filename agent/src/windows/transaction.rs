//! Carrying out a request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use protocol::command::log_folders;
use protocol::order::key;
use protocol::paths::JOURNAL_FILE;
use protocol::validate::validate;
use protocol::{Failure, Outcome, Request};
use windows_storage_agent::durations::{Clock, Part};
use windows_storage_agent::errors::failed_to;
use windows_storage_agent::interruption::Interruption;
use windows_storage_agent::journal::{End, FileChange, Journal, Phase, ServiceSettings};
use windows_storage_agent::keep::delay;
use windows_storage_agent::owners::is_log_folder;
use windows_storage_agent::plan::{Plan, Step, plan, settings};
use windows_storage_agent::scripts::{commands, resolved};

use super::control::{self, Processes};
use super::fault::point;
use super::observe::{Kept, observe};
use super::scm::Scm;
use super::{acl, files, log, owners, powershell, store};

/// The means to change the node.
pub struct Worker {
    /// The Service Control Manager.
    pub scm: Scm,
    /// The processes of services.
    pub processes: Processes,
    /// What is on disk.
    pub kept: Kept,
    /// When to try again what could not be finished.
    pub again: Option<Again>,
    /// How long the parts of the request in hand take.
    pub clock: Clock,
}

/// A next attempt.
pub struct Again {
    /// When it is due.
    pub due: Instant,
    /// How many there were.
    pub attempts: u32,
}

impl Worker {
    /// Carries out a request, whole or not at all.
    pub fn carry_out(&mut self, request: &Request) -> End {
        self.try_carry_out(request).unwrap_or_else(|failure| {
            let end = End::bad(Outcome::Failed, failure);
            self.note(&request.id, &end);
            end
        })
    }

    fn try_carry_out(&mut self, request: &Request) -> Result<End, Failure> {
        validate(request)?;
        self.settle_earlier()?;
        let commands = commands(request, powershell::run)?;
        let wanted = resolved(request, &commands);
        validate(&wanted)?;
        let plan = plan(&wanted, &observe(&self.scm, &wanted, &self.kept)?)?;
        if plan.changes_anything() {
            return self.change(request, commands, &wanted, plan);
        }
        self.ended(Part::Prepare);
        // There may still be pipes to wait for.
        self.carry_out_steps(&wanted, &plan.steps, &mut Interruption::default())?;
        self.keep(request, &commands)?;
        remove_uploads(request);
        let end = End::good(Outcome::Unchanged, None);
        self.note(&request.id, &end);
        Ok(end)
    }

    /// Carries the kept request out again where its scripts say something else than before. A script that does not work
    /// now leaves what it said then.
    pub fn follow_scripts(&mut self, request: &Request) {
        match commands(request, powershell::run) {
            Ok(commands) if commands == self.kept.memory.commands => {}
            Ok(_) => {
                log::line(format!(
                    "request {}: its scripts say something else now",
                    request.id
                ));
                self.carry_out(request);
            }
            Err(failure) => log::line(failure.message),
        }
    }

    fn change(
        &mut self,
        request: &Request,
        commands: BTreeMap<String, String>,
        wanted: &Request,
        plan: Plan,
    ) -> Result<End, Failure> {
        for file in &plan.files {
            // Before anything is stopped: once it is in place it must not be writable for a moment.
            let doing = format!("preparing {}", file.upload);
            acl::protect(&file.upload, acl::PROGRAM)
                .and_then(|()| files::flush(&file.upload))
                .map_err(|error| failed_to(&doing, &error))?;
        }
        make_log_folders(wanted)?;
        let Plan {
            steps,
            files,
            services,
            dependents,
            first,
        } = plan;
        let mut journal = Journal {
            request: request.clone(),
            phase: Phase::Changing,
            first,
            files,
            services,
            dependents,
            commands,
            end: None,
        };
        point("journal");
        store::save(JOURNAL_FILE, &journal)?;
        point("journal saved");
        self.ended(Part::Prepare);
        let mut interruption = Interruption::default();
        let confirmed = self
            .carry_out_steps(wanted, &steps, &mut interruption)
            .and_then(|()| {
                journal.phase = Phase::Confirmed;
                journal.end = Some(End::good(Outcome::Applied, interruption.milliseconds()));
                store::save(JOURNAL_FILE, &journal)
            });
        point("steps done");
        match confirmed {
            Ok(()) => self.commit(&journal),
            Err(failure) => {
                journal.phase = Phase::Changing;
                Ok(self.give_up(&mut journal, failure))
            }
        }
    }

    fn carry_out_steps(
        &mut self,
        request: &Request,
        steps: &[Step],
        interruption: &mut Interruption,
    ) -> Result<(), Failure> {
        let stop_timeout = seconds(request.stop_timeout_seconds);
        let start_timeout = seconds(request.start_timeout_seconds);
        let mut deadline = Instant::now() + start_timeout;
        for step in steps {
            let doing = describe(step);
            log::line(format!("{}: {doing}", request.id));
            match step {
                Step::Pause(name) => {
                    control::stop(&self.scm, &mut self.processes, name, &[], stop_timeout)?;
                }
                Step::Stop(name) => {
                    let pipes = pipes_of(request, name);
                    let gone = self.stop(name, &pipes, stop_timeout)?;
                    interruption.ended(&pipes, gone);
                }
                Step::Delete(name) => self.delete(name)?,
                Step::Replace(file) => replace(file)?,
                Step::Configure(service) => {
                    self.configure(&service.name, &settings(request, service), stop_timeout)?;
                }
                Step::Start(name) => {
                    let pipes = pipes_of(request, name);
                    let free_by = Instant::now() + stop_timeout;
                    control::await_pipes_free(&mut self.processes, name, &pipes, free_by)?;
                    deadline = Instant::now() + start_timeout;
                    control::start(&self.scm, &mut self.processes, name, deadline)?;
                }
                Step::AwaitPipes(pipes) => {
                    control::await_pipes(
                        &self.scm,
                        &mut self.processes,
                        &pipes.service,
                        &pipes.pipes,
                        deadline,
                    )?;
                    interruption.opened(&pipes.pipes, Instant::now());
                }
                Step::Resume(name) => self.resume(name, start_timeout),
            }
            self.ended(part(step));
            point(&doing);
        }
        Ok(())
    }

    /// What was done since the last call belongs to this part of the request.
    pub(super) fn ended(&mut self, part: Part) {
        self.clock.ended(part, Instant::now());
    }

    /// Starts a service of somebody else's again. Where it does not start, ours is not to suffer for it.
    pub(super) fn resume(&mut self, name: &str, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        if let Err(failure) = control::start(&self.scm, &mut self.processes, name, deadline) {
            log::line(format!(
                "service {name}, which was stopped for this change: {}",
                failure.message
            ));
        }
    }

    /// Stops a service of ours. Windows must not start it again behind our back.
    pub(super) fn stop(
        &mut self,
        name: &str,
        pipes: &[String],
        timeout: Duration,
    ) -> Result<Option<Instant>, Failure> {
        self.set_recovery(name, false);
        control::stop(&self.scm, &mut self.processes, name, pipes, timeout)
    }

    /// Makes or changes a service; one that is about to be deleted may take this long to go.
    pub(super) fn configure(
        &self,
        name: &str,
        settings: &ServiceSettings,
        patience: Duration,
    ) -> Result<(), Failure> {
        control::configure(&self.scm, name, settings, Instant::now() + patience)
    }

    pub(super) fn delete(&self, name: &str) -> Result<(), Failure> {
        control::delete(&self.scm, name)
    }

    /// Lets Windows restart the service as well, or not; where it refuses, the keeper alone does it.
    pub(super) fn set_recovery(&self, name: &str, on: bool) {
        let set = self
            .scm
            .open_to_change(name)
            .and_then(|service| service.map_or(Ok(()), |service| service.set_recovery(on)));
        if let Err(error) = set {
            log::line(format!(
                "setting what Windows does when {name} crashes: {error}"
            ));
        }
    }

    /// Tries again later what could not be finished now.
    pub(super) fn try_again_later(&mut self) {
        let attempts = self.again.as_ref().map_or(0, |again| again.attempts + 1);
        self.again = Some(Again {
            due: Instant::now() + delay(attempts),
            attempts,
        });
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
        point("old file set aside");
    }
    files::rename(&file.upload, &file.path).map_err(|error| failed_to(&doing, &error))
}

fn make_log_folders(request: &Request) -> Result<(), Failure> {
    for folder in request
        .services
        .iter()
        .flat_map(|service| log_folders(&service.path))
    {
        let made = if is_log_folder(folder) {
            // SYSTEM writes there under a name that everybody knows.
            owners::check_way(folder)?;
            acl::make_folder(folder, acl::PROGRAM_FOLDER)
        } else {
            std::fs::create_dir_all(folder)
        };
        made.map_err(|error| failed_to(&format!("making the log folder {folder}"), &error))?;
    }
    Ok(())
}

/// Removes what was brought for a request.
pub fn remove_uploads(request: &Request) {
    for upload in request.files.iter().filter_map(|file| file.upload.as_ref()) {
        if let Err(error) = files::remove(upload) {
            log::line(format!("removing {upload}: {error}"));
        }
    }
}

fn part(step: &Step) -> Part {
    match step {
        Step::Pause(_) | Step::Stop(_) => Part::Stop,
        Step::Delete(_) | Step::Replace(_) | Step::Configure(_) => Part::Install,
        Step::Start(_) | Step::Resume(_) => Part::Start,
        Step::AwaitPipes(_) => Part::Pipes,
    }
}

fn describe(step: &Step) -> String {
    match step {
        Step::Pause(name) => format!("stop service {name} of somebody else"),
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
        Step::Resume(name) => format!("start service {name} of somebody else again"),
    }
}
