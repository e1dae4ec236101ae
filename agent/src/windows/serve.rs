//! Answers the agent's commands over its pipe.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use protocol::{Failure, FailureCategory};
use windows_storage_agent::errors::Context;
use windows_storage_agent::pulse::Pulse;
use windows_storage_agent::state::{Call, Reply};

use super::engine::Job;
use super::log;
use super::pipes::{self, Listener};
use super::service::{Jobs, News};

const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than any single wait of the agent, such as for the start of csi-proxy.
const STUCK: Duration = Duration::from_secs(600);

/// What the pipe's callers can access.
pub struct Service {
    /// SHA-256 of the running program.
    pub sha256: Option<String>,
    /// The heartbeat of the thread that does all work.
    pub pulse: Arc<Pulse>,
    /// Where jobs are added.
    pub jobs: Jobs,
    /// Ends the service.
    pub news: Sender<News>,
}

/// Accepts callers forever, each in its own thread.
pub fn run(mut listener: Listener, service: &Arc<Service>) {
    loop {
        match listener.accept() {
            Ok(caller) => {
                let service = Arc::clone(service);
                let started = thread::Builder::new().spawn(move || answer(&caller, &service));
                log::unless_ok("answering a caller", started);
            }
            Err(error) => {
                log::line(format!("waiting for callers: {error}"));
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn answer(caller: &File, service: &Service) {
    let Ok(line) = pipes::read_line(caller, Instant::now() + PATIENCE) else {
        return;
    };
    let reply = reply(&line, service);
    let sent = serde_json::to_string(&reply)
        .map_err(io::Error::from)
        .and_then(|line| pipes::write_line(caller, &line));
    match sent {
        Ok(()) => pipes::await_hang_up(caller, Instant::now() + PATIENCE),
        Err(error) => log::line(format!("a caller did not wait for its answer: {error}")),
    }
}

fn stuck_after() -> Duration {
    #[cfg(feature = "fault-injection")]
    if fault_injection::hangs() {
        return Duration::ZERO;
    }
    STUCK
}

fn reply(line: &str, service: &Service) -> Reply {
    let call = serde_json::from_str(line).context("reading the call");
    match call.and_then(|call| carry_out(call, service)) {
        Ok(reply) => reply,
        Err(failure) => Reply::Refused { failure },
    }
}

fn carry_out(call: Call, service: &Service) -> Result<Reply, Failure> {
    // The caller must learn that the thread is stuck: it then stops or terminates the process instead of asking it to end.
    if let Some(still) = service.pulse.stuck_for(Instant::now(), stuck_after()) {
        let message = format!("the agent has been stuck for {} s", still.as_secs());
        return Err(FailureCategory::Other.failure(message));
    }
    match call {
        Call::Ping => Ok(Reply::Pong {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: service.sha256.clone(),
        }),
        Call::Retire => {
            let _ = service.news.send(News::Retire);
            Ok(Reply::Retiring)
        }
        Call::Apply { request } => {
            let (sender, result) = channel();
            let handed = service.jobs.add(Job::Apply(request, sender));
            let result = handed.ok().and_then(|()| result.recv().ok());
            let result = result.ok_or_else(|| {
                let message = "the agent's service is about to stop";
                FailureCategory::Other.failure(message)
            })??;
            Ok(Reply::Result {
                result: Box::new(result),
            })
        }
    }
}
