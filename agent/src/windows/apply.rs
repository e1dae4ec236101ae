//! The command `apply`: unpacks a packed program, hands the request to the service and waits. It changes nothing that is in use
//! and can be interrupted at any time.
//!
//! A request is handed over as a file, and the service answers in another one. Both are in a folder that only administrators
//! can access.

use std::fs;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::paths::{AGENT_SERVICE, is_brought, to_sftp};
use protocol::validate::validate_request_path;
use protocol::{
    Answer, ApplyResult, End, Failure, FailureCategory, NodeState, Outcome, Request, ServiceState,
};
use windows_storage_agent::errors::Context;

use super::process::Process;
use super::scm::{Scm, Status};
use super::win32::retry_for;
use super::{files, log, observe, store, unpack};

/// How long the service may take to run.
const START: Duration = Duration::from_secs(60);
/// The delay before a service that ended is started again.
const START_AGAIN: Duration = Duration::from_secs(5);
/// How often the service is looked at.
const LOOK: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_millis(10);
/// The ending of the file beside a request that hands it over.
pub const HANDED: &str = ".handed";
/// The ending of the file in which the service answers.
const ANSWERED: &str = ".answered";
/// The size of that file before, so that there is room for an answer on a disk that is full by then.
const ROOM: usize = 4096;

/// How the service ended a request, or why it could not read it.
type Ended = Result<End, Failure>;

/// Hands a request to the service and waits for the result.
pub fn apply(path: &str, timeout: Duration) -> Result<Answer, Failure> {
    validate_request_path(path)?;
    let deadline = Instant::now() + timeout;
    let done = unpack::unpack_program(path).and_then(|()| {
        let request = store::load::<Request>(path).ok().flatten();
        let end = hand_over(path, timeout, deadline)?;
        Ok(Answer::ApplyResult(ApplyResult {
            id: request.map(|request| request.id).unwrap_or_default(),
            end,
            state: observe::status(&[]).unwrap_or_else(|failure| {
                log::line(format!("reading the state of the node: {failure}"));
                NodeState::default()
            }),
        }))
    });
    if to_sftp(path).rsplit('/').next().is_some_and(is_brought) {
        // The service has read it, or will not, and the sender would only remove the file.
        let _ = fs::remove_file(path);
    }
    done
}

fn hand_over(path: &str, timeout: Duration, deadline: Instant) -> Ended {
    let (handed, answered) = (format!("{path}{HANDED}"), format!("{path}{ANSWERED}"));
    let room = fs::write(&answered, [b' '; ROOM]);
    let ended = room
        .and_then(|()| fs::write(&handed, ""))
        .context("handing over the request")
        .and_then(|()| await_end(&handed, &answered, timeout, deadline));
    for file in [&handed, &answered] {
        log::unless_ok(format_args!("removing {file}"), files::remove(file));
    }
    ended
}

/// Waits for the end of a request. Starts the service if it is installed but does not run.
fn await_end(handed: &str, answered: &str, timeout: Duration, deadline: Instant) -> Ended {
    let other = |message| FailureCategory::Other.failure(message);
    let scm = Scm::connect().context("reaching the Service Control Manager")?;
    let mut run_by = Instant::now() + START;
    let (mut looked, mut started, mut woken, mut taken_by) = (None, None, None, None);
    loop {
        if let Some(ended) = read_answer(answered) {
            return ended;
        }
        let now = Instant::now();
        if now >= deadline {
            let does = match taken_by {
                Some(_) => "continues with it; status shows the result",
                None => "has not begun with it",
            };
            let seconds = timeout.as_secs();
            let message = format!(
                "the request is not finished after {seconds} s; the agent's service {does}"
            );
            return Ok(End::bad(Outcome::Failed, other(message)));
        }
        if looked.is_some_and(|looked| now < looked + LOOK) {
            sleep(POLL);
            continue;
        }
        looked = Some(now);
        let is_taken = !fs::exists(handed).unwrap_or(true);
        let status = scm
            .status(AGENT_SERVICE)
            .context("looking at the agent's service")?;
        let status = status.ok_or_else(|| {
            other(format!(
                "service {AGENT_SERVICE} is not installed; run the command install"
            ))
        })?;
        let runs = !has_ended(&status);
        if is_taken {
            let taker = *taken_by.get_or_insert(status.process_id);
            if runs && taker == status.process_id {
                continue;
            }
            return read_answer(answered).unwrap_or_else(|| {
                let message = "the agent's service ended before the request did; the change is rolled back when the service starts again; run status to see the result";
                Ok(End::bad(Outcome::Failed, other(message.to_owned())))
            });
        }
        if status.state == ServiceState::Running && runs {
            run_by = now + START;
            if woken != status.process_id {
                log::unless_ok("waking the service", scm.wake(AGENT_SERVICE));
                woken = status.process_id;
            }
        } else if now >= run_by {
            return Err(other(format!(
                "service {AGENT_SERVICE} does not come up; it is {:?}",
                status.state
            )));
        } else if !runs && started.is_none_or(|started| now >= started + START_AGAIN) {
            let start = scm.change(AGENT_SERVICE, |service| service.start().map(drop));
            start.context(format_args!("starting service {AGENT_SERVICE}"))?;
            started = Some(now);
        }
    }
}

/// Returns whether a service has no process any more, which Windows may not have noticed yet.
fn has_ended(status: &Status) -> bool {
    let process = status.process_id;
    status.state == ServiceState::Stopped || process.is_some_and(Process::is_gone)
}

/// Returns the answer, once it is complete.
fn read_answer(answered: &str) -> Option<Ended> {
    serde_json::from_slice(&fs::read(answered).ok()?).ok()
}

/// Takes a request that was handed over: it is carried out once, even if the agent ends meanwhile.
pub fn take(path: &str) -> Result<(), Failure> {
    files::remove(&format!("{path}{HANDED}")).context(format_args!("taking {path}"))
}

/// Answers a request that was handed over. Its caller may be gone.
pub fn answer(path: &str, ended: &Ended) -> std::io::Result<()> {
    let text = serde_json::to_vec(ended)?;
    let answered = format!("{path}{ANSWERED}");
    let open = || fs::OpenOptions::new().write(true).open(&answered);
    retry_for(files::PATIENCE, open)?.write_all(&text)
}
