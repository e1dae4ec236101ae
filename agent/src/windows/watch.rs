//! Keeps the services of the stored request running and configured as requested.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use protocol::command::program;
use protocol::document::Service;
use protocol::order::{key, start_order};
use protocol::seen::{contains, dependents};
use protocol::{Failing, Failure, Request, ServiceState};
use windows_storage_agent::errors::Context;
use windows_storage_agent::keep::{Action, Backoff, Health, Keeper, Limits};
use windows_storage_agent::plan::settings;
use windows_storage_agent::probe::Problem;
use windows_sys::Win32::Foundation::ERROR_SERVICE_NEVER_STARTED;

use super::engine::Engine;
use super::scm::{OpenService, Status};
use super::services::Held;
use super::transaction::pipes_of;
use super::{log, machine, pipes, probe};

/// How often the configuration of a running service is compared.
const COMPARE: Duration = Duration::from_secs(5);
/// A service is contested if its configuration changes again within this time after the agent changed it back.
const CONTEST: Duration = Duration::from_secs(3600);
/// How often the pipes of a running service are probed.
const ASK: Duration = Duration::from_secs(60);
const CONTESTED: &str = "its configuration was changed again after the agent had changed it back: another program manages it, so the agent no longer does";
const MARKED: &str = "it is marked for deletion and goes only when it has stopped and every program that has it open, such as the Services console, has closed it; it is recreated then";

/// What the engine remembers about one service.
#[derive(Default)]
pub struct Watched {
    keeper: Keeper,
    process: Option<u32>,
    /// The process at the time when the configuration was last correct.
    right_process: Option<u32>,
    compared: Option<Instant>,
    /// When the service last answered on all its pipes.
    answered: Option<Instant>,
    /// When its configuration was last changed back.
    changed_back: Option<Instant>,
    /// When to retry the start of dependents that were stopped with the service.
    resume_again: Backoff,
    /// The last report: the number of attempts, and the state in which the service is stuck.
    reported: Option<(u32, Option<Health>)>,
}

/// The state of a service, and what is wrong with it.
type Checked = (Health, Option<String>);

fn wrong(health: Health, why: impl Into<String>) -> Checked {
    (health, Some(why.into()))
}

/// Describes why a service stopped, given its exit code.
fn why_stopped(exit_code: u32) -> String {
    match exit_code {
        0 => "it was stopped, by another program or by an administrator".to_owned(),
        ERROR_SERVICE_NEVER_STARTED => "it has not been started since Windows was".to_owned(),
        code => format!("it ended with exit code {code}"),
    }
}

impl Engine {
    /// Repairs services of the stored request that do not run as they should; returns whether all are up.
    pub(super) fn keep_services(&mut self) -> bool {
        let Some(request) = self.kept.carried_out() else {
            return true;
        };
        let order = start_order(&request.services).unwrap_or_default();
        let limits = Limits {
            stop: Duration::from_secs(request.stop_timeout_seconds.into()),
            start: Duration::from_secs(request.start_timeout_seconds.into()),
        };
        let before = self.kept.memory.clone();
        let mut well = true;
        for service in &order {
            self.beat();
            let (health, mut why) = self.check(&request, service);
            well &= matches!(health, Health::Up | Health::Contested);
            if health == Health::Up {
                self.resume_dependents(service, limits);
            }
            let keeper = &mut self.watched(service).keeper;
            let action = keeper.check(health, Instant::now(), limits);
            if let Err(error) = self.act(&request, service, action, limits) {
                self.watched(service).keeper.attempt_failed();
                why = Some(error);
            }
            self.report(service, health, why);
        }
        let is_kept = |name: &String| order.iter().any(|service| key(&service.name) == *name);
        self.kept.memory.failing.retain(|name, _| is_kept(name));
        if self.kept.memory != before {
            self.save_memory();
        }
        well
    }

    fn watched(&mut self, service: &Service) -> &mut Watched {
        self.watched.entry(key(&service.name)).or_default()
    }

    fn check(&mut self, request: &Request, service: &Service) -> Checked {
        let name = &service.name;
        if self.kept.memory.contested.contains(&key(name)) {
            return wrong(Health::Contested, CONTESTED);
        }
        let status = match self.services.scm.status(name) {
            Ok(Some(status)) => status,
            Ok(None) if self.is_marked(name) => return wrong(Health::Marked, MARKED),
            Ok(None) => return wrong(Health::Missing, "it was deleted"),
            Err(error) => {
                let why = format!("it cannot be checked: {error}");
                return wrong(Health::Starting, why);
            }
        };
        let gone = self.services.hold(name, status.process_id) == Held::Gone;
        match status.state {
            ServiceState::Running if gone => wrong(Health::Dead, "its process ended"),
            ServiceState::Running => self.check_running(request, service, &status),
            ServiceState::Paused => (Health::Up, None),
            ServiceState::StartPending => wrong(Health::Starting, "it stays starting"),
            ServiceState::StopPending => (Health::Stopping, None),
            _ => self.check_stopped(request, service, &status),
        }
    }

