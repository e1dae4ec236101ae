//! The command `install`: copies the program and starts it as a service. It can be interrupted and run again.
//!
//! A running program can be renamed but not replaced, and between two renames its path is empty. So `install` first points
//! the agent's service at a copy of the old program, and at the new program once that is complete: wherever the command is
//! interrupted, Windows starts one of the two. csi-proxy is not affected.

use std::fs::{File, OpenOptions};
use std::os::windows::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use protocol::command::{program, same_path};
use protocol::paths::{
    AGENT_EXE, AGENT_LOG_DIR, AGENT_PREVIOUS, AGENT_RETIRED, AGENT_SERVICE, DESIRED_FILE,
    INCOMING_DIR, JOURNAL_FILE, PROGRAM_DIR, STATE_DIR, STATE_FILE, agent_service_command,
};
use protocol::{Answer, Failure, FailureCategory, ServiceState};
use windows_storage_agent::errors::{Context, named};
use windows_storage_agent::wanted::{AUTO_START, ServiceSettings};

use super::services::Services;
use super::win32::retry_for;
use super::{acl, events, files, log, observe, owners, point, presence};

/// How long the service may take to finish the current request, before it is terminated.
const STOP: Duration = Duration::from_secs(25);
/// How long the agent may take to start.
const START: Duration = Duration::from_secs(60);
/// How long to wait for another install that runs at the same time. Together with the other limits this is less than the
/// operator waits.
const LOCK: Duration = Duration::from_secs(30);

/// The only privilege that the service keeps: to traverse folders that it may not list. The access control lists alone
/// decide what the service may open, change or terminate.
const PRIVILEGES: [&str; 1] = ["SeChangeNotifyPrivilege"];

const SETTING_UP: &str = "setting up the agent's service";

/// Installs the running program.
pub fn install(expected: Option<&str>) -> Result<Answer, Failure> {
    let failed = |message: &str| FailureCategory::Other.failure(message);
    let this = std::env::current_exe().context("finding this program's file")?;
    let this = this.to_str().map(plain_path);
    let this = this.ok_or_else(|| failed("this program's path is not text"))?;
    let sha256 = files::sha256(this)?.ok_or_else(|| failed("this program's file is gone"))?;
    if let Some(expected) = expected.filter(|expected| *expected != sha256) {
        let message = format!("{this} has sha256 {sha256}, not {expected} as announced");
        return Err(FailureCategory::BadUpload.failure(message));
    }
    make_folders()?;
    let _lock = lock()?;
    events::install();
    let mut services = Services::connect()?;
    let was_installed = services.scm.status(AGENT_SERVICE).context(SETTING_UP)?;
    // What lies there without a service may be of others, who may still have it open for writing; a journal is carried out,
    // and the previous program is run if the new one does not start.
    if was_installed.is_none() {
        for file in [AGENT_PREVIOUS, JOURNAL_FILE, DESIRED_FILE, STATE_FILE] {
            files::remove(file).context(format_args!("removing {file}"))?;
        }
    }
    let is_in_place =
        was_installed.is_some() && files::sha256(AGENT_EXE)?.as_ref() == Some(&sha256);
    if !same_path(this, AGENT_EXE) && !is_in_place {
        put_in_place(&services, this, &sha256)?;
    }
    point_service_at(&services, AGENT_EXE)?;
    point("install: service points at the new program");
    let status = services.scm.status(AGENT_SERVICE).context(SETTING_UP)?;
    let status = status.filter(|status| status.state == ServiceState::Running);
    let works = status.is_some_and(|status| presence::problem(status.process_id).is_none());
    if !works || presence::program().as_ref() != Some(&sha256) {
        end_running(&mut services)?;
        point("install: old service ended");
        match start(&mut services, &sha256) {
            // This only restarts the installed program, so there is no previous one to fall back to.
            Err(why) if same_path(this, AGENT_EXE) => return Err(why),
            Err(why) => return Err(fall_back(&mut services, &sha256, &why)),
            Ok(()) => {}
        }
        point("install: new service runs");
    }
    // The old program may still be in use; the next install removes it then.
    let _ = std::fs::remove_file(AGENT_RETIRED);
    let state = observe::status(&[]).ok();
    Ok(Answer::Installed {
        sha256,
        state: state.map(Box::new),
    })
}

/// Puts the new program in place of the old one, which keeps running.
fn put_in_place(services: &Services, this: &str, sha256: &str) -> Result<(), Failure> {
    let doing = format!("putting {AGENT_EXE} in place");
    let staged = files::stage_program(this, AGENT_EXE).context(&doing)?;
    // The file may have been replaced between check and copy. Only administrators can write to the copy.
    if files::sha256(&staged)?.as_deref() != Some(sha256) {
        let message = format!("{this} was changed while it was copied; bring it again");
        return Err(FailureCategory::BadUpload.failure(message));
    }
    point("install: new program beside the old one");
    let old = files::sha256(AGENT_EXE)?;
    if old.is_some() && points_at_program(services)? {
        if files::sha256(AGENT_PREVIOUS)? != old {
            files::stage_program(AGENT_EXE, AGENT_PREVIOUS)
                .and_then(|copy| files::rename(&copy, AGENT_PREVIOUS))
                .context(&doing)?;
        }
        point("install: old program copied");
        point_service_at(services, AGENT_PREVIOUS)?;
        point("install: service points at the copy");
    }
    if old.is_some() {
        files::rename(AGENT_EXE, AGENT_RETIRED).context(&doing)?;
        point("install: old program renamed");
    }
    files::rename(&staged, AGENT_EXE).context(&doing)?;
    point("install: new program in place");
    Ok(())
}

