//! Keeps csi-proxy running and configured as the stored request says.

use std::time::{Duration, Instant};

use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};
use protocol::{Failing, Request, ServiceState};
use windows_storage_agent::keep::Health;
use windows_storage_agent::probe::Problem;
use windows_storage_agent::wanted::{ServiceSettings, Step, Wanted};
use windows_sys::Win32::Foundation::ERROR_SERVICE_NEVER_STARTED;

use super::bring::Limits;
use super::engine::Engine;
use super::scm::Status;
use super::services::Held;
use super::{log, pipes, probe};

/// How often the configuration of a running service is compared.
const COMPARE: Duration = Duration::from_secs(5);
/// The service is contested if its configuration changes again within this time after the agent changed it back.
const CONTEST: Duration = Duration::from_secs(3600);
/// How often the pipes of a running service are probed.
const ASK: Duration = Duration::from_secs(60);
const CONTESTED: &str = "its configuration was changed again after the agent had changed it back: another program manages it, so the agent no longer does";
const MARKED: &str = "it is marked for deletion and goes only when it has stopped and every program that has it open, such as the Services console, has closed it; it is recreated then";

/// The state of csi-proxy, and what is wrong with it.
type Checked = (Health, String);

fn wrong(health: Health, why: impl Into<String>) -> Checked {
    (health, why.into())
}

/// Describes why the service stopped, given its exit code.
fn why_stopped(exit_code: u32) -> String {
    match exit_code {
        0 => "it was stopped, by another program or by an administrator".to_owned(),
        ERROR_SERVICE_NEVER_STARTED => "it has not been started since Windows was".to_owned(),
        code => format!("it ended with exit code {code}"),
    }
}

impl Engine {
    /// Brings csi-proxy back if it does not run as it should; returns whether it is up, or waits for others.
    pub(super) fn keep_running(&mut self) -> bool {
        // The handle of a process that has ended would end each wait at once.
        self.services.check_alive(CSI_PROXY_SERVICE);
        let Some(request) = self.kept.request.clone() else {
            return true;
        };
        let before = self.kept.memory.clone();
        let start = Limits::of(&request).start;
        let (health, mut why) = self.check(&request);
        if self.watched.keeper.check(health, Instant::now(), start)
            && let Err(error) = self.bring_back(&request, health, &why)
        {
            self.watched.keeper.attempt_failed();
            why = error;
        }
        self.report(health, why);
        if self.kept.memory != before {
            self.save_memory();
        }
        matches!(
            health,
            Health::Up | Health::Contested | Health::Held | Health::Marked
        )
    }

    fn check(&mut self, request: &Request) -> Checked {
        if self.kept.memory.contested {
            return wrong(Health::Contested, CONTESTED);
        }
        let status = match self.services.scm.status(CSI_PROXY_SERVICE) {
            Ok(Some(status)) => status,
            Ok(None) if self.is_marked() => return wrong(Health::Marked, MARKED),
            Ok(None) => return wrong(Health::Down, "it was deleted"),
            Err(error) => {
                let why = format!("it cannot be checked: {error}");
                return wrong(Health::Starting, why);
            }
        };
        let gone = self.services.hold(CSI_PROXY_SERVICE, status.process_id) == Held::Gone;
        match status.state {
            ServiceState::Running if gone => wrong(Health::Ending, "its process ended"),
            ServiceState::Running => self.check_running(request, &status),
            ServiceState::Paused => wrong(Health::Up, ""),
            ServiceState::StartPending => wrong(Health::Starting, "it stays starting"),
            ServiceState::StopPending => wrong(Health::Ending, "it is stopping"),
            _ => self.check_stopped(request, &status),
        }
    }

    fn check_running(&mut self, request: &Request, status: &Status) -> Checked {
        self.note_process(status.process_id);
        let compared = self.watched.compared;
        if compared.is_none_or(|compared| compared.elapsed() >= COMPARE) {
            if self.is_marked() {
                return wrong(Health::Marked, MARKED);
            }
            let now = self.services.scm.settings(CSI_PROXY_SERVICE);
            if now.is_ok_and(|now| now != Some(ServiceSettings::of(request))) {
                return wrong(Health::Changed, "its configuration was changed");
            }
            self.watched.compared = Some(Instant::now());
            self.watched.right_process = status.process_id;
        }
        let mut closed = request.pipes.clone();
        closed.retain(|pipe| !pipes::is_open(pipe));
        if !closed.is_empty() {
            self.watched.answered = None;
            let why = format!("it runs, but pipes are closed: {}", closed.join(", "));
            return wrong(Health::Starting, why);
        }
        self.check_answers(&request.pipes, status)
    }

