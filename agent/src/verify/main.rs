//! Reports how this Windows behaves where the agent relies on it: one line of JSON per attempt. Each attempt runs the
//! agent's own code, with a service, a folder and pipes of its own, and leaves nothing behind.
//!
//! Expectations come from sources and documentation. Where these are silent, the program only records what it observes.

#[cfg(windows)]
mod files;
#[cfg(windows)]
mod host;
#[cfg(windows)]
mod lab;
#[cfg(windows)]
mod pipes;
#[cfg(windows)]
mod services;
// The agent's own modules; this program uses only a part of them.
#[cfg(windows)]
#[allow(dead_code, unused_imports)]
#[path = "../windows/mod.rs"]
mod windows;

use std::process::ExitCode;

const HELP: &str = "\
windows-storage-verify says how this Windows does what windows-storage-agent relies on.

Usage:
  windows-storage-verify        Try all of it, in two minutes at most. To be run by an administrator.
  windows-storage-verify --help

It makes a service windows-storage-verify, a folder C:\\Windows\\windows-storage-verify and named pipes, and removes them again.
It touches nothing of windows-storage-agent or csi-proxy.

The first line of its output describes the host, each other line one thing that was tried: what was expected, what was
observed, the number of Windows' error if there was one, and how long it took. `fits` is false where the two differ.
Exit status: 0 all of it fits, 1 something does not, 2 wrong usage, or nothing could be tried.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--help" | "-h") => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        #[cfg(windows)]
        None => run(),
        // What the Service Control Manager runs for this program's service.
        #[cfg(windows)]
        Some("service") => services::run(),
        #[cfg(windows)]
        Some("hang") => {
            std::thread::sleep(std::time::Duration::from_secs(60));
            ExitCode::FAILURE
        }
        _ => {
            eprintln!("windows-storage-verify: wrong usage, or not on Windows; --help shows it");
            ExitCode::from(2)
        }
    }
}

#[cfg(windows)]
fn run() -> ExitCode {
    let lab = match lab::Lab::open() {
        Ok(lab) => lab,
        Err(why) => {
            eprintln!("windows-storage-verify: {why}");
            return ExitCode::from(2);
        }
    };
    let mut fits = lab::print(&host::describe());
    for (id, expected, attempt) in pipes::ALL.iter().chain(files::ALL).chain(services::ALL) {
        fits &= lab.attempt(id, expected, *attempt);
    }
    if fits {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
