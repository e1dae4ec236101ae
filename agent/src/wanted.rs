//! Plans the steps from the state of csi-proxy to another one: the one that a request asks for, or the one before it.

use std::collections::BTreeMap;
use std::fmt;

use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_PREVIOUS};
use protocol::seen::{DESCRIPTION, SeenProcess, belongs_to, runs};
use protocol::{Failure, FailureCategory, Request, ServiceState};
use serde::{Deserialize, Serialize};

use crate::probe::Probe;

/// The start type of a service that starts with the machine, as Windows numbers it.
pub const AUTO_START: u32 = 2;

/// The part of a service's configuration that the agent sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSettings {
    /// The command line.
    pub command: String,
    /// The description.
    pub description: String,
    /// The services that it depends on.
    pub dependencies: Vec<String>,
    /// The start type as Windows numbers it: 2 automatic, 3 manual, 4 disabled.
    pub start_type: u32,
}

impl ServiceSettings {
    /// Returns the configuration of csi-proxy's service that a request asks for.
    pub fn of(request: &Request) -> Self {
        Self {
            command: request.command(),
            description: DESCRIPTION.to_owned(),
            dependencies: Vec::new(),
            start_type: AUTO_START,
        }
    }
}

/// The state before a change: all that a rollback needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    /// Whether the agent kept another request. With neither that nor a service there is nothing to go back to.
    pub was_kept: bool,
    /// SHA-256 of csi-proxy's program; absent if there was none.
    pub sha256: Option<String>,
    /// The configuration of its service; absent if there was none.
    pub service: Option<ServiceSettings>,
    /// Whether it was running.
    pub was_running: bool,
}

/// What csi-proxy is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// SHA-256 of its program; `None` if there is to be none.
    pub sha256: Option<String>,
    /// The file that becomes its program.
    pub from: Option<String>,
    /// Where the program that is in place is moved to.
    pub aside: String,
    /// The configuration of its service; `None` if there is to be none.
    pub service: Option<ServiceSettings>,
    /// Whether it is to run.
    pub runs: bool,
    /// The pipes that it opens then.
    pub pipes: Vec<String>,
}

impl Wanted {
    /// Returns what a request asks for.
    pub fn of(request: &Request) -> Self {
        Self {
            sha256: Some(request.sha256.clone()),
            from: request.upload.clone(),
            aside: CSI_PROXY_PREVIOUS.to_owned(),
            service: Some(ServiceSettings::of(request)),
            runs: true,
            pipes: request.pipes.clone(),
        }
    }

    /// Returns what was there before the change of a request, and a problem if the old program is lost: then what is there stays, because
    /// no program at all would be worse.
    ///
    /// `kept` is the request before this one, `current` the SHA-256 of the program in place, `set_aside` that of the file
    /// that the old one was moved to.
    pub fn before(
        request: &Request,
        before: &Before,
        kept: Option<&Request>,
        current: Option<&str>,
        set_aside: Option<&str>,
    ) -> (Self, Option<String>) {
        let wanted = before.sha256.as_deref();
        let is_lost = wanted.is_some() && current != wanted && set_aside != wanted;
        // A program that appeared meanwhile is not the request's, and not the agent's to remove.
        let is_of_others =
            wanted.is_none() && current.is_some_and(|current| current != request.sha256);
        let wanted = if is_lost || is_of_others {
            current
        } else {
            wanted
        };
        let problem = is_lost.then(|| {
            let now = if current.is_some() {
                "what is there stays"
            } else {
                "hand over a request that brings it"
            };
            format!(
                "the old content of {CSI_PROXY_EXE} is neither there nor at {CSI_PROXY_PREVIOUS}; {now}"
            )
        });
        let wanted = Self {
            sha256: wanted.map(str::to_owned),
            from: Some(CSI_PROXY_PREVIOUS.to_owned()),
            // Back to the upload's path, so that the same request can be retried.
            aside: request
                .upload
                .clone()
                .unwrap_or_else(|| format!("{CSI_PROXY_EXE}.new")),
            service: before.service.clone(),
            runs: before.was_running,
            // An agent that has just replaced another version keeps no request yet.
            pipes: match (kept, &before.service) {
                (Some(kept), _) => kept.pipes.clone(),
                (None, Some(there)) if there.description == DESCRIPTION => request.pipes.clone(),
                (None, _) => Vec::new(),
            },
        };
        (wanted, problem)
    }
}

/// The state of csi-proxy on the node.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// SHA-256 of its program, if there is one.
    pub sha256: Option<String>,
    /// SHA-256 of the file that is to become its program, if there is one; read only where the program differs.
    pub from_sha256: Option<String>,
    /// Its service, if there is one.
    pub service: Option<ObservedService>,
    /// The probe results for its pipes.
    pub pipes: BTreeMap<String, Probe>,
    /// The processes that serve the pipes, among others.
    pub processes: Vec<SeenProcess>,
    /// The running services of others that need it.
    pub dependents: Vec<String>,
}

/// A service that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedService {
    /// Its configuration.
    pub settings: ServiceSettings,
    /// Its state.
    pub state: ServiceState,
    /// Its process, if it has one.
    pub process_id: Option<u32>,
}

/// One step; its `Display` form is what the log shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop the service and wait for its process.
    Stop,
    /// Move the program that is in place aside, if there is one, and another one in its place, if one is wanted.
    Replace {
        /// SHA-256 of the program in place.
        now: Option<String>,
        /// SHA-256 of the wanted one.
        by: Option<String>,
    },
    /// Delete the service.
    Delete,
    /// Create the service or change its configuration.
    Configure(ServiceSettings),
    /// Start the service and wait until it runs.
    Start,
    /// Wait until it answers on its pipes.
    AwaitPipes,
}

