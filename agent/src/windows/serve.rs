//! Answers the agent's commands over its pipe.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use windows_storage_agent::errors::{failed_to, failure};
use windows_storage_agent::paths::AGENT_PIPE;
use windows_storage_agent::protocol::FailureCategory;
use windows_storage_agent::state::{Call, Reply};

use super::engine::Job;
use super::log;
use super::pipes::{self, Listener};
use super::process::Event;

const PATIENCE: Duration = Duration::from_secs(10);

/// Opens the agent's pipe; its predecessor may need a moment to go.
pub fn open() -> io::Result<Listener> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Listener::open(AGENT_PIPE) {
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(50)),
            result => return result,
        }
    }
}

/// Takes callers for ever, each in a thread of its own.
pub fn run(mut listener: Listener, jobs: &Sender<Job>, wake: &Arc<Event>) {
    loop {
        match listener.accept() {
            Ok(caller) => {
                let (jobs, wake) = (jobs.clone(), Arc::clone(wake));
                let started = thread::Builder::new().spawn(move || answer(&caller, &jobs, &wake));
                if let Err(error) = started {
                    log::line(format!("a caller could not be answered: {error}"));
                }
            }
            Err(error) => {
                log::line(format!("waiting for callers: {error}"));
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

fn answer(caller: &File, jobs: &Sender<Job>, wake: &Event) {
    let Ok(line) = pipes::read_line(caller, Instant::now() + PATIENCE) else {
        return;
    };
    let reply = reply(&line, jobs, wake);
    let sent = serde_json::to_string(&reply)
        .map_err(io::Error::from)
        .and_then(|line| pipes::write_line(caller, &line));
    match sent {
        Ok(()) => pipes::await_hang_up(caller, Instant::now() + PATIENCE),
        Err(error) => log::line(format!("a caller did not wait for its answer: {error}")),
    }
}

fn reply(line: &str, jobs: &Sender<Job>, wake: &Event) -> Reply {
    match serde_json::from_str(line) {
        Ok(Call::Ping) => Reply::Pong {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        Ok(Call::Apply { request }) => {
            let (sender, result) = channel();
            let handed = jobs.send(Job::Apply(request, sender));
            wake.set();
            match handed.ok().and_then(|()| result.recv().ok()) {
                Some(Ok(result)) => Reply::Result {
                    result: Box::new(result),
                },
                Some(Err(failure)) => Reply::Refused { failure },
                None => Reply::Refused {
                    failure: failure(
                        FailureCategory::AgentUnavailable,
                        "the agent's service is about to stop",
                    ),
                },
            }
        }
        Err(error) => Reply::Refused {
            failure: failed_to("reading the call", &io::Error::from(error)),
        },
    }
}
