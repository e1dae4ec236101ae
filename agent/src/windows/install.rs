//! The command `install`: puts the program in its place and starts it as a service. May be cut off and run again.

use std::fs::{File, OpenOptions};
use std::os::windows::fs::OpenOptionsExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use windows_storage_agent::command::same_path;
use windows_storage_agent::errors::{failed_to, failure, service_failed_to};
use windows_storage_agent::journal::{AUTO_START, ServiceSettings};
use windows_storage_agent::paths::{
    AGENT_EXE, AGENT_LOG_DIR, AGENT_SERVICE, INCOMING_DIR, PROGRAM_DIR, STATE_DIR,
};
use windows_storage_agent::protocol::{Answer, Failure, FailureCategory};

use super::control::{self, Processes};
use super::scm::Scm;
use super::{acl, apply, files};

/// The service finishes the request in hand before it stops.
const STOP: Duration = Duration::from_secs(40);
const START: Duration = Duration::from_secs(40);
/// Another install at the same time is waited for.
const LOCK: Duration = Duration::from_secs(120);

/// Installs the running program.
pub fn install(expected: Option<&str>) -> Result<Answer, Failure> {
    let this = std::env::current_exe()
        .map_err(|error| failed_to("finding this program's file", &error))?;
    let this = this
        .to_str()
        .map(plain_path)
        .ok_or_else(|| failure(FailureCategory::Internal, "this program's path is not text"))?;
    let reading = |error| failed_to(&format!("reading {this}"), &error);
    let sha256 = files::sha256(this)
        .map_err(reading)?
        .ok_or_else(|| failure(FailureCategory::Internal, format!("{this} is gone")))?;
    if let Some(expected) = expected
        && expected != sha256
    {
        return Err(failure(
            FailureCategory::HashMismatch,
            format!("{this} has sha256 {sha256}, not {expected} as announced"),
        ));
    }
    make_folders()?;
    let _lock = lock()?;
    let scm =
        Scm::change().map_err(|error| failed_to("reaching the Service Control Manager", &error))?;
    if !same_path(this, AGENT_EXE)
        && files::sha256(AGENT_EXE)
            .map_err(|error| failed_to(&format!("reading {AGENT_EXE}"), &error))?
            .as_ref()
            != Some(&sha256)
    {
        control::stop(&scm, &mut Processes::default(), AGENT_SERVICE, &[], STOP)?;
        files::copy_program(this, AGENT_EXE)
            .map_err(|error| failed_to(&format!("putting {AGENT_EXE} in place"), &error))?;
    }
    start(&scm)?;
    Ok(Answer::Installed { sha256 })
}

fn make_folders() -> Result<(), Failure> {
    if std::fs::symlink_metadata(PROGRAM_DIR).is_err() {
        acl::make_folder(PROGRAM_DIR, acl::PROGRAM_FOLDER)
            .map_err(|error| failed_to(&format!("making {PROGRAM_DIR}"), &error))?;
    }
    for folder in [STATE_DIR, INCOMING_DIR, AGENT_LOG_DIR] {
        acl::make_folder(folder, acl::PRIVATE)
            .map_err(|error| failed_to(&format!("making {folder}"), &error))?;
    }
    Ok(())
}

/// One install at a time: the file cannot be opened twice.
fn lock() -> Result<File, Failure> {
    let path = format!(r"{STATE_DIR}\install.lock");
    let deadline = Instant::now() + LOCK;
    loop {
        match OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .share_mode(0)
            .open(&path)
        {
            Ok(file) => return Ok(file),
            Err(error) if Instant::now() >= deadline => {
                return Err(failed_to("waiting for another install to end", &error));
            }
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}

fn start(scm: &Scm) -> Result<(), Failure> {
    let wanted = ServiceSettings {
        command: format!("{AGENT_EXE} service"),
        description: "Keeps csi-proxy and the other services of windows-storage-operator's document running on this node.".to_owned(),
        dependencies: Vec::new(),
        start_type: AUTO_START,
    };
    let failed = |error| {
        service_failed_to(
            &format!("setting up service {AGENT_SERVICE}"),
            &error,
            FailureCategory::ServiceStart,
        )
    };
    let service = scm.configure(AGENT_SERVICE, &wanted).map_err(failed)?;
    service.set_recovery(true).map_err(failed)?;
    let deadline = Instant::now() + START;
    control::start(scm, &mut Processes::default(), AGENT_SERVICE, deadline)?;
    apply::ping(deadline)
}

/// Windows may put `\\?\` before a path.
fn plain_path(path: &str) -> &str {
    path.strip_prefix(r"\\?\").unwrap_or(path)
}