    fn check_running(&mut self, request: &Request, service: &Service, status: &Status) -> Checked {
        self.note_process(service, status.process_id);
        let compared = self.watched(service).compared;
        if compared.is_none_or(|compared| compared.elapsed() >= COMPARE) {
            if self.is_marked(&service.name) {
                return wrong(Health::Marked, MARKED);
            }
            if !self.is_configured(request, service) {
                return wrong(Health::Changed, "its configuration was changed");
            }
            let watched = self.watched(service);
            watched.compared = Some(Instant::now());
            watched.right_process = status.process_id;
        }
        let pipes = pipes_of(request, &service.name);
        let mut closed = pipes.clone();
        closed.retain(|pipe| !pipes::is_open(pipe));
        if !closed.is_empty() {
            self.watched(service).answered = None;
            let why = format!("it runs, but pipes are closed: {}", closed.join(", "));
            return wrong(Health::Mute, why);
        }
        self.check_answers(service, &pipes, status)
    }

    /// Probes the pipes once after each start, and then from time to time: an open pipe proves nothing, but a probe costs
    /// more than checking the name.
    fn check_answers(&mut self, service: &Service, pipes: &[String], status: &Status) -> Checked {
        let answered = self.watched(service).answered;
        if answered.is_some_and(|answered| answered.elapsed() < ASK) {
            return (Health::Up, None);
        }
        let problem = probe::first_problem(pipes, status.process_id);
        let problem = problem.unwrap_or_else(|failure| {
            log::line(failure.message);
            None
        });
        self.watched(service).answered = problem.is_none().then(Instant::now);
        let Some((pipe, problem)) = problem else {
            return (Health::Up, None);
        };
        let health = match problem {
            Problem::Intruder(_) => Health::Held,
            Problem::Closed | Problem::Held | Problem::Silent => Health::Mute,
        };
        wrong(health, format!("it runs, but pipe {pipe}: {problem}"))
    }

    fn check_stopped(&mut self, request: &Request, service: &Service, status: &Status) -> Checked {
        let name = &service.name;
        let pipes = pipes_of(request, name);
        if !self.services.check_alive(name) && pipes.iter().any(|pipe| pipes::is_open(pipe)) {
            let own = program(&service.path).unwrap_or_default();
            if let Some((pipe, problem)) = self.services.hold_server(name, own, &pipes)
                && problem != Problem::Closed
            {
                let why = format!("it cannot start, for pipe {pipe}: {problem}");
                return wrong(Health::Held, why);
            }
        }
        if self.services.check_alive(name) {
            (Health::Lingering, None)
        } else if self.is_marked(name) {
            wrong(Health::Marked, MARKED)
        } else {
            wrong(Health::Down, why_stopped(status.exit_code))
        }
    }

    fn is_marked(&self, name: &str) -> bool {
        let marked = self.services.scm.is_marked_for_deletion(name);
        marked.unwrap_or(false)
    }

    fn is_configured(&self, request: &Request, service: &Service) -> bool {
        let now = self.services.scm.settings(&service.name);
        // A configuration that cannot be read is not treated as wrong.
        now.map_or(true, |now| now == Some(settings(request, service)))
    }

    /// Whether the service is there with another configuration. One that was deleted since it was checked is not: it is only
    /// missing. One that is marked for deletion is disabled by Windows itself.
    fn is_changed(&self, request: &Request, service: &Service) -> bool {
        let now = self.services.scm.settings(&service.name);
        let is_other = matches!(now, Ok(Some(now)) if now != settings(request, service));
        is_other && !self.is_marked(&service.name)
    }

    /// Counts restarts by others, such as by Windows after a crash.
    fn note_process(&mut self, service: &Service, process: Option<u32>) {
        let name = &service.name;
        let watched = self.watched(service);
        let before = std::mem::replace(&mut watched.process, process);
        if before.is_some() && before != process {
            watched.keeper.restarted_by_others();
            watched.compared = None;
            watched.answered = None;
            self.count_restart(name);
            log::line(format!(
                "service {name} was started again by Windows or another program"
            ));
        }
    }

    fn count_restart(&mut self, name: &str) {
        let restarts = &mut self.kept.memory.restarts;
        *restarts.entry(key(name)).or_default() += 1;
    }