    /// Probes the pipes once after each start, and then from time to time: an open pipe proves nothing, but a probe costs
    /// more than checking the name.
    fn check_answers(&mut self, pipes: &[String], status: &Status) -> Checked {
        let answered = self.watched.answered;
        if answered.is_some_and(|answered| answered.elapsed() < ASK) {
            return wrong(Health::Up, "");
        }
        let problem = probe::first_problem(pipes, status.process_id);
        let problem = problem.unwrap_or_else(|failure| {
            log::line(failure.message);
            None
        });
        self.watched.answered = problem.is_none().then(Instant::now);
        let Some((pipe, problem)) = problem else {
            return wrong(Health::Up, "");
        };
        let health = match problem {
            Problem::Intruder(_) => Health::Held,
            Problem::Closed | Problem::Held | Problem::Silent => Health::Starting,
        };
        wrong(health, format!("it runs, but pipe {pipe}: {problem}"))
    }

    fn check_stopped(&mut self, request: &Request, status: &Status) -> Checked {
        let pipes = &request.pipes;
        let is_alive = self.services.check_alive(CSI_PROXY_SERVICE);
        if !is_alive
            && pipes.iter().any(|pipe| pipes::is_open(pipe))
            && let Some((pipe, problem)) =
                self.services
                    .hold_server(CSI_PROXY_SERVICE, CSI_PROXY_EXE, pipes)
            && problem != Problem::Closed
        {
            let why = format!("it cannot start, for pipe {pipe}: {problem}");
            return wrong(Health::Held, why);
        }
        if self.services.check_alive(CSI_PROXY_SERVICE) {
            wrong(Health::Ending, "its process goes on without it")
        } else if self.is_marked() {
            wrong(Health::Marked, MARKED)
        } else {
            wrong(Health::Down, why_stopped(status.exit_code))
        }
    }

    fn is_marked(&self) -> bool {
        let marked = self.services.scm.is_marked_for_deletion(CSI_PROXY_SERVICE);
        marked.unwrap_or(false)
    }

    /// Counts restarts by others, such as by Windows after a crash.
    fn note_process(&mut self, process: Option<u32>) {
        let before = std::mem::replace(&mut self.watched.process, process);
        if before.is_some() && before != process {
            self.watched.keeper.restarted_by_others();
            (self.watched.compared, self.watched.answered) = (None, None);
            self.count_restart();
            log::line("csi-proxy was started again by Windows or another program");
        }
    }

    fn count_restart(&mut self) {
        let restarts = &mut self.kept.memory.restarts;
        *restarts = restarts.saturating_add(1);
    }

    /// Logs what is wrong with csi-proxy and shows it in the status, once per attempt.
    fn report(&mut self, health: Health, why: String) {
        let stuck = matches!(health, Health::Held | Health::Contested | Health::Marked);
        let failing = self.watched.keeper.failing();
        let report = failing.map(|(attempts, _)| (attempts, stuck.then_some(health)));
        let is_same = std::mem::replace(&mut self.watched.reported, report) == report;
        let shown = &mut self.kept.memory.failing;
        if is_same && shown.is_some() == failing.is_some() {
            return;
        }
        *shown = failing.map(|(attempts, retry)| Failing {
            attempts,
            retry_seconds: u32::try_from(retry.as_secs()).unwrap_or(u32::MAX),
            message: if why.is_empty() {
                "it does not stay up".to_owned()
            } else {
                why
            },
        });
        match shown {
            None => log::line("csi-proxy is running correctly again"),
            Some(failing) => log::line(format!("csi-proxy: {}", failing.message)),
        }
    }

    /// Brings csi-proxy to what its request wants again: stops what is left of it, configures its service and starts it. The
    /// next checks show whether it answers.
    fn bring_back(&mut self, request: &Request, health: Health, why: &str) -> Result<(), String> {
        let wanted = ServiceSettings::of(request);
        // One that cannot be read is not treated as wrong.
        let now = self.services.scm.settings(CSI_PROXY_SERVICE);
        let is_wrong = now.as_ref().is_ok_and(|now| now.as_ref() != Some(&wanted));
        // One that is marked for deletion is disabled by Windows itself.
        let is_changed = is_wrong && matches!(now, Ok(Some(_))) && !self.is_marked();
        let changed_back = self.watched.changed_back;
        if is_changed && changed_back.is_some_and(|at| at.elapsed() < CONTEST) {
            self.kept.memory.contested = true;
            return Err(CONTESTED.to_owned());
        }
        log::line(format!("csi-proxy is brought back: {why}"));
        let is_right = self.watched.process == self.watched.right_process;
        let restarts = health != Health::Changed || !is_right;
        let steps = [
            (restarts && health != Health::Down).then_some(Step::Stop),
            is_wrong.then_some(Step::Configure(wanted)),
            restarts.then_some(Step::Start),
        ];
        let steps: Vec<Step> = steps.into_iter().flatten().collect();
        let brought = self.bring(&Wanted::of(request), &steps, Limits::of(request));
        self.services.set_recovery(CSI_PROXY_SERVICE, true);
        let stuck = brought.as_ref().err().map(|stuck| &stuck.step);
        if matches!(stuck, None | Some(Step::Start)) {
            if is_changed {
                self.watched.changed_back = Some(Instant::now());
            }
            if restarts {
                (self.watched.process, self.watched.answered) = (None, None);
                self.count_restart();
            }
        }
        brought.map(drop).map_err(|stuck| stuck.failure.message)
    }
}
