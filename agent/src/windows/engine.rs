//! The one thread that changes the node: carries out requests one at a time and keeps csi-proxy running in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol::paths::{BOOTSTRAP_DIR, DESIRED_FILE, INCOMING_DIR, STATE_FILE, is_brought};
use protocol::validate::validate_request_path;
use protocol::{End, Failure, FailureCategory, Request};
use windows_storage_agent::keep::{Backoff, Health, Keeper};
use windows_storage_agent::state::Memory;

use super::observe::Kept;
use super::process::Event;
use super::services::Services;
use super::{apply, files, log, presence, store};

/// How often csi-proxy is checked while it is up. The end of a process and a new request are events that are
/// handled at once. Windows reports no event when a pipe closes while its process lives on, or when a configuration changes.
const CALM: Duration = Duration::from_secs(1);
const ALERT: Duration = Duration::from_millis(100);
/// The age at which other files left in the upload folders are removed.
const LITTER: Duration = Duration::from_secs(86_400);
/// The age at which uploads for a request are removed: they may take a quarter of an hour to arrive, and then wait for the
/// request before them.
const BROUGHT: Duration = Duration::from_secs(3_600);
/// The age up to which a request that was handed over is answered: nobody waits longer for an answer.
const WAITED_FOR: Duration = Duration::from_secs(600);

/// What the service tells the engine's thread.
pub struct Signals {
    /// Ends its pause.
    pub wake: Event,
    /// Ends the thread, after the request in hand.
    pub stops: AtomicBool,
}

/// Carries out requests until it is to stop; calls `is_up` before the first.
pub fn run(signals: &Signals, is_up: impl FnOnce()) -> Result<(), Failure> {
    let mut engine = Engine::open()?;
    engine.beat();
    is_up();
    engine.recover_or_log();
    let mut swept = None;
    while !signals.stops.load(Ordering::Relaxed) {
        engine.beat();
        // Not only after a request: where each upload is cut off, none arrives.
        if swept.is_none_or(|swept: Instant| swept.elapsed() > BROUGHT) {
            sweep();
            swept = Some(Instant::now());
        }
        #[cfg(feature = "fault-injection")]
        fault_injection::hang();
        if let Some(path) = handed() {
            log::unless_ok(format_args!("answering {path}"), engine.serve(&path));
        }
        engine.catch_up();
        let pause = if engine.keep_running() { CALM } else { ALERT };
        (signals.wake).wait_with(engine.services.processes(), pause);
    }
    Ok(())
}

/// Returns the path of the request that was handed over first, if there is one.
fn handed() -> Option<String> {
    let entries = std::fs::read_dir(INCOMING_DIR).ok()?.flatten();
    let found = entries.filter_map(|entry| {
        let path = entry.path().into_os_string().into_string().ok()?;
        let path = path.strip_suffix(apply::HANDED)?.to_owned();
        let written = entry.metadata().and_then(|file| file.modified()).ok();
        let age = written.and_then(|time| time.elapsed().ok());
        age.is_none_or(|age| age < WAITED_FOR)
            .then_some((written, path))
    });
    found.min().map(|(_, path)| path)
}

/// The state of the engine's thread.
pub struct Engine {
    /// The machine's services.
    pub(super) services: Services,
    /// What the agent stores on disk.
    pub(super) kept: Kept,
    /// Set while a change could not be finished: when to retry.
    pub(super) again: Option<Backoff>,
    /// Set while the memory could not be saved because the disk is full: when to retry.
    pub(super) unsaved: Option<Backoff>,
    /// When this thread last recorded a heartbeat.
    beaten: Option<Instant>,
    /// What was seen of csi-proxy since the last request.
    pub(super) watched: Watched,
}

/// What the engine remembers about csi-proxy since the last request.
#[derive(Default)]
pub struct Watched {
    pub(super) keeper: Keeper,
    pub(super) process: Option<u32>,
    /// The process at the time when the configuration was last correct: a running process of a wrong one is replaced.
    pub(super) right_process: Option<u32>,
    pub(super) compared: Option<Instant>,
    /// When csi-proxy last answered on all its pipes.
    pub(super) answered: Option<Instant>,
    /// When its configuration was last changed back.
    pub(super) changed_back: Option<Instant>,
    /// The last report: the number of attempts, and the state in which csi-proxy is stuck.
    pub(super) reported: Option<(u32, Option<Health>)>,
}

impl Engine {
    fn open() -> Result<Self, Failure> {
        let services = Services::connect()?;
        let before: Memory = store::load_or_set_aside(STATE_FILE)?.unwrap_or_default();
        let memory = Memory {
            // These fields cover only the time since this start.
            restarts: 0,
            failing: None,
            contested: false,
            ..before.clone()
        };
        let changed = memory != before;
        let request = store::load_or_set_aside(DESIRED_FILE)?;
        let mut engine = Self {
            services,
            kept: Kept { request, memory },
            again: None,
            unsaved: None,
            beaten: None,
            watched: Watched::default(),
        };
        if changed {
            engine.save_memory();
        }
        Ok(engine)
    }

    /// Records a heartbeat from time to time.
    pub(super) fn beat(&mut self) {
        if self
            .beaten
            .is_none_or(|beaten| beaten.elapsed() >= presence::BEAT)
        {
            presence::beat();
            self.beaten = Some(Instant::now());
        }
    }

    /// Retries what failed before.
    fn catch_up(&mut self) {
        let try_now = |again: &mut Backoff| again.try_now(Instant::now());
        if self.again.as_mut().is_some_and(try_now) {
            self.recover_or_log();
            self.watched = Watched::default();
        }
        if self.unsaved.as_mut().is_some_and(try_now) {
            self.save_memory();
        }
    }

    /// Carries out a request that was handed over.
    fn serve(&mut self, path: &str) -> std::io::Result<()> {
        let ended = apply::take(path).and_then(|()| self.apply(path));
        let answered = apply::answer(path, &ended);
        sweep();
        answered
    }

    fn apply(&mut self, path: &str) -> Result<End, Failure> {
        let request = read_request(path)?;
        log::line(format!(
            "request {}: csi-proxy {}",
            request.id, request.sha256
        ));
        let end = self.carry_out(&request);
        self.watched = Watched::default();
        self.kept.memory.contested = false;
        Ok(end)
    }
}

fn read_request(path: &str) -> Result<Request, Failure> {
    validate_request_path(path)?;
    let invalid = |message| FailureCategory::InvalidRequest.failure(message);
    store::load(path)
        .map_err(|failure| invalid(failure.message))?
        .ok_or_else(|| invalid(format!("there is no file {path}")))
}

/// Removes uploads that no request used.
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
