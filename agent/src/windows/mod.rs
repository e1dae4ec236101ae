//! What touches Windows: thin edges around the library's judgement.

mod acl;
mod apply;
mod control;
mod engine;
mod failure_actions;
mod fault;
mod files;
mod finish;
#[cfg(feature = "guarded-heap")]
mod guard;
mod install;
mod log;
mod machine;
mod observe;
mod owners;
mod pipes;
mod powershell;
mod process;
mod registry;
mod scm;
mod serve;
mod service;
mod store;
mod transaction;
mod undo;
mod unpack;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use protocol::{Answer, Outcome};
use windows_storage_agent::cli::Command;

/// Carries out a command of the command line.
pub fn run(command: Command) -> ExitCode {
    #[cfg(feature = "guarded-heap")]
    guard::watch();
    match command {
        Command::Install { sha256 } => print(&answer(install::install(sha256.as_deref()))),
        Command::Apply {
            request,
            timeout,
            arrival,
        } => print(&answer(apply::apply(&request, timeout, arrival))),
        Command::Status { files, pipes } => {
            print(&answer(observe::status(&files, &pipes).map(Answer::Status)))
        }
        Command::Service => service::run(),
        // Answered before this module is reached.
        Command::Version | Command::Help => ExitCode::SUCCESS,
    }
}

fn answer(result: Result<Answer, protocol::Failure>) -> Answer {
    result.unwrap_or_else(Answer::Error)
}

/// Prints an answer as one line; the exit status says whether all is well.
fn print(answer: &Answer) -> ExitCode {
    let Ok(line) = serde_json::to_string(answer) else {
        return ExitCode::FAILURE;
    };
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        return ExitCode::FAILURE;
    }
    match answer {
        Answer::Status(_) | Answer::Installed { .. } => ExitCode::SUCCESS,
        Answer::ApplyResult(result)
            if matches!(result.outcome, Outcome::Applied | Outcome::Unchanged) =>
        {
            ExitCode::SUCCESS
        }
        Answer::ApplyResult(_) | Answer::Error(_) => ExitCode::FAILURE,
    }
}
