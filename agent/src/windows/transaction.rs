//! Carries out a request as a transaction.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use protocol::command::{log_folders, program, same_path};
use protocol::order::same_name;
use protocol::paths::JOURNAL_FILE;
use protocol::validate::validate;
use protocol::{End, Failure, FailureCategory, Outcome, Request, parts};
use windows_storage_agent::errors::Context;
use windows_storage_agent::journal::{FileChange, Journal, Phase};
use windows_storage_agent::owners::is_log_folder;
use windows_storage_agent::plan::{Plan, Step, plan, settings};
use windows_storage_agent::scripts::{commands, resolved};

use super::engine::Engine;
use super::finish::name_blocked;
use super::observe::observe;
use super::{acl, answers, files, log, owners, point, powershell, service, store};

impl Engine {
    /// Carries out a request, completely or not at all.
    pub fn carry_out(&mut self, request: &Request) -> End {
        self.try_carry_out(request).unwrap_or_else(|failure| {
            let end = End::bad(Outcome::Failed, name_blocked(failure, request));
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
        let observed = observe(&self.services.scm, &wanted, &self.kept)?;
        let plan = plan(&wanted, &observed)?;
        check_what_runs(&wanted)?;
        if plan.changes_anything() {
            return self.change(request, commands, &wanted, plan);
        }
        self.ended(parts::PREPARE);
        // Pipes may still not answer.
        self.carry_out_steps(&wanted, &plan.steps)?;
        self.keep(request, &commands)?;
        remove_uploads(request);
        let end = End::good(Outcome::Unchanged, None);
        self.note(&request.id, &end);
        Ok(end)
    }

    /// Carries out the stored request again if its scripts print something else than before. Their output, such as the
    /// node's address, may differ after a reboot. If a script fails now, its earlier output stays in use.
    pub fn follow_scripts(&mut self) {
        let Some(request) = self.kept.request.clone() else {
            return;
        };
        let mut services = request.services.iter();
        let has_scripts = services.any(|service| !service.powershell_pre_scripts.is_empty());
        if !has_scripts || self.again.is_some() {
            return;
        }
        match commands(&request, powershell::run) {
            Ok(commands) if commands == self.kept.memory.commands => {}
            Ok(_) => {
                let id = &request.id;
                log::line(format!(
                    "request {id}: its scripts print something else now"
                ));
                self.carry_out(&request);
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
        for file in &plan.change.files {
            // Before anything is stopped: the program must not be writable, even for a moment, once it is in place.
            acl::protect(&file.upload, acl::PROGRAM)
                .and_then(|()| files::flush(&file.upload))
                .context(format_args!("preparing {}", file.upload))?;
        }
        make_log_folders(wanted)?;
        let mut journal = Journal {
            request: request.clone(),
            phase: Phase::Changing,
            change: plan.change,
            commands,
            end: None,
        };
        point("journal");
        store::save(JOURNAL_FILE, &journal)?;
        point("journal saved");
        self.ended(parts::PREPARE);
        let confirmed = self.carry_out_steps(wanted, &plan.steps).and_then(|()| {
            journal.phase = Phase::Confirmed;
            journal.end = Some(End::good(Outcome::Applied, self.clock.interruption()));
            store::save(JOURNAL_FILE, &journal)
        });
        point("steps done");
        match confirmed {
            Ok(()) => self.commit(&journal),
            // During a shutdown no service starts, so a failure says nothing about the new state. It is recorded at the next
            // start.
            Err(failure) if service::is_shutting_down() => {
                let message = format!(
                    "{failure}; Windows shuts down, and the previous state is restored at the next start"
                );
                log::line(format!("{}: {message}", request.id));
                let failure = FailureCategory::Interrupted.failure(message);
                Ok(End::bad(Outcome::Failed, failure))
            }
            Err(failure) => {
                journal.phase = Phase::Changing;
                Ok(self.give_up(&mut journal, failure))
            }
        }
    }

    fn carry_out_steps(&mut self, request: &Request, steps: &[Step]) -> Result<(), Failure> {
        let stop_timeout = Duration::from_secs(request.stop_timeout_seconds.into());
        let start_timeout = Duration::from_secs(request.start_timeout_seconds.into());
        let mut deadline = Instant::now() + start_timeout;
        for step in steps {
            log::line(format!("{}: {step}", request.id));
            match step {
                Step::Pause(name) => drop(self.services.stop(name, &[], stop_timeout)?),
                Step::Stop(name) => {
                    let pipes = pipes_of(request, name);
                    let gone = self.stop(name, &pipes, stop_timeout)?;
                    self.clock.pipes_closed(&pipes, gone);
                }
                Step::Delete(name) => self.services.delete(name)?,
                Step::Replace(file) => replace(file)?,
                Step::Configure(service) => {
                    let settings = settings(request, service);
                    self.services
                        .configure(&service.name, &settings, stop_timeout)?;
                }
                Step::Start(name) => {
                    let pipes = pipes_of(request, name);
                    answers::await_free(name, &pipes, stop_timeout)?;
                    deadline = Instant::now() + start_timeout;
                    self.services.start(name, deadline)?;
                }
                Step::AwaitPipes(of) => {
                    self.services
                        .await_pipes(&of.service, &of.pipes, deadline)?;
                    self.clock.pipes_opened(&of.pipes, Instant::now());
                }
                Step::Resume(name) => self.resume(name, start_timeout),
            }
            self.ended(part_of(step));
            point(&step.to_string());
        }
        Ok(())
    }

    /// Adds the time since the last call to this part of the request.
    pub(super) fn ended(&mut self, part: &str) {
        self.beat();
        self.clock.ended(part, Instant::now());
    }

    /// Starts a foreign service again. A failure is only logged: it must not affect the agent's own services.
    pub(super) fn resume(&mut self, name: &str, timeout: Duration) {
        let started = self.services.start(name, Instant::now() + timeout);
        let doing = format_args!("service {name}, which was stopped for this change");
        log::unless_ok(doing, started);
    }

    /// Stops one of the agent's services, and keeps Windows from restarting it.
    pub(super) fn stop(
        &mut self,
        name: &str,
        pipes: &[String],
        timeout: Duration,
    ) -> Result<Option<Instant>, Failure> {
        self.services.set_recovery(name, false);
        self.services.stop(name, pipes, timeout)
    }
}

/// Returns the pipes of one of a request's services.
pub fn pipes_of(request: &Request, service: &str) -> Vec<String> {
    let of = request.pipes.iter();
    of.filter(|pipes| same_name(&pipes.service, service))
        .flat_map(|pipes| pipes.pipes.clone())
        .collect()
}

fn replace(file: &FileChange) -> Result<(), Failure> {
    let doing = format!("replacing {}", file.path);
    if file.previous_sha256.is_some() {
        files::rename(&file.path, &file.previous_path()).context(&doing)?;
        point("old file set aside");
    }
    files::rename(&file.upload, &file.path).context(&doing)
}

/// Refuses services whose programs accounts other than administrators could change. The request's own files are protected
/// first.
fn check_what_runs(request: &Request) -> Result<(), Failure> {
    for file in &request.files {
        files::protect_program(&file.path)?;
    }
    let services = request.services.iter();
    for path in services.filter_map(|service| program(&service.path)) {
        let is_brought = request.files.iter().any(|file| same_path(&file.path, path));
        // An account that could put the program there later would have SYSTEM run it.
        if !is_brought && !fs::exists(path).context(format_args!("looking for {path}"))? {
            let message = format!("{path}, which a service of the document runs, is not there");
            return Err(FailureCategory::ServiceStart.failure(message));
        }
        owners::check_program(path)?;
    }
    Ok(())
}

fn make_log_folders(request: &Request) -> Result<(), Failure> {
    let services = request.services.iter();
    for folder in services.flat_map(|service| log_folders(&service.path)) {
        let doing = format!("making the log folder {folder}");
        if is_log_folder(folder) {
            // SYSTEM writes there under a well-known name.
            owners::check_way(folder)?;
            let made = acl::make_folder(folder, acl::PROGRAM_FOLDER);
            made.context(&doing)?;
            owners::check_logs(folder)?;
        } else {
            std::fs::create_dir_all(folder).context(&doing)?;
        }
    }
    Ok(())
}

/// Removes the files that were uploaded for a request.
pub fn remove_uploads(request: &Request) {
    for upload in request.files.iter().filter_map(|file| file.upload.as_ref()) {
        log::unless_ok(format_args!("removing {upload}"), files::remove(upload));
    }
}

fn part_of(step: &Step) -> &'static str {
    match step {
        Step::Pause(_) | Step::Stop(_) => parts::STOP,
        Step::Delete(_) | Step::Replace(_) | Step::Configure(_) => parts::INSTALL,
        Step::Start(_) | Step::Resume(_) => parts::START,
        Step::AwaitPipes(_) => parts::PIPES,
    }
}
