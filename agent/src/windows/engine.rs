//! The one thread that changes the node: requests one at a time, and the services kept running in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant, SystemTime};

use windows_storage_agent::command::program;
use windows_storage_agent::document::Service;
use windows_storage_agent::errors::{failed_to, failure};
use windows_storage_agent::journal::{Journal, Recovery};
use windows_storage_agent::keep::{Action, Keeper, Look};
use windows_storage_agent::order::{key, start_order};
use windows_storage_agent::paths::{DESIRED_FILE, INCOMING_DIR, JOURNAL_FILE, STATE_FILE};
use windows_storage_agent::plan::settings;
use windows_storage_agent::protocol::{
    ApplyResult, Failure, FailureCategory, LastResult, NodeState, Outcome, Request, ServiceState,
};
use windows_storage_agent::state::Memory;
use windows_storage_agent::timestamp::rfc3339;
use windows_storage_agent::validate::validate_request_path;

use super::control::{Held, Processes};
use super::observe::{Kept, node_state};
use super::process::Event;
use super::scm::Scm;
use super::transaction::{Ending, Worker, pipes_of, seconds};
use super::{files, log, pipes, store};

/// How often services are looked at while all is well; the end of a process is noticed at once.
const CALM: Duration = Duration::from_secs(1);
const ALERT: Duration = Duration::from_millis(100);
/// What was left in the incoming folder is removed after this.
const LITTER: Duration = Duration::from_secs(86_400);

/// Something to do.
pub enum Job {
    /// A request's file, and where its result goes.
    Apply(String, Sender<Result<ApplyResult, Failure>>),
    /// End.
    Stop,
}

/// Does jobs until it is told to stop.
pub fn run(jobs: &Receiver<Job>, wake: &Arc<Event>) -> Result<(), Failure> {
    let mut engine = Engine::open()?;
    engine.recover();
    sweep();
    loop {
        match jobs.try_recv() {
            Ok(Job::Apply(path, reply)) => {
                // Nobody may be waiting any more; the result is kept on disk.
                let _ = reply.send(engine.apply(&path));
                continue;
            }
            Ok(Job::Stop) | Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => {}
        }
        let pause = if engine.look_after_services() {
            CALM
        } else {
            ALERT
        };
        wake.wait_with(engine.worker.processes.all(), pause);
    }
}

struct Engine {
    worker: Worker,
    watched: BTreeMap<String, Watched>,
}

#[derive(Default)]
struct Watched {
    keeper: Keeper,
    process: Option<u32>,
    last_error: Option<String>,
}

impl Engine {
    fn open() -> Result<Self, Failure> {
        let scm = Scm::change()
            .map_err(|error| failed_to("reaching the Service Control Manager", &error))?;
        let mut memory: Memory = store::load_or_set_aside(STATE_FILE).unwrap_or_default();
        if !memory.restarts.is_empty() {
            memory.restarts.clear();
            store::save(STATE_FILE, &memory)?;
        }
        let kept = Kept {
            request: store::load_or_set_aside(DESIRED_FILE),
            memory,
        };
        Ok(Self {
            worker: Worker {
                scm,
                processes: Processes::default(),
                kept,
            },
            watched: BTreeMap::new(),
        })
    }

    fn recover(&mut self) {
        let Some(journal) = store::load_or_set_aside::<Journal>(JOURNAL_FILE) else {
            return;
        };
        let cut_off = |what: &str| {
            failure(
                FailureCategory::Internal,
                format!("the agent ended in the middle of the request; {what}"),
            )
        };
        let ending = match self.worker.recover(&journal) {
            Ok(Recovery::Commit) => Ending {
                outcome: Outcome::Applied,
                failure: None,
                interruption: None,
            },
            Ok(Recovery::Undo) => Ending::bad(
                Outcome::RolledBack,
                cut_off("what was there before is back"),
            ),
            Ok(Recovery::Leave) => Ending::bad(
                Outcome::Failed,
                cut_off("nothing had worked before, so it was left as it is"),
            ),
            Err(error) => {
                log::line(format!(
                    "recovery of {}: {}",
                    journal.request.id, error.message
                ));
                Ending::bad(
                    Outcome::Failed,
                    cut_off(&format!("going back failed: {}", error.message)),
                )
            }
        };
        self.remember(&journal.request.id, &ending);
    }

