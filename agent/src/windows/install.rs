//! The command `install`: puts the program in its place and starts it as a service. May be cut off and run again.
//!
//! A running program can be renamed but not replaced, and between two renames its place is empty. So the agent's service
//! is pointed at a copy of the old program first, and at the new one when that is whole: at whatever point this ends,
//! Windows starts one of the two. csi-proxy and the other services never notice.

use std::fs::{File, OpenOptions};
use std::os::windows::fs::OpenOptionsExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use protocol::command::{program, same_path};
use protocol::paths::{
    AGENT_EXE, AGENT_LOG_DIR, AGENT_PREVIOUS, AGENT_RETIRED, AGENT_SERVICE, CSI_PROXY_EXE,
    INCOMING_DIR, PROGRAM_DIR, STATE_DIR,
};
use protocol::{Answer, Failure, FailureCategory};
use windows_storage_agent::errors::{failed_to, service_failed_to};
use windows_storage_agent::journal::{AUTO_START, ServiceSettings};

use super::control::{self, Held, Processes};
use super::fault::point;
use super::scm::Scm;
use super::{acl, apply, files, observe, owners};

/// How long the service may take to finish the request in hand. With the limits below, all of it stays under the minute
/// that a command may take.
const RETIRE: Duration = Duration::from_secs(25);
/// How long the agent may take from its start to its first answer.
const START: Duration = Duration::from_secs(15);
/// How long a running agent may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Another install at the same time is waited for.
const LOCK: Duration = Duration::from_secs(120);

/// Installs the running program.
pub fn install(expected: Option<&str>) -> Result<Answer, Failure> {
    let this = std::env::current_exe()
        .map_err(|error| failed_to("finding this program's file", &error))?;
    let this = this.to_str().map(plain_path).ok_or_else(|| {
        Failure::new(FailureCategory::Internal, "this program's path is not text")
    })?;
    let reading = |error| failed_to(&format!("reading {this}"), &error);
    let sha256 = files::sha256(this)
        .map_err(reading)?
        .ok_or_else(|| Failure::new(FailureCategory::Internal, format!("{this} is gone")))?;
    if let Some(expected) = expected
        && expected != sha256
    {
        return Err(Failure::new(
            FailureCategory::HashMismatch,
            format!("{this} has sha256 {sha256}, not {expected} as announced"),
        ));
    }
    make_folders()?;
    let _lock = lock()?;
    let scm =
        Scm::change().map_err(|error| failed_to("reaching the Service Control Manager", &error))?;
    if !same_path(this, AGENT_EXE) && hash(AGENT_EXE)?.as_ref() != Some(&sha256) {
        put_in_place(&scm, this)?;
    }
    point_service_at(&scm, AGENT_EXE)?;
    point("install: service points at the new program");
    if !runs(&scm, &sha256) {
        end_running(&scm)?;
        point("install: old service ended");
        if let Err(why) = start(&scm, &sha256) {
            return Err(fall_back(&scm, &sha256, &why));
        }
        point("install: new service runs");
    }
    // The old program may not have gone quite yet; the next install removes it then.
    let _ = std::fs::remove_file(AGENT_RETIRED);
    let mut state = observe::status(&[CSI_PROXY_EXE.to_owned()], &[]).ok();
    if let Some(running) = state
        .as_mut()
        .and_then(|state| state.running_agent_sha256.as_mut())
    {
        // It has said so itself just now; that may not be on disk yet.
        running.clone_from(&sha256);
    }
    Ok(Answer::Installed {
        sha256,
        state: state.map(Box::new),
    })
}

/// Puts the new program in place of the old one, which goes on running.
fn put_in_place(scm: &Scm, this: &str) -> Result<(), Failure> {
    let failed = |error| failed_to(&format!("putting {AGENT_EXE} in place"), &error);
    let staged = files::stage_program(this, AGENT_EXE).map_err(failed)?;
    point("install: new program beside the old one");
    let old = hash(AGENT_EXE)?;
    if old.is_some() && points_at(scm)?.is_some_and(|path| same_path(&path, AGENT_EXE)) {
        if hash(AGENT_PREVIOUS)? != old {
            files::stage_program(AGENT_EXE, AGENT_PREVIOUS)
                .and_then(|copy| files::rename(&copy, AGENT_PREVIOUS))
                .map_err(failed)?;
        }
        point("install: old program copied");
        point_service_at(scm, AGENT_PREVIOUS)?;
        point("install: service points at the copy");
    }
    if old.is_some() {
        files::rename(AGENT_EXE, AGENT_RETIRED).map_err(failed)?;
        point("install: old program renamed");
    }
    files::rename(&staged, AGENT_EXE).map_err(failed)?;
    point("install: new program in place");
    Ok(())
}

/// The program that Windows starts for the agent's service.
fn points_at(scm: &Scm) -> Result<Option<String>, Failure> {
    let settings = scm
        .open(AGENT_SERVICE)
        .and_then(|service| service.map(|service| service.settings()).transpose())
        .map_err(|error| set_up(&error))?;
    Ok(settings.and_then(|settings| program(&settings.command).map(str::to_owned)))
}

