//! The folder, services and records that the checks share.

use std::fs;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use windows_storage_agent::ascii;

use crate::windows::services::Services;
use crate::windows::{acl, log};

pub const SERVICE: &str = "windows-storage-verify";
/// A service that depends on [`SERVICE`].
pub const DEPENDENT: &str = "windows-storage-verify-2";
const FOLDER: &str = r"C:\Windows\windows-storage-verify";
const PATIENCE: Duration = Duration::from_secs(10);

/// An attempt: its ID, the expected observation or `ANY`, and the function.
pub type Attempt = (&'static str, &'static str, fn(&Lab) -> io::Result<String>);
/// The expectation where nothing is known: any observation fits.
pub const ANY: &str = "not known";

/// A folder and services that are removed when this is dropped.
pub struct Lab {
    folder: &'static str,
}

/// The result of one attempt.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    id: &'a str,
    expected: &'a str,
    observed: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<i32>,
    milliseconds: u128,
    fits: bool,
}

impl Lab {
    /// Creates the folder with this program in it, after removing what an earlier run left behind.
    pub fn open() -> io::Result<Self> {
        let _ = log::FOLDER.set(FOLDER);
        clear()?;
        acl::make_folder(FOLDER, acl::PRIVATE)?;
        let lab = Self { folder: FOLDER };
        fs::copy(std::env::current_exe()?, lab.program())?;
        Ok(lab)
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> String {
        format!(r"{}\{name}", self.folder)
    }

    /// Returns the path from which services run this program.
    pub fn program(&self) -> String {
        self.file("windows-storage-verify.exe")
    }

    /// Runs one attempt and prints the observation; returns whether it fits.
    pub fn attempt(
        &self,
        id: &str,
        expected: &str,
        attempt: fn(&Self) -> io::Result<String>,
    ) -> bool {
        let begin = Instant::now();
        let seen = attempt(self);
        let milliseconds = begin.elapsed().as_millis();
        let error = seen.as_ref().err().and_then(io::Error::raw_os_error);
        let observed = seen.unwrap_or_else(|why| match error {
            Some(number) => format!("error {number}"),
            None => why.to_string(),
        });
        let fits = expected == ANY || expected == observed;
        print(&Line {
            id,
            expected,
            observed,
            error,
            milliseconds,
            fits,
        }) && fits
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = clear() {
            eprintln!("windows-storage-verify: cleaning up: {error}; remove {FOLDER} by hand");
        }
    }
}

fn clear() -> io::Result<()> {
    let failed = |failure: protocol::Failure| io::Error::other(failure.message);
    let mut services = Services::connect().map_err(failed)?;
    for name in [DEPENDENT, SERVICE] {
        services.stop(name, &[], PATIENCE).map_err(failed)?;
        services.delete(name).map_err(failed)?;
    }
    log::close();
    let begin = Instant::now();
    loop {
        match fs::remove_dir_all(FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // The program of a process that has just ended may be held for a moment.
            Err(_) if begin.elapsed() < PATIENCE => sleep(Duration::from_millis(100)),
            result => return result,
        }
    }
}

/// Prints one line; returns whether that worked.
pub fn print(line: &impl Serialize) -> bool {
    let mut out = io::stdout().lock();
    let printed = serde_json::to_string(line)
        .map_err(io::Error::from)
        .and_then(|text| writeln!(out, "{}", ascii::json(&text)))
        .and_then(|()| out.flush());
    printed.is_ok()
}

/// Waits until `holds` returns true; returns `said` then, or `or` after the limit.
pub fn within(limit: Duration, said: &str, or: &str, mut holds: impl FnMut() -> bool) -> String {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() >= limit {
            return or.to_owned();
        }
        sleep(Duration::from_millis(10));
    }
    said.to_owned()
}