    fn apply(&mut self, path: &str) -> Result<ApplyResult, Failure> {
        let request = read_request(path)?;
        log::line(format!(
            "request {}: {} files, {} services",
            request.id,
            request.files.len(),
            request.services.len()
        ));
        let ending = self.worker.carry_out(&request);
        self.remember(&request.id, &ending);
        self.watched.clear();
        sweep();
        let state = node_state(&self.worker.kept, &[], &[]).unwrap_or_else(|failure| {
            log::line(format!("looking at the node: {}", failure.message));
            NodeState {
                agent_version: env!("CARGO_PKG_VERSION").to_owned(),
                ..NodeState::default()
            }
        });
        let interruption_milliseconds = milliseconds(&ending);
        Ok(ApplyResult {
            id: request.id,
            outcome: ending.outcome,
            failure: ending.failure,
            interruption_milliseconds,
            state,
        })
    }

    fn remember(&mut self, id: &str, ending: &Ending) {
        let Ending {
            outcome,
            failure,
            interruption: _,
        } = ending;
        let why = failure
            .as_ref()
            .map(|failure| format!(": {:?}: {}", failure.category, failure.message))
            .unwrap_or_default();
        log::line(format!("request {id}: {outcome:?}{why}"));
        let result = LastResult {
            id: id.to_owned(),
            outcome: *outcome,
            failure: failure.clone(),
            interruption_milliseconds: milliseconds(ending),
            finished: rfc3339(SystemTime::now()),
        };
        // The same again is not worth a write: an operator may ask every minute.
        let last = self.worker.kept.memory.last_result.as_ref();
        if *outcome == Outcome::Unchanged
            && last.is_some_and(|last| {
                last.id == id && matches!(last.outcome, Outcome::Unchanged | Outcome::Applied)
            })
        {
            return;
        }
        self.worker.kept.memory.last_result = Some(result);
        self.save_memory();
    }

    fn save_memory(&self) {
        if let Err(failure) = store::save(STATE_FILE, &self.worker.kept.memory) {
            log::line(failure.message);
        }
    }

    /// Whether all kept services run.
    fn look_after_services(&mut self) -> bool {
        let Some(request) = self.worker.kept.request.clone() else {
            return true;
        };
        let order = start_order(&request.services).unwrap_or_default();
        let mut well = true;
        for service in order {
            let look = self.look_at(&request, service);
            well &= look == Look::Up;
            let watched = self.watched.entry(key(&service.name)).or_default();
            let action =
                watched
                    .keeper
                    .look(look, Instant::now(), seconds(request.stop_timeout_seconds));
            if let Err(error) = self.act(service, action) {
                self.complain(&service.name, format!("{action:?}: {error}"));
            }
        }
        well
    }

    /// Logs what is wrong with a service, once.
    fn complain(&mut self, name: &str, error: String) {
        let watched = self.watched.entry(key(name)).or_default();
        if watched.last_error.as_ref() != Some(&error) {
            log::line(format!("service {name}: {error}"));
            watched.last_error = Some(error);
        }
    }

