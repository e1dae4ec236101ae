//! Keeps the services of the kept request as they were made: running, with their pipes, configured as requested.

use std::time::{Duration, Instant};

use protocol::command::program;
use protocol::document::Service;
use protocol::order::{key, start_order};
use protocol::{Failing, Request, ServiceState};
use windows_storage_agent::keep::{Action, Health, Keeper, Limits};
use windows_storage_agent::plan::settings;

use super::engine::Engine;
use super::scm::Status;
use super::services::Held;
use super::transaction::pipes_of;
use super::{log, pipes};

/// How often the configuration of a service that runs is compared.
const COMPARE: Duration = Duration::from_secs(5);
/// A service whose configuration is changed again so soon after it was changed back has another program that looks after it.
const CONTEST: Duration = Duration::from_secs(3600);
const CONTESTED: &str = "its configuration was changed again after the agent had changed it back: another program looks after it, and it is left to that";
const MARKED: &str = "it is marked for deletion and goes only when it has stopped and every program that has it open, such as the Services console, has closed it; it is recreated then";

/// What is remembered about one service.
#[derive(Default)]
pub struct Watched {
    keeper: Keeper,
    process: Option<u32>,
    /// The process that was there when the configuration was right.
    right_process: Option<u32>,
    compared: Option<Instant>,
    /// When its configuration was changed back the last time.
    changed_back: Option<Instant>,
    /// What was last reported of it: the attempts, and what it is stuck at.
    reported: Option<(u32, Option<Health>)>,
}

/// The state of a service, and what is wrong with it.
type Checked = (Health, Option<String>);

fn wrong(health: Health, why: impl Into<String>) -> Checked {
    (health, Some(why.into()))
}

impl Engine {
    /// Brings back the kept services that do not run as they should; whether all do.
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
            let (health, mut why) = self.check(&request, service);
            well &= matches!(health, Health::Up | Health::Contested);
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
        let mut closed = pipes_of(request, &service.name);
        closed.retain(|pipe| !pipes::is_open(pipe));
        if closed.is_empty() {
            return (Health::Up, None);
        }
        let why = format!("it runs, but pipes are closed: {}", closed.join(", "));
        wrong(Health::Mute, why)
    }

    fn check_stopped(&mut self, request: &Request, service: &Service, status: &Status) -> Checked {
        let name = &service.name;
        let pipes = pipes_of(request, name);
        if !self.services.check_alive(name) && pipes.iter().any(|pipe| pipes::is_open(pipe)) {
            let own = program(&service.path).unwrap_or_default();
            let other = self.services.hold_server(name, own, &pipes);
            if !self.services.check_alive(name) {
                let who = other.as_deref().unwrap_or("an unknown process");
                let why = format!("its pipes are served by {who}, so it cannot start");
                return wrong(Health::Held, why);
            }
        }
        if self.services.check_alive(name) {
            (Health::Lingering, None)
        } else if self.is_marked(name) {
            wrong(Health::Marked, MARKED)
        } else {
            let code = status.exit_code;
            wrong(Health::Down, format!("it ended with exit code {code}"))
        }
    }

    fn is_marked(&self, name: &str) -> bool {
        let marked = self.services.scm.is_marked_for_deletion(name);
        marked.unwrap_or(false)
    }

    fn is_configured(&self, request: &Request, service: &Service) -> bool {
        let now = self.services.scm.settings(&service.name);
        // What cannot be read is not known to be wrong.
        now.map_or(true, |now| now == Some(settings(request, service)))
    }

    /// Counts restarts by others, such as Windows after a crash.
    fn note_process(&mut self, service: &Service, process: Option<u32>) {
        let name = &service.name;
        let watched = self.watched(service);
        let before = std::mem::replace(&mut watched.process, process);
        if before.is_some() && before != process {
            watched.keeper.restarted_by_others();
            watched.compared = None;
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

    /// Logs what is wrong with a service, and shows it in the status, once for each attempt.
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
            log::line(format!("service {name} is well again"));
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
        let is_changed = action != Action::Create && !self.is_configured(request, service);
        let changed_back = self.watched(service).changed_back;
        if is_changed && changed_back.is_some_and(|at| at.elapsed() < CONTEST) {
            self.kept.memory.contested.insert(key(name));
            return Err(CONTESTED.to_owned());
        }
        log::line(format!("service {name} {why}"));
        if stop_first {
            let stopped = self.stop(name, &pipes_of(request, name), limits.stop);
            stopped.map_err(|failure| failure.message)?;
        }
        if !self.is_configured(request, service) {
            // Windows keeps a deleted service for as long as another program has it open: no waiting here, but another attempt.
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
        self.watched(service).process = None;
        self.count_restart(name);
        let started = self.services.scm.change(name, |service| service.start());
        started.map_err(|error| format!("it cannot be started: {error}"))
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
