//! Keeps the services of the kept request as they were made: running, with their pipes, configured as requested.

use std::time::{Duration, Instant};

use protocol::command::program;
use protocol::document::Service;
use protocol::order::{key, start_order};
use protocol::{Failing, Request, ServiceState};
use windows_storage_agent::keep::{Action, Keeper, Limits, Look};
use windows_storage_agent::plan::settings;

use super::control::Held;
use super::engine::Engine;
use super::scm::Status;
use super::transaction::{pipes_of, seconds};
use super::{control, log, pipes};

/// How often the configuration of a service that runs is compared.
const COMPARE: Duration = Duration::from_secs(5);
const MARKED: &str = "it is marked for deletion and goes only when it has stopped and every program that has it open, such as the Services console, has closed it; it is made again then";

/// What is remembered about one service.
#[derive(Default)]
pub struct Watched {
    keeper: Keeper,
    process: Option<u32>,
    /// The process that was there when the configuration was right.
    right_process: Option<u32>,
    compared: Option<Instant>,
    last_error: Option<String>,
    /// What was last told of it: the attempts, and what it is stuck at.
    told: Option<(u32, Option<Look>)>,
}

impl Engine {
    /// Whether all kept services run.
    pub(super) fn look_after_services(&mut self) -> bool {
        let Some(request) = self.worker.kept.carried_out() else {
            return true;
        };
        let order = start_order(&request.services).unwrap_or_default();
        let limits = Limits {
            stop: seconds(request.stop_timeout_seconds),
            start: seconds(request.start_timeout_seconds),
        };
        let before = self.worker.kept.memory.clone();
        let mut well = true;
        for service in &order {
            let (look, mut why) = self.look_at(&request, service);
            well &= look == Look::Up;
            let watched = self.watched(service);
            let action = watched.keeper.look(look, Instant::now(), limits);
            if let Err(error) = self.act(&request, service, action, limits) {
                self.watched(service).keeper.failed();
                why = Some(error);
            }
            self.tell(service, look, why);
        }
        self.worker
            .kept
            .memory
            .failing
            .retain(|name, _| order.iter().any(|service| key(&service.name) == *name));
        if self.worker.kept.memory != before {
            self.worker.save_memory();
        }
        well
    }

    fn watched(&mut self, service: &Service) -> &mut Watched {
        self.watched.entry(key(&service.name)).or_default()
    }

    /// How a service looks, and what is wrong with it.
    fn look_at(&mut self, request: &Request, service: &Service) -> (Look, Option<String>) {
        let name = &service.name;
        let status = match self
            .worker
            .scm
            .open(name)
            .and_then(|opened| opened.map(|opened| opened.status()).transpose())
        {
            Ok(Some(status)) => status,
            Ok(None) if self.is_marked(name) => return (Look::Marked, Some(MARKED.to_owned())),
            Ok(None) => return (Look::Missing, Some("it was deleted".to_owned())),
            Err(error) => return (Look::Starting, Some(format!("looking at it: {error}"))),
        };
        let gone = self.worker.processes.hold(name, status.process_id) == Held::Gone;
        match status.state {
            ServiceState::Running if gone => (Look::Dead, Some("its process ended".to_owned())),
            ServiceState::Running => self.look_at_running(request, service, &status),
            ServiceState::Paused => (Look::Up, None),
            ServiceState::StartPending => (Look::Starting, Some("it stays starting".to_owned())),
            ServiceState::StopPending => (Look::Stopping, None),
            _ => self.look_at_stopped(request, service, &status),
        }
    }

    fn look_at_running(
        &mut self,
        request: &Request,
        service: &Service,
        status: &Status,
    ) -> (Look, Option<String>) {
        self.note_process(service, status.process_id);
        let due = |last: Option<Instant>| last.is_none_or(|last| last.elapsed() >= COMPARE);
        if due(self.watched(service).compared) {
            if self.is_marked(&service.name) {
                return (Look::Marked, Some(MARKED.to_owned()));
            }
            if !self.is_configured(request, service) {
                return (
                    Look::Changed,
                    Some("somebody changed its configuration".to_owned()),
                );
            }
            let watched = self.watched(service);
            watched.compared = Some(Instant::now());
            watched.right_process = status.process_id;
        }
        let closed: Vec<String> = pipes_of(request, &service.name)
            .into_iter()
            .filter(|pipe| !pipes::is_open(pipe))
            .collect();
        if closed.is_empty() {
            (Look::Up, None)
        } else {
            let message = format!("it runs, but pipes are closed: {}", closed.join(", "));
            (Look::Mute, Some(message))
        }
    }

