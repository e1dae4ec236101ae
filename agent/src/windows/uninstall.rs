//! The command `uninstall`: removes the agent's service and files. It can be interrupted and run again.
//!
//! The operator runs it from a newly uploaded program: that program knows the command regardless of the installed agent's
//! version, and can remove the installed program.

use std::time::{Duration, Instant};
use std::{fs, io};

use protocol::command::same_path;
use protocol::order::{key, same_name};
use protocol::paths::{
    AGENT_EXE, AGENT_LOG_DIR, AGENT_PREVIOUS, AGENT_RETIRED, AGENT_SERVICE, CSI_PROXY_EXE,
    CSI_PROXY_LOG_DIR, CSI_PROXY_SERVICE, DESIRED_FILE, JOURNAL_FILE, STATE_DIR, STATE_FILE,
};
use protocol::seen::contains;
use protocol::{Answer, Failure, FailureCategory};
use windows_storage_agent::errors::Context;
use windows_storage_agent::journal::Journal;
use windows_storage_agent::state::Memory;

use super::install::{end_running, lock};
use super::observe::Kept;
use super::process::Process;
use super::services::Services;
use super::{events, files, log, machine, point, store};

const PROGRAMS: [&str; 3] = [AGENT_EXE, AGENT_PREVIOUS, AGENT_RETIRED];
/// How long csi-proxy may take to stop, and the agent's service to start.
const STOP: Duration = Duration::from_secs(25);

/// Removes the agent, and csi-proxy unless it is to be kept.
pub fn uninstall(keeps_csi_proxy: bool) -> Result<Answer, Failure> {
    let mut services = Services::connect()?;
    let lock = fs::exists(STATE_DIR)
        .context(format_args!("looking for {STATE_DIR}"))?
        .then(lock)
        .transpose()?;
    // Otherwise Windows would restart the service after it ends by itself.
    services.set_recovery(AGENT_SERVICE, false);
    end_running(&mut services)?;
    finish_change(&mut services)?;
    point("uninstall: agent's service ended");
    if !keeps_csi_proxy {
        remove_csi_proxy(&mut services)?;
        point("uninstall: csi-proxy removed");
    }
    services.delete(AGENT_SERVICE)?;
    events::uninstall();
    end_commands()?;
    drop(lock);
    for program in PROGRAMS {
        for path in [program.to_owned(), format!("{program}.new")] {
            remove(&path)?;
        }
    }
    log::close();
    remove_folder(AGENT_LOG_DIR)?;
    point("uninstall: programs removed");
    // Last: until then its content can be read, and an interrupted command can continue.
    remove_folder(STATE_DIR)?;
    Ok(Answer::Uninstalled {})
}

/// Terminates the agent's commands that still run, such as one that waits for a file whose connection was lost, because a
/// running program cannot be removed. They change nothing, and no caller waits for their answers.
fn end_commands() -> Result<(), Failure> {
    let ending = "ending what still runs of the agent";
    for seen in machine::processes(&[]).context(ending)? {
        // One handle for all checks, so that the process ID cannot pass to another process meanwhile.
        let Ok(Some(command)) = Process::open(seen.id) else {
            continue;
        };
        let is_ours = command
            .program()
            .is_ok_and(|program| PROGRAMS.iter().any(|ours| same_path(ours, &program)));
        // A process that has just ended cannot be terminated.
        if is_ours && seen.id != std::process::id() && !command.has_ended() {
            let ended = command.terminate();
            if !command.wait(STOP) {
                ended.context(ending)?;
            }
        }
    }
    Ok(())
}

/// Leaves an interrupted change to the agent's service, which finishes it or rolls it back when it starts.
fn finish_change(services: &mut Services) -> Result<(), Failure> {
    if store::load::<Journal>(JOURNAL_FILE)?.is_none() {
        return Ok(());
    }
    services.start(AGENT_SERVICE, Instant::now() + STOP)?;
    Err(FailureCategory::AgentUnavailable.failure(
        "a change of csi-proxy was cut off in the middle, and the agent finishes it first; run uninstall again after that",
    ))
}

/// Stops and removes csi-proxy if the agent created its service. Other services of the document stay as they are.
fn remove_csi_proxy(services: &mut Services) -> Result<(), Failure> {
    let kept = Kept {
        request: store::load(DESIRED_FILE)?,
        memory: store::load::<Memory>(STATE_FILE)?.unwrap_or_default(),
    };
    if !contains(&kept.ours(), CSI_PROXY_SERVICE) {
        return Ok(());
    }
    if let Some(command) = command_of_another(services, &kept)? {
        log::line(format!(
            "service {CSI_PROXY_SERVICE} stays: another program has configured it as {command}"
        ));
        return Ok(());
    }
    let pipes = kept.request.iter().flat_map(|request| &request.pipes);
    let pipes: Vec<String> = pipes.flat_map(|of| of.pipes.clone()).collect();
    services.stop(CSI_PROXY_SERVICE, &pipes, STOP)?;
    services.delete(CSI_PROXY_SERVICE)?;
    // A program that is not the uploaded one is not the agent's to remove.
    let files = kept.request.iter().flat_map(|request| &request.files);
    for file in files {
        if files::sha256(&file.path)?.as_ref() == Some(&file.sha256) {
            remove(&file.path)?;
        }
    }
    for beside in ["new", "previous"] {
        remove(&format!("{CSI_PROXY_EXE}.{beside}"))?;
    }
    remove_folder(CSI_PROXY_LOG_DIR)
}

/// Returns the command that another program has set for csi-proxy's service, which then belongs to that program.
fn command_of_another(services: &Services, kept: &Kept) -> Result<Option<String>, Failure> {
    let there = services.scm.settings(CSI_PROXY_SERVICE);
    let there = there.context(format_args!("reading service {CSI_PROXY_SERVICE}"))?;
    let listed = kept.carried_out().map(|request| request.services);
    let mut listed = listed.into_iter().flatten();
    let ours = listed.find(|service| same_name(&service.name, CSI_PROXY_SERVICE));
    let Some((there, ours)) = there.zip(ours) else {
        return Ok(None);
    };
    let is_contested = kept.memory.contested.contains(&key(CSI_PROXY_SERVICE));
    let is_another = is_contested || there.command != ours.path;
    Ok(is_another.then_some(there.command))
}

fn remove(path: &str) -> Result<(), Failure> {
    files::remove(path).context(format_args!("removing {path}"))
}

fn remove_folder(path: &str) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.context(format_args!("removing {path}")),
    }
}
