//! This machine as a host: a disposable one, such as a CI runner. Operations that it does not support return an error, and
//! the tests that need them are ignored.

#![allow(clippy::unused_self, reason = "the same calls as for hosts under Wine")]

use std::io::{Error, ErrorKind, Result};
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use protocol::command::program;
use protocol::paths::AGENT_SERVICE;

/// The folders that tests create, outside Windows' own folder.
const FOLDERS: [&str; 4] = [r"C:\k", r"C:\tool", r"C:\other", r"C:\var\log"];

/// How long a folder may take to be removed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Only one test at a time may use the machine.
static IN_USE: Mutex<()> = Mutex::new(());

/// A fleet of one host.
pub struct Fleet {
    _in_use: MutexGuard<'static, ()>,
}

impl Fleet {
    pub fn new() -> Result<Self> {
        let in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = !Path::new(FOLDERS[0]).exists();
        let problem = "C:\\k is there: these tests are for a machine to throw away";
        let error = || Error::new(ErrorKind::AlreadyExists, problem);
        is_free
            .then_some(Self { _in_use: in_use })
            .ok_or_else(error)
    }

    pub fn add_host(&self, _: &str) -> Result<WindowsHost> {
        std::fs::create_dir(FOLDERS[0])?;
        Ok(WindowsHost(()))
    }
}

/// This machine.
pub struct WindowsHost(());

impl WindowsHost {
    pub fn drive_c(&self) -> &Path {
        Path::new(r"C:\")
    }

    pub fn run(&self, command: &str) -> Result<Output> {
        let mut cmd = Command::new("cmd.exe");
        cmd.raw_arg(format!("/d /c {command}")).output()
    }

    pub fn reboot(&self) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    pub fn fill_disk(&self, _: u64) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    pub fn free_disk(&self) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Drop for WindowsHost {
    /// Removes everything that tests installed, so that the next test finds a clean machine.
    fn drop(&mut self) {
        let key = r"HKLM\SYSTEM\CurrentControlSet\Services";
        let listed = self.run(&format!("reg query {key} /s /v ImagePath"));
        let listed = listed.map(|output| output.stdout).unwrap_or_default();
        let mut services = brought(&String::from_utf8_lossy(&listed));
        // The agent first, because it would start the others again.
        services.sort_by_key(|(name, _)| name != AGENT_SERVICE);
        for (name, program) in services {
            for command in [
                format!("sc failure {name} reset= 0 actions= none"),
                format!("taskkill /f /im {program}"),
                format!("sc delete {name}"),
            ] {
                let _ = self.run(&command);
            }
        }
        for folder in FOLDERS {
            let begin = Instant::now();
            // Windows releases the program of an ended process only after a moment.
            while let Err(error) = std::fs::remove_dir_all(folder)
                && error.kind() != ErrorKind::NotFound
                && begin.elapsed() < PATIENCE
            {
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

/// Returns the services whose programs are in the tests' folders, with the programs' names, from the output of `reg query`.
fn brought(listed: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut service = "";
    for line in listed.lines() {
        if let Some((_, name)) = line.rsplit_once(r"\Services\") {
            service = name.trim();
        } else if let Some((_, value)) = line.split_once("REG_")
            && let Some((_, command)) = value.split_once(' ')
            && let Some(path) = program(command.trim())
            && FOLDERS.iter().any(|folder| path.starts_with(folder))
        {
            let program = path.rsplit('\\').next().unwrap_or_default();
            found.push((service.to_owned(), program.to_owned()));
        }
    }
    found
}