    fn look_at(&mut self, request: &Request, service: &Service) -> Look {
        let status = match self
            .worker
            .scm
            .open(&service.name)
            .and_then(|service| service.map(|service| service.status()).transpose())
        {
            Ok(Some(status)) => status,
            Ok(None) => return Look::Missing,
            Err(error) => {
                log::line(format!("looking at service {}: {error}", service.name));
                return Look::Starting;
            }
        };
        let processes = &mut self.worker.processes;
        let gone = processes.hold(&service.name, status.process_id) == Held::Gone;
        let mut alive = self.worker.processes.is_alive(&service.name);
        let pipes = pipes_of(request, &service.name);
        if status.state == ServiceState::Stopped
            && !alive
            && pipes.iter().any(|pipe| pipes::is_open(pipe))
        {
            let foreign = self.worker.processes.hold_server(
                &service.name,
                program(&service.path).unwrap_or_default(),
                &pipes,
            );
            alive = self.worker.processes.is_alive(&service.name);
            if !alive {
                self.complain(
                    &service.name,
                    format!(
                        "its pipes are served by {}, so it cannot start",
                        foreign.as_deref().unwrap_or("an unknown process")
                    ),
                );
                return Look::Held;
            }
        }
        match status.state {
            ServiceState::Running if gone => Look::Dead,
            ServiceState::Running | ServiceState::Paused => {
                self.note_process(service, status.process_id);
                Look::Up
            }
            ServiceState::StartPending => Look::Starting,
            ServiceState::StopPending => Look::Stopping,
            _ if alive => Look::Lingering,
            _ => Look::Down,
        }
    }

    /// Counts restarts by somebody else, such as Windows after a crash.
    fn note_process(&mut self, service: &Service, process: Option<u32>) {
        let watched = self.watched.entry(key(&service.name)).or_default();
        watched.last_error = None;
        let before = std::mem::replace(&mut watched.process, process);
        if before.is_some() && before != process {
            self.count_restart(&service.name);
            log::line(format!(
                "service {} was started again by Windows or somebody else",
                service.name
            ));
        }
    }

    fn count_restart(&mut self, name: &str) {
        *self
            .worker
            .kept
            .memory
            .restarts
            .entry(name.to_owned())
            .or_default() += 1;
        self.save_memory();
    }

    fn act(&mut self, service: &Service, action: Action) -> Result<(), String> {
        let name = &service.name;
        match action {
            Action::Nothing => return Ok(()),
            Action::EndProcess => {
                if let Some(process) = self.worker.processes.get(name) {
                    log::line(format!(
                        "service {name} is stopped but its process {} does not end; it is terminated",
                        process.id()
                    ));
                    return process.terminate().map_err(|error| error.to_string());
                }
                return Ok(());
            }
            Action::Create => {
                log::line(format!("service {name} is missing; it is made again"));
                let made = self
                    .worker
                    .scm
                    .configure(name, &settings(service))
                    .and_then(|made| made.set_recovery(true));
                made.map_err(|error| error.to_string())?;
            }
            Action::Start => {}
        }
        log::line(format!("service {name} does not run; it is started"));
        self.watched.entry(key(name)).or_default().process = None;
        self.count_restart(name);
        let opened = self
            .worker
            .scm
            .open_to_change(name)
            .map_err(|error| error.to_string())?
            .ok_or("it is not there")?;
        let started = opened.start();
        if started.is_err() {
            // Somebody may have disabled it or changed its command.
            self.worker
                .scm
                .configure(name, &settings(service))
                .map_err(|error| error.to_string())?;
            return opened.start().map_err(|error| error.to_string());
        }
        Ok(())
    }
}

fn milliseconds(ending: &Ending) -> Option<u64> {
    ending
        .interruption
        .and_then(|interruption| u64::try_from(interruption.as_millis()).ok())
}

fn read_request(path: &str) -> Result<Request, Failure> {
    validate_request_path(path)?;
    let invalid = |message| failure(FailureCategory::InvalidRequest, message);
    store::load(path)
        .map_err(|error| invalid(error.message))?
        .ok_or_else(|| invalid(format!("there is no file {path}")))
}

/// Removes what nobody came back for.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(INCOMING_DIR) else {
        return;
    };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|file| file.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LITTER));
        let path = entry.path();
        if old
            && let Some(path) = path.to_str()
            && files::remove(path).is_ok()
        {
            log::line(format!("{path} was left behind and is removed"));
        }
    }
}