    /// Logs what is wrong with a service and shows it in the status, once per attempt.
    fn report(&mut self, service: &Service, health: Health, why: Option<String>) {
        let name = &service.name;
        let watched = self.watched(service);
        let stuck = matches!(health, Health::Held | Health::Contested | Health::Marked);
        let stuck = stuck.then_some(health);
        let failing = watched.keeper.failing();
        let report = failing.map(|(attempts, _)| (attempts, stuck));
        let is_same = std::mem::replace(&mut watched.reported, report) == report;
        let shown = &mut self.kept.memory.failing;
        if is_same && shown.contains_key(&key(name)) == failing.is_some() {
            return;
        }
        let Some((attempts, retry)) = failing else {
            log::line(format!("service {name} is running correctly again"));
            shown.remove(&key(name));
            return;
        };
        let message = why.unwrap_or_else(|| "it does not stay up".to_owned());
        log::line(format!("service {name}: {message}"));
        let failing = Failing {
            attempts,
            retry_seconds: u32::try_from(retry.as_secs()).unwrap_or(u32::MAX),
            message,
        };
        shown.insert(key(name), failing);
    }

    fn act(
        &mut self,
        request: &Request,
        service: &Service,
        action: Action,
        limits: Limits,
    ) -> Result<(), String> {
        let name = &service.name;
        let (why, stop_first) = match action {
            Action::Nothing => return Ok(()),
            Action::EndProcess => return self.end_process(name),
            Action::Create => ("is missing; it is recreated", false),
            Action::Start => ("does not run; it is started", false),
            Action::Mend => {
                let watched = self.watched(service);
                let why = "was changed in its configuration; it is changed back";
                (why, watched.process != watched.right_process)
            }
            Action::Restart => ("does not open its pipes; it is started again", true),
        };
        let is_changed = self.is_changed(request, service);
        let changed_back = self.watched(service).changed_back;
        if is_changed && changed_back.is_some_and(|at| at.elapsed() < CONTEST) {
            self.kept.memory.contested.insert(key(name));
            return Err(CONTESTED.to_owned());
        }
        log::line(format!("service {name} {why}"));
        if stop_first {
            let stopped = self.stop_with_dependents(request, service, limits);
            stopped.map_err(|failure| failure.message)?;
        }
        if !self.is_configured(request, service) {
            // Windows keeps a deleted service until every program has closed it. This does not wait for that: the keeper
            // tries again.
            let wanted = settings(request, service);
            let configured = self.services.configure(name, &wanted, Duration::ZERO);
            configured.map_err(|failure| failure.message)?;
            if is_changed {
                self.watched(service).changed_back = Some(Instant::now());
            }
        }
        self.services.set_recovery(name, true);
        if action == Action::Mend && !stop_first {
            return Ok(());
        }
        let watched = self.watched(service);
        (watched.process, watched.answered) = (None, None);
        self.count_restart(name);
        let start = |service: OpenService| service.start().map(drop);
        let started = self.services.scm.change(name, start);
        started.map_err(|error| format!("it cannot be started: {error}"))
    }

    /// Stops a service, but first its dependents, as Windows requires. They are started again once the service is up.
    fn stop_with_dependents(
        &mut self,
        request: &Request,
        service: &Service,
        limits: Limits,
    ) -> Result<(), Failure> {
        let name = &service.name;
        let machine = machine::services().context("listing services")?;
        let stopping = BTreeSet::from([key(name)]);
        for dependent in dependents(&stopping, &machine).into_iter().rev() {
            let needs = &dependent.name;
            log::line(format!(
                "service {needs} needs {name}, and is stopped before it"
            ));
            let stopped = self.kept.memory.stopped.entry(key(name)).or_default();
            if !contains(stopped, needs) {
                stopped.insert(0, needs.clone());
            }
            // Saved first, so that the services to start again are known even if this process ends.
            self.save_memory();
            self.services.stop(needs, &[], limits.stop)?;
        }
        self.stop(name, &pipes_of(request, name), limits.stop)?;
        Ok(())
    }

    /// Starts the dependents that were stopped with a service, now that it is up.
    fn resume_dependents(&mut self, service: &Service, limits: Limits) {
        let name = key(&service.name);
        if !self.kept.memory.stopped.contains_key(&name)
            || !self.watched(service).resume_again.try_now(Instant::now())
        {
            return;
        }
        let mut stopped = self.kept.memory.stopped.remove(&name).unwrap_or_default();
        stopped.retain(|needs| {
            let started = self.services.start(needs, Instant::now() + limits.start);
            let failed = started.is_err();
            let doing = format_args!("service {needs}, which was stopped with {name}");
            log::unless_ok(doing, started);
            failed
        });
        if stopped.is_empty() {
            self.watched(service).resume_again = Backoff::default();
        } else {
            self.kept.memory.stopped.insert(name, stopped);
        }
    }

    fn end_process(&self, name: &str) -> Result<(), String> {
        let Some(process) = self.services.process(name) else {
            return Ok(());
        };
        log::line(format!(
            "service {name} is stopped but its process {} does not end; it is terminated",
            process.id()
        ));
        process.terminate().map_err(|error| error.to_string())
    }
}