fn point_service_at(scm: &Scm, program: &str) -> Result<(), Failure> {
    let wanted = ServiceSettings {
        command: format!("{program} service"),
        description: "Keeps csi-proxy and the other services of windows-storage-operator's document running on this node.".to_owned(),
        dependencies: Vec::new(),
        start_type: AUTO_START,
        environment: Vec::new(),
    };
    scm.configure(AGENT_SERVICE, &wanted)
        .and_then(|service| service.set_recovery(true))
        .map_err(|error| set_up(&error))
}

fn set_up(error: &std::io::Error) -> Failure {
    service_failed_to(
        &format!("setting up service {AGENT_SERVICE}"),
        error,
        FailureCategory::ServiceStart,
    )
}

/// Whether the service runs this very program and answers.
fn runs(scm: &Scm, sha256: &str) -> bool {
    control::is_running(scm, AGENT_SERVICE)
        && apply::ping(Instant::now() + ANSWER).is_ok_and(|runs| runs.as_deref() == Some(sha256))
}

/// Ends the old service, after the request in hand where it understands that.
fn end_running(scm: &Scm) -> Result<(), Failure> {
    let mut processes = Processes::default();
    let status = scm
        .open(AGENT_SERVICE)
        .and_then(|service| service.map(|service| service.status()).transpose())
        .map_err(|error| set_up(&error))?;
    let process = status.and_then(|status| status.process_id);
    let alive = processes.hold(AGENT_SERVICE, process) == Held::Alive;
    if alive && apply::retire(Instant::now() + ANSWER).unwrap_or(false) {
        let ended = processes
            .get(AGENT_SERVICE)
            .is_none_or(|process| process.wait(RETIRE));
        if !ended {
            return Err(Failure::new(
                FailureCategory::AgentUnavailable,
                "the agent's service is busy with a request; it ends after that, and Windows starts the new program; run install again to see it",
            ));
        }
        return Ok(());
    }
    control::stop(scm, &mut processes, AGENT_SERVICE, &[], RETIRE).map(drop)
}

/// Starts the service and sees that it is the program in place that answers.
fn start(scm: &Scm, sha256: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + START;
    control::start(scm, &mut Processes::default(), AGENT_SERVICE, deadline)?;
    match apply::ping(deadline)? {
        Some(runs) if runs != sha256 => Err(Failure::new(
            FailureCategory::AgentUnavailable,
            format!("the agent that answers has sha256 {runs}"),
        )),
        _ => Ok(()),
    }
}

/// Has the program before this one run again; says so.
fn fall_back(scm: &Scm, sha256: &str, why: &Failure) -> Failure {
    let new = format!(
        "the agent with sha256 {sha256} does not come up: {}",
        why.message
    );
    let outcome = match hash(AGENT_PREVIOUS) {
        Ok(Some(previous)) if previous != sha256 => put_back(scm, &previous).map_or_else(
            |error| format!("going back failed too: {}", error.message),
            |()| format!("the one before it, {previous}, is back and runs"),
        ),
        _ => "there is none before it to go back to".to_owned(),
    };
    Failure::new(
        FailureCategory::AgentUnavailable,
        format!("{new}; {outcome}"),
    )
}

fn put_back(scm: &Scm, previous: &str) -> Result<(), Failure> {
    let failed = |error| failed_to(&format!("putting {AGENT_EXE} back"), &error);
    point_service_at(scm, AGENT_PREVIOUS)?;
    point("install: service points back");
    control::stop(scm, &mut Processes::default(), AGENT_SERVICE, &[], ANSWER)?;
    start(scm, previous)?;
    point("install: old service runs again");
    let staged = files::stage_program(AGENT_PREVIOUS, AGENT_EXE).map_err(failed)?;
    files::rename(AGENT_EXE, AGENT_RETIRED)
        .and_then(|()| files::rename(&staged, AGENT_EXE))
        .map_err(failed)?;
    point("install: old program back in place");
    point_service_at(scm, AGENT_EXE)
}

fn hash(path: &str) -> Result<Option<String>, Failure> {
    files::sha256(path).map_err(|error| failed_to(&format!("reading {path}"), &error))
}

fn make_folders() -> Result<(), Failure> {
    for (folder, list) in [
        // Also where it was there before: who may write in it may lay libraries beside programs.
        (PROGRAM_DIR, acl::PROGRAM_FOLDER),
        (STATE_DIR, acl::PRIVATE),
        (INCOMING_DIR, acl::PRIVATE),
        (AGENT_LOG_DIR, acl::PRIVATE),
    ] {
        owners::check_way(folder)?;
        if folder == PROGRAM_DIR && acl::is_link(folder) {
            // An administrator has laid it, to another drive perhaps, and has the say there.
            continue;
        }
        acl::make_folder(folder, list)
            .map_err(|error| failed_to(&format!("making {folder}"), &error))?;
    }
    owners::check_programs(PROGRAM_DIR)
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

/// Windows may put `\\?\` before a path.
fn plain_path(path: &str) -> &str {
    path.strip_prefix(r"\\?\").unwrap_or(path)
}