impl fmt::Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop => write!(to, "stop csi-proxy"),
            Self::Replace { now, by } => {
                let shown = |sha256: &Option<String>| sha256.clone().unwrap_or("none".to_owned());
                write!(
                    to,
                    "replace {CSI_PROXY_EXE}, now {}, by {}",
                    shown(now),
                    shown(by)
                )
            }
            Self::Delete => write!(to, "delete service csi-proxy"),
            Self::Configure(settings) => {
                write!(to, "configure service csi-proxy as: {}", settings.command)
            }
            Self::Start => write!(to, "start csi-proxy"),
            Self::AwaitPipes => write!(to, "await the pipes of csi-proxy"),
        }
    }
}

/// Plans the steps from the observed state to the wanted one.
pub fn plan(wanted: &Wanted, observed: &Observed) -> Result<Vec<Step>, Failure> {
    let replaces = observed.sha256 != wanted.sha256;
    if replaces {
        check_content(wanted, observed)?;
    }
    let there = observed.service.as_ref();
    let now = there.map(|there| &there.settings);
    let command = |settings: Option<&ServiceSettings>| settings.map(|it| it.command.clone());
    let stops = there.is_some() && (replaces || command(now) != command(wanted.service.as_ref()));
    let starts = wanted.runs && (stops || there.is_none_or(|there| !is_up(there.state)));
    let mut plan = Vec::new();
    if stops {
        plan.push(Step::Stop);
    }
    if replaces {
        plan.push(Step::Replace {
            now: observed.sha256.clone(),
            by: wanted.sha256.clone(),
        });
    }
    if now != wanted.service.as_ref() {
        let settings = wanted.service.clone();
        plan.push(settings.map_or(Step::Delete, Step::Configure));
    }
    if starts {
        plan.push(Step::Start);
    }
    let greets = |pipe: &String| matches!(observed.pipes.get(pipe), Some(Probe::Greets(_)));
    if starts || (wanted.runs && !wanted.pipes.iter().all(greets)) {
        plan.push(Step::AwaitPipes);
    }
    Ok(plan)
}

/// Returns whether a service runs or is about to run.
pub fn is_up(state: ServiceState) -> bool {
    use ServiceState::{Paused, Running, StartPending};
    matches!(state, Running | StartPending | Paused)
}

/// Refuses a program that is not there, or is not the announced one.
fn check_content(wanted: &Wanted, observed: &Observed) -> Result<(), Failure> {
    let Some(sha256) = &wanted.sha256 else {
        return Ok(());
    };
    let missing = |what| {
        let message = format!("{CSI_PROXY_EXE} is not as requested, and {what}");
        FailureCategory::BadUpload.failure(message)
    };
    let from = wanted.from.as_ref();
    let from = from.ok_or_else(|| missing("no upload is named".to_owned()))?;
    match &observed.from_sha256 {
        None => Err(missing(format!("its upload {from} is not there"))),
        Some(found) if found != sha256 => Err(FailureCategory::BadUpload.failure(format!(
            "{from} has sha256 {found}, not {sha256} as announced for {CSI_PROXY_EXE}"
        ))),
        Some(_) => Ok(()),
    }
}

/// Refuses the steps of a request that would fail, or would change what is another owner's, before anything is stopped.
/// With `is_kept` the service is ours whatever its description.
pub fn refuse(
    request: &Request,
    observed: &Observed,
    steps: &[Step],
    is_kept: bool,
) -> Result<(), Failure> {
    if let Some(there) = &observed.service {
        let is_ours = is_kept || there.settings.description == DESCRIPTION;
        if !is_ours && !request.replace_foreign {
            return Err(FailureCategory::Foreign.failure(format!(
                "service csi-proxy was not made by windows-storage-operator; its command is: {}; delete it, leave it to its owner, or allow foreign services to be replaced",
                there.settings.command
            )));
        }
        if steps.contains(&Step::Stop)
            && let Some(dependent) = observed.dependents.first()
        {
            return Err(FailureCategory::Other.failure(format!(
                "service {dependent} runs and needs csi-proxy, so Windows does not stop csi-proxy; stop {dependent} first"
            )));
        }
    }
    if steps.contains(&Step::Start) {
        refuse_intruders(observed)?;
    }
    Ok(())
}

/// Refuses pipes that another process serves: csi-proxy could not open them.
fn refuse_intruders(observed: &Observed) -> Result<(), Failure> {
    for (pipe, probe) in &observed.pipes {
        let mut processes = observed.processes.iter();
        let Some(server) = processes.find(|process| Some(process.id) == probe.server()) else {
            continue;
        };
        let is_known = observed.service.as_ref().is_some_and(|there| {
            belongs_to(server, there.process_id)
                || (there.process_id.is_none() && is_left_of(&there.settings.command, server))
        });
        if !is_known {
            return Err(FailureCategory::Foreign.failure(format!(
                "pipe {pipe} of csi-proxy is served by process {}, {}, which is not that service's; stop it, or remove what starts it",
                server.id, server.program
            )));
        }
    }
    Ok(())
}

/// Returns whether a process may be left over from a service. Its program may have been renamed while it ran.
fn is_left_of(command: &str, process: &SeenProcess) -> bool {
    let path = &process.program;
    runs(command, path) || runs(command, path.strip_suffix(".previous").unwrap_or(path))
}

#[cfg(test)]
pub(crate) mod tests;
