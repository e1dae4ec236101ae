//! The one thread that changes the node: requests one at a time, and the services kept running in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use protocol::paths::{BOOTSTRAP_DIR, DESIRED_FILE, INCOMING_DIR, STATE_FILE, is_brought};
use protocol::validate::validate_request_path;
use protocol::{ApplyResult, Failure, FailureCategory, NodeState, Request};
use windows_storage_agent::durations::{Clock, Part};
use windows_storage_agent::errors::failed_to;
use windows_storage_agent::journal::End;
use windows_storage_agent::keep::delay;
use windows_storage_agent::state::Memory;

use super::control::Processes;
use super::observe::{Kept, node_state};
use super::process::Event;
use super::scm::Scm;
use super::transaction::Worker;
use super::watch::Watched;
use super::{files, log, store};

/// How often services are looked at while all is well. The end of a process and a request are events, and noticed at
/// once. That a pipe closes while its process lives on, or that somebody changes a configuration, is none that
/// Windows would tell of.
const CALM: Duration = Duration::from_secs(1);
const ALERT: Duration = Duration::from_millis(100);
/// What was left where files are brought to is removed after this.
const LITTER: Duration = Duration::from_secs(86_400);
/// What a visit has brought is used within this time or never: it may arrive for a quarter of an hour, and then wait for
/// the request before it.
const BROUGHT: Duration = Duration::from_secs(3_600);

/// Something to do.
pub enum Job {
    /// A request's file, and where its result goes.
    Apply(String, Sender<Result<ApplyResult, Failure>>),
    /// End.
    Stop,
}

/// Does jobs until it is told to stop; `this` is the SHA-256 of the running program.
pub fn run(jobs: &Receiver<Job>, wake: &Arc<Event>, this: Option<String>) -> Result<(), Failure> {
    let mut engine = Engine::open(this)?;
    if let Err(failure) = engine.worker.recover() {
        log::line(format!("recovery: {}", failure.message));
    }
    engine.run_scripts_again();
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
        engine.catch_up();
        let pause = if engine.look_after_services() {
            CALM
        } else {
            ALERT
        };
        wake.wait_with(engine.worker.processes.all(), pause);
    }
}

/// What the thread has.
pub struct Engine {
    pub(super) worker: Worker,
    pub(super) watched: BTreeMap<String, Watched>,
    /// When what could not be written, on a full disk, is written again, and how often that was tried.
    save_again: Instant,
    saves_in_vain: u32,
}

impl Engine {
    fn open(this: Option<String>) -> Result<Self, Failure> {
        let scm = Scm::change()
            .map_err(|error| failed_to("reaching the Service Control Manager", &error))?;
        let before: Memory = store::load_or_set_aside(STATE_FILE).unwrap_or_default();
        let memory = Memory {
            // Both are about the time since this start.
            restarts: BTreeMap::new(),
            failing: BTreeMap::new(),
            running_agent_sha256: this,
            ..before.clone()
        };
        let changed = memory != before;
        let kept = Kept {
            request: store::load_or_set_aside(DESIRED_FILE),
            memory,
            unsaved: false,
        };
        let mut engine = Self {
            worker: Worker {
                scm,
                processes: Processes::default(),
                kept,
                again: None,
                clock: Clock::start(Instant::now()),
            },
            watched: BTreeMap::new(),
            save_again: Instant::now(),
            saves_in_vain: 0,
        };
        if changed {
            engine.worker.save_memory();
        }
        Ok(engine)
    }

    /// Does again what did not work before.
    fn catch_up(&mut self) {
        let now = Instant::now();
        if self
            .worker
            .again
            .as_ref()
            .is_some_and(|again| now >= again.due)
        {
            if let Err(failure) = self.worker.recover() {
                log::line(format!("recovery: {}", failure.message));
            }
            self.watched.clear();
        }
        if !self.worker.kept.unsaved {
            self.saves_in_vain = 0;
        } else if now >= self.save_again {
            self.save_again = now + delay(self.saves_in_vain);
            self.saves_in_vain = self.saves_in_vain.saturating_add(1);
            self.worker.save_memory();
        }
    }

    /// What scripts say may differ after a boot, such as the node's address.
    fn run_scripts_again(&mut self) {
        let Some(request) = self.worker.kept.request.clone() else {
            return;
        };
        let scripts = request
            .services
            .iter()
            .any(|service| !service.powershell_pre_scripts.is_empty());
        if scripts && self.worker.again.is_none() {
            self.worker.follow_scripts(&request);
        }
    }

    fn apply(&mut self, path: &str) -> Result<ApplyResult, Failure> {
        self.worker.clock = Clock::start(Instant::now());
        let request = read_request(path)?;
        log::line(format!(
            "request {}: {} files, {} services",
            request.id,
            request.files.len(),
            request.services.len()
        ));
        let End {
            outcome,
            failure,
            interruption_milliseconds,
        } = self.worker.carry_out(&request);
        self.watched.clear();
        sweep();
        let state = node_state(&self.worker.kept, &[], &[]).unwrap_or_else(|failure| {
            log::line(format!("looking at the node: {}", failure.message));
            NodeState {
                agent_version: env!("CARGO_PKG_VERSION").to_owned(),
                ..NodeState::default()
            }
        });
        self.worker.ended(Part::Finish);
        Ok(ApplyResult {
            id: request.id,
            outcome,
            failure,
            interruption_milliseconds,
            durations: self.worker.clock.durations(),
            state,
        })
    }
}

fn read_request(path: &str) -> Result<Request, Failure> {
    validate_request_path(path)?;
    let invalid = |message| Failure::new(FailureCategory::InvalidRequest, message);
    store::load(path)
        .map_err(|error| invalid(error.message))?
        .ok_or_else(|| invalid(format!("there is no file {path}")))
}

/// Removes what nobody came back for.
fn sweep() {
    for folder in [INCOMING_DIR, BOOTSTRAP_DIR] {
        sweep_folder(folder);
    }
}

fn sweep_folder(folder: &str) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let brought = entry.file_name().to_str().is_some_and(is_brought);
        let limit = if brought { BROUGHT } else { LITTER };
        let old = entry
            .metadata()
            .and_then(|file| file.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > limit));
        let path = entry.path();
        if old
            && let Some(path) = path.to_str()
            && files::remove(path).is_ok()
        {
            log::line(format!("{path} was left behind and is removed"));
        }
    }
}