/// Returns whether the agent's service is configured to run the installed program.
fn points_at_program(services: &Services) -> Result<bool, Failure> {
    let settings = services.scm.settings(AGENT_SERVICE).context(SETTING_UP)?;
    let command = settings.map(|settings| settings.command);
    let program = command.as_deref().and_then(program);
    Ok(program.is_some_and(|program| same_path(program, AGENT_EXE)))
}

fn point_service_at(services: &Services, program: &str) -> Result<(), Failure> {
    let wanted = ServiceSettings {
        command: agent_service_command(program),
        description: "Keeps csi-proxy running on this node for windows-storage-operator."
            .to_owned(),
        dependencies: Vec::new(),
        start_type: AUTO_START,
    };
    let configured = services.scm.configure(AGENT_SERVICE, &wanted);
    let service = configured.context(SETTING_UP)?;
    log::unless_ok("asking for few privileges only", service.need(&PRIVILEGES));
    service.set_recovery(true).context(SETTING_UP)
}

/// Ends the old service, after the current request if that ends in time; else it is rolled back at the next start.
pub(super) fn end_running(services: &mut Services) -> Result<(), Failure> {
    services.stop(AGENT_SERVICE, &[], STOP).map(drop)
}

/// Starts the service and checks that it runs the installed program.
fn start(services: &mut Services, sha256: &str) -> Result<(), Failure> {
    services.start(AGENT_SERVICE, Instant::now() + START)?;
    match presence::program() {
        Some(runs) if runs != sha256 => {
            let message = format!("the agent that runs has sha256 {runs}");
            Err(FailureCategory::Other.failure(message))
        }
        _ => Ok(()),
    }
}

/// Restores the previous program; returns the failure with the result.
fn fall_back(services: &mut Services, sha256: &str, why: &Failure) -> Failure {
    let outcome = match files::sha256(AGENT_PREVIOUS) {
        Ok(Some(previous)) if previous != sha256 => put_back(services, &previous).map_or_else(
            |failure| format!("rolling back failed too: {failure}"),
            |()| format!("the previous agent, {previous}, was restored and runs"),
        ),
        _ => "there is no previous agent to restore".to_owned(),
    };
    let message = format!("the agent with sha256 {sha256} does not come up: {why}; {outcome}");
    // The message names a blocked program, which an administrator has to allow.
    let category = match why.category {
        blocked @ FailureCategory::Blocked => blocked,
        _ => FailureCategory::Other,
    };
    named(category.failure(message), [(AGENT_EXE, sha256)])
}

fn put_back(services: &mut Services, previous: &str) -> Result<(), Failure> {
    point_service_at(services, AGENT_PREVIOUS)?;
    point("install: service points back");
    end_running(services)?;
    start(services, previous)?;
    point("install: old service runs again");
    files::stage_program(AGENT_PREVIOUS, AGENT_EXE)
        .and_then(|staged| {
            files::rename(AGENT_EXE, AGENT_RETIRED)?;
            files::rename(&staged, AGENT_EXE)
        })
        .context(format_args!("putting {AGENT_EXE} back"))?;
    point("install: old program back in place");
    point_service_at(services, AGENT_EXE)
}

fn make_folders() -> Result<(), Failure> {
    owners::check_folder(PROGRAM_DIR)?;
    make_program_folder().context(format_args!("making {PROGRAM_DIR}"))?;
    for folder in [STATE_DIR, INCOMING_DIR] {
        owners::check_folder(folder)?;
        acl::make_folder(folder, acl::PRIVATE).context(format_args!("making {folder}"))?;
    }
    owners::check_logs_way(AGENT_LOG_DIR)?;
    acl::make_folder(AGENT_LOG_DIR, acl::PRIVATE)
        .context(format_args!("making {AGENT_LOG_DIR}"))?;
    // Before they are taken over: what another account has put there, it may still have open for writing.
    owners::check_programs(PROGRAM_DIR)?;
    for program in [AGENT_EXE, AGENT_PREVIOUS, AGENT_RETIRED] {
        files::protect_program(program)?;
    }
    owners::check_program(AGENT_EXE)
}

/// Other software keeps programs there too, so existing read access stays. But an account that can write there could add
/// libraries beside the agent's programs, or replace them.
fn make_program_folder() -> std::io::Result<()> {
    if !std::fs::exists(PROGRAM_DIR)? {
        return acl::make_folder(PROGRAM_DIR, acl::PROGRAM_FOLDER);
    }
    if acl::take_writing_away(PROGRAM_DIR)? {
        log::line(format!(
            "{PROGRAM_DIR}: accounts that are not administrators can no longer write there"
        ));
    }
    Ok(())
}

/// Allows one install or uninstall at a time: the file cannot be opened twice.
pub(super) fn lock() -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(false)
        .share_mode(0);
    let path = format!(r"{STATE_DIR}\install.lock");
    retry_for(LOCK, || options.open(&path)).context("waiting for another install to end")
}

/// Removes the prefix `\\?\`, which Windows may add to a path.
fn plain_path(path: &str) -> &str {
    path.strip_prefix(r"\\?\").unwrap_or(path)
}
