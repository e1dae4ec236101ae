//! Waits until csi-proxy answers on its pipes, and until other processes have closed those pipes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::paths::CSI_PROXY_SERVICE;
use protocol::{Failure, FailureCategory};
use windows_storage_agent::errors::Context;
use windows_storage_agent::probe::Problem;

use super::pipes;
use super::probe::{self, GREETING};
use super::services::Services;

const POLL: Duration = Duration::from_millis(20);
/// How long the first probes wait for a greeting. csi-proxy greets within a few milliseconds.
const FIRST_GREETING: Duration = Duration::from_millis(100);

impl Services {
    /// Waits until csi-proxy answers on all its pipes, and answers a call.
    pub fn await_pipes(&mut self, wanted: &[String], deadline: Instant) -> Result<(), Failure> {
        // A connection that comes while csi-proxy opens its pipes is accepted and never greeted: the next one is.
        let mut patience = FIRST_GREETING;
        loop {
            let missing: Vec<_> = wanted.iter().filter(|pipe| !pipes::is_open(pipe)).collect();
            let why = if missing.is_empty() {
                let probes = probe::all(wanted.iter(), patience);
                patience = GREETING.min(patience * 2);
                match probe::first_of(&probes, self.csi_proxy_process()?)? {
                    None => break,
                    Some((pipe, problem)) => problem.failure(&pipe),
                }
            } else {
                let what = format!(
                    "runs but does not open all its pipes; missing: {}",
                    names(&missing)
                );
                FailureCategory::Other.failure(format!("csi-proxy {what}"))
            };
            if self.check_ended(CSI_PROXY_SERVICE) {
                return Err(Self::ended_early(wanted, &missing)?);
            }
            if why.category == FailureCategory::Foreign || Instant::now() >= deadline {
                return Err(why);
            }
            sleep(POLL);
        }
        probe::check_call(wanted)
            .map_err(|why| FailureCategory::Other.failure(format!("csi-proxy greets, but {why}")))
    }

    /// Returns why csi-proxy may have ended before it opened its pipes: another process may already have them.
    fn ended_early(wanted: &[String], missing: &[&String]) -> Result<Failure, Failure> {
        if let Some((pipe, problem)) = probe::first_problem(wanted, None)?
            && matches!(problem, Problem::Intruder(_) | Problem::Held)
        {
            return Ok(problem.failure(&pipe));
        }
        let missing = names(missing);
        let message = format!("csi-proxy ended before it opened all its pipes; missing: {missing}");
        Ok(FailureCategory::Other.failure(message))
    }

    fn csi_proxy_process(&self) -> Result<Option<u32>, Failure> {
        let status = self.scm.status(CSI_PROXY_SERVICE);
        let status = status.context("reading the state of service csi-proxy")?;
        Ok(status.and_then(|status| status.process_id))
    }
}

/// Waits until the names of csi-proxy's pipes are free. Its old process, a process that others started, or a program with an
/// open connection may hold them.
pub fn await_free(wanted: &[String], timeout: Duration) -> Result<(), Failure> {
    let begin = Instant::now();
    while wanted.iter().any(|pipe| pipes::is_open(pipe)) {
        if begin.elapsed() < timeout {
            sleep(POLL);
            continue;
        }
        let Some((pipe, problem)) = probe::first_problem(wanted, None)? else {
            break;
        };
        if problem == Problem::Closed {
            // Pipes that others hold would come first, so this one has just become free.
            break;
        }
        let why = problem.failure(&pipe);
        let message = format!("{why}; until then csi-proxy cannot start");
        return Err(why.category.failure(message));
    }
    Ok(())
}

fn names(pipes: &[&String]) -> String {
    let shown: Vec<&str> = pipes.iter().take(5).map(|pipe| pipe.as_str()).collect();
    let shown = shown.join(", ");
    match pipes.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
