//! All calls to Windows, separate from the pure part in the library.

mod accounts;
mod acl;
mod answers;
mod apply;
mod bring;
mod change;
mod engine;
mod events;
mod failure_actions;
mod files;
mod install;
mod keep;
mod log;
mod machine;
mod observe;
mod owners;
mod pipes;
mod presence;
mod probe;
mod process;
mod registry;
mod scm;
mod service;
mod services;
mod store;
mod uninstall;
mod unpack;
mod win32;

use std::io::Write;
use std::process::ExitCode;

#[cfg(feature = "fault-injection")]
use fault_injection::point;
use protocol::{Answer, Failure, Outcome};
use windows_storage_agent::ascii;
use windows_storage_agent::cli::Command;

/// A point between two effects, at which a test may kill the agent.
#[cfg(not(feature = "fault-injection"))]
fn point(_name: &str) {}

/// Carries out a command of the command line.
pub fn run(command: Command) -> ExitCode {
    #[cfg(feature = "fault-injection")]
    fault_injection::watch_heap();
    let answer = match command {
        Command::Install { sha256 } => install::install(sha256.as_deref()),
        Command::Apply { request, timeout } => apply::apply(&request, timeout),
        Command::Status { pipes } => observe::status(&pipes).map(Answer::Status),
        Command::Uninstall { keeps_csi_proxy } => uninstall::uninstall(keeps_csi_proxy),
        Command::Service => return service::run(),
        // `main` handles these before it calls this function.
        Command::Version | Command::Help => return ExitCode::SUCCESS,
    };
    print(answer)
}

/// Prints an answer as one line; the exit status is 0 if all is well.
fn print(answer: Result<Answer, Failure>) -> ExitCode {
    let answer = answer.unwrap_or_else(Answer::Error);
    let is_good = match &answer {
        Answer::Status(_) | Answer::Installed { .. } | Answer::Uninstalled {} => true,
        Answer::ApplyResult(result) => {
            matches!(result.end.outcome, Outcome::Applied | Outcome::Unchanged)
        }
        Answer::Error(_) => false,
    };
    let mut out = std::io::stdout().lock();
    let printed = serde_json::to_string(&answer)
        .map_err(std::io::Error::from)
        .and_then(|line| writeln!(out, "{}", ascii::json(&line)))
        .and_then(|()| out.flush());
    if printed.is_ok() && is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
