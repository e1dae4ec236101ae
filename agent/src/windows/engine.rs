//! The one thread that changes the node: handles requests one at a time and keeps services running in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use protocol::paths::{
    BOOTSTRAP_DIR, DESIRED_FILE, INCOMING_DIR, JOURNAL_FILE, STATE_FILE, is_brought,
};
use protocol::validate::validate_request_path;
use protocol::{ApplyResult, Failure, FailureCategory, NodeState, Request, parts};
use windows_storage_agent::clock::Clock;
use windows_storage_agent::keep::Backoff;
use windows_storage_agent::pulse::Pulse;
use windows_storage_agent::state::Memory;

use super::observe::{Kept, node_state};
use super::process::Event;
use super::services::Services;
use super::watch::Watched;
use super::{files, log, store};

/// How often services are checked while all is well. The end of a process and a request are events, and noticed at
/// once. That a pipe closes while its process lives on, or that a configuration is changed, is none that
/// Windows would report.
const CALM: Duration = Duration::from_secs(1);
const ALERT: Duration = Duration::from_millis(100);
/// What was left where files are brought to is removed after this.
const LITTER: Duration = Duration::from_secs(86_400);
/// What was brought for a request is used within this time or never: it may arrive for a quarter of an hour, and then
/// wait for the request before it.
const BROUGHT: Duration = Duration::from_secs(3_600);

/// Something to do.
pub enum Job {
    /// A request's file, and where its result goes.
    Apply(String, Sender<Result<ApplyResult, Failure>>),
    /// End.
    Stop,
}

/// Does jobs until one of them is to stop; `this` is the SHA-256 of the running program.
pub fn run(
    jobs: &Receiver<Job>,
    wake: &Arc<Event>,
    pulse: Arc<Pulse>,
    this: Option<String>,
) -> Result<(), Failure> {
    let mut engine = Engine::open(pulse, this)?;
    engine.recover_or_log();
    engine.follow_scripts();
    sweep();
    loop {
        engine.beat();
        #[cfg(feature = "fault-injection")]
        fault_injection::hang();
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
        let all_well = engine.keep_services();
        let pause = if all_well { CALM } else { ALERT };
        wake.wait_with(engine.services.processes(), pause);
    }
}

/// What the thread has.
pub struct Engine {
    /// The machine's services.
    pub(super) services: Services,
    /// What is on disk.
    pub(super) kept: Kept,
    /// While a change could not be finished: when that is tried again.
    pub(super) again: Option<Backoff>,
    /// While the memory could not be written, on a full disk: when that is tried again.
    pub(super) unsaved: Option<Backoff>,
    /// How long the parts of the request in hand take.
    pub(super) clock: Clock,
    /// Shows that this thread comes round.
    pulse: Arc<Pulse>,
    /// The kept services, by [`key`](protocol::order::key).
    pub(super) watched: BTreeMap<String, Watched>,
}

impl Engine {
    fn open(pulse: Arc<Pulse>, this: Option<String>) -> Result<Self, Failure> {
        let services = Services::connect()?;
        let before: Memory = store::load_or_set_aside(STATE_FILE).unwrap_or_default();
        let memory = Memory {
            // All are about the time since this start.
            restarts: BTreeMap::new(),
            failing: BTreeMap::new(),
            contested: BTreeSet::new(),
            running_agent_sha256: this,
            ..before.clone()
        };
        let changed = memory != before;
        let request = store::load_or_set_aside(DESIRED_FILE);
        let mut engine = Self {
            services,
            kept: Kept { request, memory },
            again: None,
            unsaved: None,
            clock: Clock::start(Instant::now()),
            pulse,
            watched: BTreeMap::new(),
        };
        if changed {
            engine.save_memory();
        }
        Ok(engine)
    }

    /// It goes on.
    pub(super) fn beat(&self) {
        self.pulse.beat(Instant::now());
    }

    /// Does again what did not work before.
    fn catch_up(&mut self) {
        let try_now = |again: &mut Backoff| again.try_now(Instant::now());
        if self.again.as_mut().is_some_and(try_now) {
            self.recover_or_log();
            self.watched.clear();
        }
        if self.unsaved.as_mut().is_some_and(try_now) {
            self.save_memory();
        }
    }

    fn apply(&mut self, path: &str) -> Result<ApplyResult, Failure> {
        self.clock = Clock::start(Instant::now());
        let request = read_request(path)?;
        let (files, services) = (request.files.len(), request.services.len());
        let id = &request.id;
        log::line(format!("request {id}: {files} files, {services} services"));
        let end = self.carry_out(&request);
        self.watched.clear();
        self.kept.memory.contested.clear();
        sweep();
        let state =
            store::load(JOURNAL_FILE).and_then(|journal| node_state(journal, &self.kept, &[], &[]));
        let state = state.unwrap_or_else(|failure| {
            log::line(format!("reading the state of the node: {failure}"));
            NodeState {
                agent_version: env!("CARGO_PKG_VERSION").to_owned(),
                ..NodeState::default()
            }
        });
        self.ended(parts::FINISH);
        Ok(ApplyResult {
            id: request.id,
            end,
            durations: self.clock.durations.clone(),
            state,
        })
    }
}

fn read_request(path: &str) -> Result<Request, Failure> {
    validate_request_path(path)?;
    let invalid = |message| FailureCategory::InvalidRequest.failure(message);
    store::load(path)
        .map_err(|failure| invalid(failure.message))?
        .ok_or_else(|| invalid(format!("there is no file {path}")))
}

/// Removes what nobody came back for.
fn sweep() {
    for folder in [INCOMING_DIR, BOOTSTRAP_DIR] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let brought = entry.file_name().to_str().is_some_and(is_brought);
            let limit = if brought { BROUGHT } else { LITTER };
            let written = entry.metadata().and_then(|file| file.modified());
            let age = written.ok().and_then(|time| time.elapsed().ok());
            let path = entry.path();
            if age.is_some_and(|age| age > limit)
                && let Some(path) = path.to_str()
                && files::remove(path).is_ok()
            {
                log::line(format!("{path} was left behind and is removed"));
            }
        }
    }
}
