//! The agent on a Windows node: installs itself as a service, carries out requests and reports the node's state.

#[cfg(windows)]
mod windows;

use std::process::ExitCode;

use windows_storage_agent::cli::{self, Command};

fn main() -> ExitCode {
    match cli::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", cli::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Version) => {
            println!("windows-storage-agent {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(command) => run(command),
        Err(message) => {
            eprintln!(
                "windows-storage-agent: {message}\nwindows-storage-agent --help shows the usage"
            );
            ExitCode::from(2)
        }
    }
}

#[cfg(windows)]
fn run(command: Command) -> ExitCode {
    windows::run(command)
}

#[cfg(not(windows))]
fn run(_command: Command) -> ExitCode {
    eprintln!("windows-storage-agent: this command works on Windows only");
    ExitCode::from(2)
}
