//! The command `apply`: unpacks a packed program, hands the request to the service and waits. It changes nothing that is in use
//! and can be interrupted at any time.

use std::fs::File;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::paths::{AGENT_PIPE, AGENT_SERVICE, PIPE_VALUE, is_brought, to_sftp};
use protocol::validate::validate_request_path;
use protocol::{
    Answer, ApplyResult, End, Failure, FailureCategory, Outcome, Request, ServiceState,
};
use windows_storage_agent::errors::Context;
use windows_storage_agent::state::{Call, Reply};

use super::process::Process;
use super::scm::Scm;
use super::{observe, pipes, registry, store, unpack};

/// How long the service may take to open its pipe.
const START: Duration = Duration::from_secs(60);
/// How long a running service may take to answer.
pub const ANSWER: Duration = Duration::from_secs(5);
/// The delay before a service that ended is started again.
const START_AGAIN: Duration = Duration::from_secs(5);
/// How long one attempt waits while the pipe is busy.
const BUSY: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(10);

/// Hands a request to the service and waits for the result.
pub fn apply(path: &str, timeout: Duration) -> Result<Answer, Failure> {
    validate_request_path(path)?;
    let deadline = Instant::now() + timeout;
    let done = unpack::unpack_program(path).and_then(|()| hand_over(path, timeout, deadline));
    if to_sftp(path).rsplit('/').next().is_some_and(is_brought) {
        // The service has read the request, and the sender would only remove the file.
        let _ = std::fs::remove_file(path);
    }
    done
}

fn hand_over(path: &str, timeout: Duration, deadline: Instant) -> Result<Answer, Failure> {
    let request = path.to_owned();
    let reached_by = deadline.min(Instant::now() + START);
    let pipe = call(&Call::Apply { request }, reached_by)?;
    let error = match pipes::read_line(&pipe, deadline) {
        Ok(line) => return understand(&line),
        Err(error) => error,
    };
    let message = if error.kind() == io::ErrorKind::TimedOut {
        format!(
            "the request is not finished after {} s; the agent's service continues with it; status shows the result",
            timeout.as_secs()
        )
    } else {
        format!(
            "the agent's service ended before the request did ({error}); the change is rolled back when the service starts again; run status to see the result"
        )
    };
    let request = store::load::<Request>(path).ok().flatten();
    Ok(Answer::ApplyResult(ApplyResult {
        id: request.map(|request| request.id).unwrap_or_default(),
        end: End::bad(Outcome::Failed, FailureCategory::Other.failure(message)),
        state: observe::status(&[]).unwrap_or_default(),
    }))
}

/// Checks that the service answers, without starting a service that is stopped.
pub fn check_answers(deadline: Instant) -> Result<(), Failure> {
    let pipe = reach(deadline, false)?;
    say(&pipe, &Call::Ping)?;
    match serde_json::from_str(&hear(&pipe, deadline)?) {
        Ok(Reply::Refused { failure }) => Err(failure),
        _ => Ok(()),
    }
}

/// Waits for an answer from the service until the deadline. Returns the SHA-256 of the program that it runs, if the service
/// reports it.
pub fn ping(deadline: Instant) -> Result<Option<String>, Failure> {
    match ask(&Call::Ping, deadline)? {
        Some(Reply::Pong { sha256, .. }) => Ok(sha256),
        _ => Ok(None),
    }
}

/// Asks the service to end after the current request; returns false if the service does not understand the call.
pub fn retire(deadline: Instant) -> Result<bool, Failure> {
    let reply = ask(&Call::Retire, deadline)?;
    Ok(matches!(reply, Some(Reply::Retiring)))
}

/// Returns the service's reply, if it can be understood.
fn ask(question: &Call, deadline: Instant) -> Result<Option<Reply>, Failure> {
    let line = hear(&call(question, deadline)?, deadline)?;
    Ok(serde_json::from_str(&line).ok())
}

fn hear(pipe: &File, deadline: Instant) -> Result<String, Failure> {
    let line = pipes::read_line(pipe, deadline);
    line.map_err(|error| unavailable(format!("the agent's service does not answer: {error}")))
}

fn call(call: &Call, deadline: Instant) -> Result<File, Failure> {
    let pipe = reach(deadline, true)?;
    say(&pipe, call)?;
    Ok(pipe)
}

fn say(pipe: &File, call: &Call) -> Result<(), Failure> {
    let line = serde_json::to_string(call).map_err(io::Error::from);
    line.and_then(|line| pipes::write_line(pipe, &line))
        .map_err(|error| unavailable(format!("calling the agent's service: {error}")))
}

/// Connects to the service's pipe. If `starts` is set, starts the service if it is installed but stopped.
fn reach(deadline: Instant, starts: bool) -> Result<File, Failure> {
    let scm = Scm::connect().context("reaching the Service Control Manager")?;
    let failed = |error| unavailable(format!("service {AGENT_SERVICE}: {error}"));
    let mut start_asked: Option<Instant> = None;
    loop {
        let Some(status) = scm.status(AGENT_SERVICE).map_err(failed)? else {
            return Err(unavailable(format!(
                "service {AGENT_SERVICE} is not installed; run the command install"
            )));
        };
        let dead = status.process_id.is_some_and(Process::is_gone);
        if starts
            && (dead || status.state == ServiceState::Stopped)
            && start_asked.is_none_or(|asked| asked.elapsed() >= START_AGAIN)
        {
            let started = scm.change(AGENT_SERVICE, |service| service.start().map(drop));
            started.map_err(failed)?;
            start_asked = Some(Instant::now());
        }
        let mut why = format!(
            "service {AGENT_SERVICE} does not come up; it is {:?}, and its process {}",
            status.state,
            if dead { "has ended" } else { "has not" }
        );
        if status.state == ServiceState::Running {
            match connect(status.process_id, deadline) {
                Ok(pipe) => return Ok(pipe),
                Err(error) => why = error,
            }
        }
        if Instant::now() >= deadline || (dead && !starts) {
            return Err(unavailable(why));
        }
        sleep(POLL);
    }
}

/// Connects to the pipe that the service has recorded in the registry.
fn connect(service: Option<u32>, deadline: Instant) -> Result<File, String> {
    let path = registry::text(AGENT_SERVICE, PIPE_VALUE).unwrap_or_default();
    if !path.starts_with(AGENT_PIPE) {
        return Err("the agent's service has not recorded its pipe".to_owned());
    }
    // If another process keeps the name busy, the next attempt may find a newly recorded one.
    let deadline = deadline.min(Instant::now() + BUSY);
    match pipes::connect(&path, deadline) {
        // Any account may take a name that is no longer recorded.
        Ok(pipe) if pipes::server_process(&pipe).ok() == service => Ok(pipe),
        Ok(_) => Err(format!(
            "another process than the agent's service serves {path}"
        )),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

fn understand(line: &str) -> Result<Answer, Failure> {
    match serde_json::from_str(line) {
        Ok(Reply::Result { result }) => Ok(Answer::ApplyResult(*result)),
        Ok(Reply::Refused { failure }) => Err(failure),
        other => Err(unavailable(format!(
            "the agent's service answered something else: {other:?}"
        ))),
    }
}

fn unavailable(message: String) -> Failure {
    FailureCategory::Other.failure(message)
}
