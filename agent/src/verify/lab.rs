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
/// One that needs it.
pub const DEPENDENT: &str = "windows-storage-verify-2";
const FOLDER: &str = r"C:\Windows\windows-storage-verify";
const PATIENCE: Duration = Duration::from_secs(10);

/// What is tried: its name, what is to be observed, or `ANY`, and how.
pub type Attempt = (&'static str, &'static str, fn(&Lab) -> io::Result<String>);
/// Where nothing is known: any observation fits.
pub const ANY: &str = "not known";

/// A folder and services that are gone with it.
pub struct Lab {
    folder: &'static str,
}

/// One thing that was tried.
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
    /// Makes the folder, with this program in it; what an earlier run has left is removed first.
    pub fn open() -> io::Result<Self> {
        let _ = log::FOLDER.set(FOLDER);
        clear()?;
        acl::make_folder(FOLDER, acl::PRIVATE)?;
        let lab = Self { folder: FOLDER };
        fs::copy(std::env::current_exe()?, lab.program())?;
        Ok(lab)
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> String {
        format!(r"{}\{name}", self.folder)
    }

    /// This program, where services run it.
    pub fn program(&self) -> String {
        self.file("windows-storage-verify.exe")
    }

    /// Tries one thing and prints what was observed; whether that fits.
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

/// Removes services and folder.
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

/// Prints one line; whether that worked.
pub fn print(line: &impl Serialize) -> bool {
    let mut out = io::stdout().lock();
    let printed = serde_json::to_string(line)
        .map_err(io::Error::from)
        .and_then(|text| writeln!(out, "{}", ascii::json(&text)))
        .and_then(|()| out.flush());
    printed.is_ok()
}

/// Waits until that holds; what is said then, or after so long.
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
