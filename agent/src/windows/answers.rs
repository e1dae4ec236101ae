//! Waits until a service answers on its pipes, and until other processes have closed those pipes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::{Failure, FailureCategory};
use windows_storage_agent::errors::Context;
use windows_storage_agent::probe::Problem;

use super::pipes;
use super::probe;
use super::services::Services;

const POLL: Duration = Duration::from_millis(20);

impl Services {
    /// Waits until a service answers on all its pipes, and csi-proxy also answers a call.
    pub fn await_pipes(
        &mut self,
        name: &str,
        wanted: &[String],
        deadline: Instant,
    ) -> Result<(), Failure> {
        loop {
            let missing: Vec<_> = wanted.iter().filter(|pipe| !pipes::is_open(pipe)).collect();
            let why = if missing.is_empty() {
                match probe::first_problem(wanted, self.process_of(name)?)? {
                    None => break,
                    Some((pipe, problem)) => problem.failure(name, &pipe),
                }
            } else {
                let what = format!(
                    "runs but does not open all its pipes; missing: {}",
                    names(&missing)
                );
                FailureCategory::PipesMissing.failure(format!("service {name} {what}"))
            };
            if self.check_ended(name) {
                return Err(Self::ended_early(name, wanted, &missing)?);
            }
            if why.category == FailureCategory::Foreign || Instant::now() >= deadline {
                return Err(why);
            }
            sleep(POLL);
        }
        probe::check_call(wanted).map_err(|why| {
            FailureCategory::PipesMissing.failure(format!("service {name} greets, but {why}"))
        })
    }

    /// Returns why a service may have ended before it opened its pipes: another process may already have them.
    fn ended_early(name: &str, wanted: &[String], missing: &[&String]) -> Result<Failure, Failure> {
        if let Some((pipe, problem)) = probe::first_problem(wanted, None)?
            && matches!(problem, Problem::Intruder(_) | Problem::Held)
        {
            return Ok(problem.failure(name, &pipe));
        }
        let missing = names(missing);
        let message =
            format!("service {name} ended before it opened all its pipes; missing: {missing}");
        Ok(FailureCategory::ServiceStart.failure(message))
    }

    fn process_of(&self, name: &str) -> Result<Option<u32>, Failure> {
        let status = self.scm.status(name);
        let status = status.context(format_args!("reading the state of service {name}"))?;
        Ok(status.and_then(|status| status.process_id))
    }
}

/// Waits until the names of a service's pipes are free. Its old process, a process that others started, or a program with an
/// open connection may hold them.
pub fn await_free(name: &str, wanted: &[String], timeout: Duration) -> Result<(), Failure> {
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
        let why = problem.failure(name, &pipe);
        let message = format!("{why}; until then the service cannot start");
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
