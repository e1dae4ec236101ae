//! windows-storage-operator: storage on the Windows nodes of a Kubernetes cluster.

mod cli;
mod command;

use std::process::ExitCode;

use clap::FromArgMatches;
use cli::{CheckCommand, Cli, Command};
use command::{Interrupted, UsageError};
use windows_storage_operator::process;
use windows_storage_operator::report::Answer;

/// The exit status for "the command line is wrong".
const USAGE: u8 = 2;
/// The exit status for "not upgradeable".
const NOT_UPGRADEABLE: u8 = 3;
/// The exit status for "not known, because not everything could be read".
const UNKNOWN: u8 = 4;

fn main() -> ExitCode {
    process::set_up();
    match dispatch() {
        Ok(Some(Answer::Held)) => ExitCode::from(NOT_UPGRADEABLE),
        Ok(Some(Answer::Unknown)) => ExitCode::from(UNKNOWN),
        Ok(Some(Answer::Fine) | None) => ExitCode::SUCCESS,
        Err(error) => {
            command::report_line(format!("error: {error:#}"));
            match error.downcast_ref::<Interrupted>() {
                Some(interrupted) => ExitCode::from(interrupted.status()),
                None if error.is::<UsageError>() => ExitCode::from(USAGE),
                None => ExitCode::FAILURE,
            }
        }
    }
}

/// Runs the command.
fn dispatch() -> anyhow::Result<Option<Answer>> {
    let command = cli::command(std::env::args_os().next().as_deref());
    let matches = command.get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.command {
        Command::Run(arguments) => command::run(&arguments).map(|()| None),
        Command::Check(arguments) => match &arguments.command {
            Some(CheckCommand::Hosts(arguments)) => command::check_hosts(arguments).map(Some),
            None => command::check(&arguments).map(Some),
        },
        Command::MustGather(arguments) => command::must_gather(&arguments).map(|()| None),
        Command::Why(arguments) => command::why(&arguments).map(Some),
        Command::AcceptHostKey(arguments) => command::accept_host_key(&arguments).map(|()| None),
        Command::Rollout(arguments) => command::rollout(&arguments).map(Some),
        Command::Uninstall(arguments) => command::uninstall(&arguments).map(|()| None),
        Command::Crds(arguments) => command::crds(&arguments).map(|()| None),
    }
}