    fn look_at_stopped(
        &mut self,
        request: &Request,
        service: &Service,
        status: &Status,
    ) -> (Look, Option<String>) {
        let name = &service.name;
        let pipes = pipes_of(request, name);
        if !self.worker.processes.is_alive(name) && pipes.iter().any(|pipe| pipes::is_open(pipe)) {
            let own = program(&service.path).unwrap_or_default();
            let foreign = self.worker.processes.hold_server(name, own, &pipes);
            if !self.worker.processes.is_alive(name) {
                let message = format!(
                    "its pipes are served by {}, so it cannot start",
                    foreign.as_deref().unwrap_or("an unknown process")
                );
                return (Look::Held, Some(message));
            }
        }
        if self.worker.processes.is_alive(name) {
            (Look::Lingering, None)
        } else if self.is_marked(name) {
            (Look::Marked, Some(MARKED.to_owned()))
        } else {
            let message = format!("it ended with exit code {}", status.exit_code);
            (Look::Down, Some(message))
        }
    }

    fn is_marked(&self, name: &str) -> bool {
        self.worker
            .scm
            .is_marked_for_deletion(name)
            .unwrap_or(false)
    }

    fn is_configured(&self, request: &Request, service: &Service) -> bool {
        let now = self
            .worker
            .scm
            .open(&service.name)
            .and_then(|opened| opened.map(|opened| opened.settings()).transpose());
        // What cannot be read is not known to be wrong.
        now.map_or(true, |now| now == Some(settings(request, service)))
    }

    /// Counts restarts by somebody else, such as Windows after a crash.
    fn note_process(&mut self, service: &Service, process: Option<u32>) {
        let watched = self.watched(service);
        watched.last_error = None;
        let before = std::mem::replace(&mut watched.process, process);
        if before.is_some() && before != process {
            watched.keeper.restarted_by_others();
            watched.compared = None;
            self.count_restart(&service.name);
            log::line(format!(
                "service {} was started again by Windows or somebody else",
                service.name
            ));
        }
    }

    fn count_restart(&mut self, name: &str) {
        let restarts = &mut self.worker.kept.memory.restarts;
        *restarts.entry(name.to_owned()).or_default() += 1;
    }

    /// Logs what is wrong with a service, and shows it in the status, once for each attempt.
    fn tell(&mut self, service: &Service, look: Look, why: Option<String>) {
        let name = &service.name;
        let watched = self.watched(service);
        let message = why.unwrap_or_else(|| "it does not stay up".to_owned());
        let stuck = matches!(look, Look::Held | Look::Marked).then_some(look);
        let failing = watched.keeper.failing();
        let told = failing.map(|(attempts, _)| (attempts, stuck));
        let same = watched.told == told;
        watched.told = told;
        let shown = self.worker.kept.memory.failing.contains_key(&key(name));
        if same && shown == failing.is_some() {
            return;
        }
        let failures = &mut self.worker.kept.memory.failing;
        if let Some((attempts, retry)) = failing {
            log::line(format!("service {name}: {message}"));
            let failing = Failing {
                attempts,
                retry_seconds: u32::try_from(retry.as_secs()).unwrap_or(u32::MAX),
                message,
            };
            failures.insert(key(name), failing);
        } else {
            log::line(format!("service {name} is well again"));
            failures.remove(&key(name));
        }
    }

    fn act(
        &mut self,
        request: &Request,
        service: &Service,
        action: Action,
        limits: Limits,
    ) -> Result<(), String> {
        let name = &service.name;
        let stop_first = match action {
            Action::Nothing => return Ok(()),
            Action::EndProcess => return self.end_process(name),
            Action::Create => {
                log::line(format!("service {name} is missing; it is made again"));
                false
            }
            Action::Start => {
                log::line(format!("service {name} does not run; it is started"));
                false
            }
            Action::Mend => {
                log::line(format!(
                    "somebody changed the configuration of service {name}; it is changed back"
                ));
                let watched = self.watched(service);
                watched.process != watched.right_process
            }
            Action::Restart => {
                log::line(format!(
                    "service {name} does not open its pipes; it is started again"
                ));
                true
            }
        };
        let pipes = pipes_of(request, name);
        if stop_first {
            let stopped = self.worker.stop(name, &pipes, limits.stop);
            stopped.map_err(|failure| failure.message)?;
        }
        if !self.is_configured(request, service) {
            // Windows keeps a deleted service for as long as somebody has it open: no waiting here, but another attempt.
            let wanted = settings(request, service);
            control::configure(&self.worker.scm, name, &wanted, Instant::now())
                .map_err(|failure| failure.message)?;
        }
        self.worker.set_recovery(name, true);
        if action == Action::Mend && !stop_first {
            return Ok(());
        }
        self.watched(service).process = None;
        self.count_restart(name);
        self.worker
            .scm
            .open_to_change(name)
            .and_then(|opened| opened.map_or(Ok(()), |opened| opened.start()))
            .map_err(|error| format!("it cannot be started: {error}"))
    }

    fn end_process(&self, name: &str) -> Result<(), String> {
        let Some(process) = self.worker.processes.get(name) else {
            return Ok(());
        };
        log::line(format!(
            "service {name} is stopped but its process {} does not end; it is terminated",
            process.id()
        ));
        process.terminate().map_err(|error| error.to_string())
    }
}
