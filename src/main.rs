//! windows-storage-operator: storage on the Windows nodes of a Kubernetes cluster.

mod cli;
mod command;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command};
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::memory;

/// Not upgradeable, by the command line's contract.
const NOT_UPGRADEABLE: u8 = 3;

fn main() -> ExitCode {
    memory::keep_little();
    let outcome = match Cli::parse().command {
        Command::Run(arguments) => command::run(&arguments),
        Command::Check(arguments) => command::check(&arguments).map(Some),
        Command::MustGather(arguments) => command::must_gather(&arguments).map(|()| None),
        Command::Crds(arguments) => command::crds(&arguments).map(|()| None),
    };
    match outcome {
        Ok(Some(Upgradeable::False)) => ExitCode::from(NOT_UPGRADEABLE),
        Ok(Some(Upgradeable::True) | None) => ExitCode::SUCCESS,
        Err(error) => {
            command::tell(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The one function that the runtime asks of the C library's libm, which would be half a megabyte of what is resident.
// SAFETY: It has the type and does what C says of this name.
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}
