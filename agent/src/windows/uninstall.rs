//! The command `uninstall`: removes the agent's service and files. It can be interrupted and run again.
//!
//! The operator runs it from a newly uploaded program: that program knows the command regardless of the installed agent's
//! version, and can remove the installed program.

use std::time::{Duration, Instant};
use std::{fs, io};

use protocol::paths::{
    AGENT_EXE, AGENT_LOG_DIR, AGENT_PREVIOUS, AGENT_RETIRED, AGENT_SERVICE, CSI_PROXY_EXE,
    CSI_PROXY_LOG_DIR, CSI_PROXY_PREVIOUS, CSI_PROXY_SERVICE, DESIRED_FILE, JOURNAL_FILE,
    STATE_DIR, STATE_FILE,
};
use protocol::seen::{DESCRIPTION, runs};
use protocol::{Answer, Failure, FailureCategory, Request};
use windows_storage_agent::errors::Context;
use windows_storage_agent::journal::Journal;
use windows_storage_agent::state::Memory;

use super::install::{end_running, install, lock};
use super::observe::Kept;
use super::services::Services;
use super::{events, files, log, point, store};

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
    // Otherwise Windows would restart the service after it ends by itself. On again: a further step may fail, and it stays.
    services.set_recovery(AGENT_SERVICE, false);
    let ended = end_running(&mut services);
    services.set_recovery(AGENT_SERVICE, true);
    ended?;
    if is_unfinished()? {
        if services
            .start(AGENT_SERVICE, Instant::now() + STOP)
            .is_err()
        {
            // Its program is gone, or the service itself: this program takes its place.
            drop(lock);
            install(None)?;
        }
        return Err(FailureCategory::Other.failure(
            "a change of csi-proxy was cut off in the middle, and the agent finishes it first; run uninstall again after that",
        ));
    }
    point("uninstall: agent's service ended");
    if !keeps_csi_proxy {
        remove_csi_proxy(&mut services)?;
        point("uninstall: csi-proxy removed");
    }
    services.delete(AGENT_SERVICE)?;
    events::uninstall();
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

/// Returns whether a change was cut off that the agent's service finishes, or rolls back, when it starts.
fn is_unfinished() -> Result<bool, Failure> {
    // Whatever its form: the installed agent may be of another version.
    if !fs::exists(JOURNAL_FILE).context(format_args!("looking for {JOURNAL_FILE}"))? {
        return Ok(false);
    }
    let journal: Option<Journal> = store::load(JOURNAL_FILE).unwrap_or_default();
    let memory: Memory = store::load(STATE_FILE)?.unwrap_or_default();
    let last = memory.last_result.filter(|last| last.end.incomplete);
    // Where it was rolled back as far as it can be, it has said so.
    Ok(last.is_none_or(|last| journal.is_none_or(|it| it.request.id != last.id)))
}

/// Stops and removes csi-proxy if it is the agent's. Other services stay as they are.
fn remove_csi_proxy(services: &mut Services) -> Result<(), Failure> {
    let kept = Kept {
        request: store::load_or_set_aside(DESIRED_FILE)?,
        memory: store::load_or_set_aside(STATE_FILE)?.unwrap_or_default(),
    };
    let there = services.scm.settings(CSI_PROXY_SERVICE);
    let there = there.context(format_args!("reading service {CSI_PROXY_SERVICE}"))?;
    let is_ours = match (&kept.request, &there) {
        (Some(request), Some(there)) => kept.is_ours() && there.command == request.command(),
        (None, Some(there)) => {
            there.description == DESCRIPTION && runs(&there.command, CSI_PROXY_EXE)
        }
        (kept, None) => kept.is_some(),
    };
    if !is_ours {
        if let Some(there) = there {
            log::line(format!(
                "service {CSI_PROXY_SERVICE} stays: another program has configured it as {}",
                there.command
            ));
        }
        return Ok(());
    }
    let pipes = kept.request.as_ref().map(|request| request.pipes.clone());
    services.stop(CSI_PROXY_SERVICE, &pipes.unwrap_or_default(), STOP)?;
    services.delete(CSI_PROXY_SERVICE)?;
    let is_others = |request: &Request| {
        let sha256 = files::sha256(CSI_PROXY_EXE)?;
        Ok(sha256.is_some_and(|sha256| sha256 != request.sha256))
    };
    if !kept.request.as_ref().map_or(Ok(false), is_others)? {
        remove(CSI_PROXY_EXE)?;
    }
    for beside in [CSI_PROXY_PREVIOUS, &format!("{CSI_PROXY_EXE}.new")] {
        remove(beside)?;
    }
    remove_folder(CSI_PROXY_LOG_DIR)
}

fn remove(path: &str) -> Result<(), Failure> {
    files::remove(path).context(format_args!("removing {path}, which may be in use"))
}

fn remove_folder(path: &str) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.context(format_args!("removing {path}")),
    }
}
