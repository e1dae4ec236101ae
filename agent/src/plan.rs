//! Plans the steps from the node's current state to what a request asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::failure_actions::FailureActions;
use crate::journal::{AUTO_START, Change, FileChange, ServiceChange, ServiceSettings};
use crate::probe::Probe;
use crate::state::description;
use protocol::document::Service;
use protocol::order::{key, same_name, start_order};
use protocol::seen::{
    DESCRIPTION_MARK, SeenProcess, SeenService, belongs_to, contains, dependents, runs,
};
use protocol::{DesiredFile, Failure, FailureCategory, Request, ServicePipes, ServiceState};

/// The state of the node, as far as it matters for a request.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The SHA-256 of each file of the request that exists.
    pub files: BTreeMap<String, String>,
    /// The SHA-256 of each upload that exists; read only where the file differs.
    pub uploads: BTreeMap<String, String>,
    /// The services of the request, of the stored request and those that the agent created, by [`key`].
    pub services: BTreeMap<String, ObservedService>,
    /// The names of services that the agent created or that the stored request lists, in start order where one is known.
    pub ours: Vec<String>,
    /// Whether the agent has a stored request.
    pub kept: bool,
    /// The probe results for the request's pipes.
    pub pipes: BTreeMap<String, Probe>,
    /// The processes that serve the pipes, among others.
    pub processes: Vec<SeenProcess>,
    /// All services of the machine.
    pub machine: Vec<SeenService>,
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
    /// Its failure actions, if Windows reports them.
    pub failure_actions: Option<FailureActions>,
}

/// One step; its `Display` form is what the log shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop a service outside the request that depends on one of the request.
    Pause(String),
    /// Stop a service and wait for its process.
    Stop(String),
    /// Put new content in place.
    Replace(FileChange),
    /// Delete a service.
    Delete(String),
    /// Create a service or change its configuration.
    Configure(Service),
    /// Start a service and wait until it runs.
    Start(String),
    /// Wait until a service's pipes answer.
    AwaitPipes(ServicePipes),
    /// Start a service outside the request again.
    Resume(String),
}

impl fmt::Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause(name) => write!(to, "stop service {name} of others"),
            Self::Stop(name) => write!(to, "stop service {name}"),
            Self::Replace(file) => {
                let now = file.previous_sha256.as_deref().unwrap_or("absent");
                write!(to, "replace {}, now {now}, by {}", file.path, file.sha256)
            }
            Self::Delete(name) => write!(to, "delete service {name}"),
            Self::Configure(Service { name, path, .. }) => {
                write!(to, "configure service {name} as: {path}")
            }
            Self::Start(name) => write!(to, "start service {name}"),
            Self::AwaitPipes(of) => write!(to, "await {} pipes of {}", of.pipes.len(), of.service),
            Self::Resume(name) => write!(to, "start service {name} of others again"),
        }
    }
}

/// The steps, and what they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// What changes.
    pub change: Change,
}

impl Plan {
    /// Whether anything on the node changes.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        !self.change.files.is_empty() || !self.change.services.is_empty()
    }
}

/// Plans the steps from the observed state to the state that a valid request asks for.
pub fn plan(request: &Request, observed: &Observed) -> Result<Plan, Failure> {
    let order = start_order(&request.services)?;
    for service in &order {
        refuse_foreign(request, service, observed)?;
    }
    let files = changed_files(&request.files, observed)?;
    let leaving = leaving(request, observed)?;
    let mut stopping = stopping(request, &order, &files, observed);

    let names = leaving.iter().map(|service| key(&service.name));
    let all: BTreeSet<_> = stopping.iter().cloned().chain(names).collect();
    // Services that this change has no reason of its own to stop, but that depend on one that stops.
    let dependents = dependents(&all, &observed.machine);
    let listed: BTreeSet<_> = order.iter().map(|service| key(&service.name)).collect();
    let is_listed = |dependent: &&SeenService| listed.contains(&key(&dependent.name));
    let (inside, outside): (Vec<&SeenService>, Vec<_>) =
        dependents.iter().partition(|it| is_listed(it));
    let outside: Vec<String> = outside.iter().map(|it| it.name.clone()).collect();

    let mut steps = Vec::new();
    for dependent in dependents.iter().rev() {
        let step = if is_listed(dependent) {
            Step::Stop
        } else {
            Step::Pause
        };
        steps.push(step(dependent.name.clone()));
    }
    let names = leaving.iter().map(|service| &service.name);
    steps.extend(names.clone().cloned().map(Step::Stop));
    let stopped = order.iter().rev().map(|service| &service.name);
    let stopped = stopped.filter(|name| stopping.contains(&key(name)));
    steps.extend(stopped.cloned().map(Step::Stop));
    steps.extend(names.cloned().map(Step::Delete));
    steps.extend(files.iter().cloned().map(Step::Replace));

    stopping.extend(inside.iter().map(|service| key(&service.name)));
    let mut services = Vec::new();
    for service in order {
        let name = &service.name;
        let before = observed.services.get(&key(name));
        let configure = before.is_none_or(|before| before.settings != settings(request, service));
        let start =
            stopping.contains(&key(name)) || before.is_none_or(|before| !is_up(before.state));
        if configure {
            steps.push(Step::Configure(service.clone()));
        }
        if start {
            steps.push(Step::Start(name.clone()));
        }
        if configure || start {
            services.push(service_change(name, before, observed));
        }
        let greets = |pipe: &String| matches!(observed.pipes.get(pipe), Some(Probe::Greets(_)));
        let is_awaited = |of: &&ServicePipes| {
            same_name(&of.service, name) && (start || !of.pipes.iter().all(greets))
        };
        let awaited = request.pipes.iter().filter(is_awaited);
        steps.extend(awaited.cloned().map(Step::AwaitPipes));
    }
    steps.extend(outside.iter().cloned().map(Step::Resume));
    services.extend(leaving);
    if steps.iter().any(|step| matches!(step, Step::Start(_))) {
        refuse_intruders(request, observed)?;
    }
    let change = Change {
        first: !observed.kept && services.iter().all(|service| service.before.is_none()),
        files,
        services,
        dependents: outside,
    };
    Ok(Plan { steps, change })
}

/// Returns the configuration that a request asks for.
#[must_use]
pub fn settings(request: &Request, service: &Service) -> ServiceSettings {
    let variables = request.environment.iter();
    let variables = variables.map(|(name, value)| format!("{name}={value}"));
    ServiceSettings {
        command: service.path.clone(),
        description: description(&service.name),
        dependencies: service.dependencies.clone(),
        start_type: AUTO_START,
        environment: variables.collect(),
    }
}

/// Returns whether a service runs or is about to run.
#[must_use]
pub fn is_up(state: ServiceState) -> bool {
    use ServiceState::{Paused, Running, StartPending};
    matches!(state, Running | StartPending | Paused)
}

fn service_change(
    name: &str,
    before: Option<&ObservedService>,
    observed: &Observed,
) -> ServiceChange {
    // The agent's own services always have the same ones. What Windows reports may be left over from an interrupted change.
    let theirs = before.filter(|before| !is_ours(name, before, observed));
    ServiceChange {
        name: name.to_owned(),
        before: before.map(|before| before.settings.clone()),
        was_running: before.is_some_and(|before| is_up(before.state)),
        failure_actions: theirs.and_then(|before| before.failure_actions.clone()),
    }
}

fn is_ours(name: &str, service: &ObservedService, observed: &Observed) -> bool {
    service.settings.description.starts_with(DESCRIPTION_MARK) || contains(&observed.ours, name)
}

/// Refuses to change a foreign service, whatever it runs, unless the request allows it.
fn refuse_foreign(
    request: &Request,
    service: &Service,
    observed: &Observed,
) -> Result<(), Failure> {
    let name = &service.name;
    match observed.services.get(&key(name)) {
        Some(there) if !request.replace_foreign && !is_ours(name, there, observed) => {
            Err(FailureCategory::Foreign.failure(format!(
                "service {name} was not made by windows-storage-operator; its command is: {}; delete it, leave it to its owner, or allow foreign services to be replaced",
                there.settings.command
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses pipes that another process serves, before anything is stopped: the service could not open them.
fn refuse_intruders(request: &Request, observed: &Observed) -> Result<(), Failure> {
    for of in &request.pipes {
        for pipe in &of.pipes {
            let id = observed.pipes.get(pipe).and_then(|probe| probe.server());
            let mut processes = observed.processes.iter();
            let Some(server) = processes.find(|process| Some(process.id) == id) else {
                continue;
            };
            let is_known = observed.services.values().any(|there| {
                belongs_to(server, there.process_id)
                    || (there.process_id.is_none() && is_left_of(&there.settings.command, server))
            });
            if !is_known {
                return Err(FailureCategory::Foreign.failure(format!(
                    "pipe {pipe} of service {} is served by process {}, {}, which is not that service's; stop it, or remove what starts it",
                    of.service, server.id, server.program
                )));
            }
        }
    }
    Ok(())
}

/// Returns whether a process may be left over from a service. Its program may have been renamed while it ran.
fn is_left_of(command: &str, process: &SeenProcess) -> bool {
    let path = &process.program;
    runs(command, path) || runs(command, path.strip_suffix(".previous").unwrap_or(path))
}

fn changed_files(files: &[DesiredFile], observed: &Observed) -> Result<Vec<FileChange>, Failure> {
    let mut changes = Vec::new();
    for file in files {
        let (path, sha256) = (&file.path, &file.sha256);
        let current = observed.files.get(path);
        if current == Some(sha256) {
            continue;
        }
        let missing = |what| {
            let message = format!("{path} is not as requested, and {what}");
            FailureCategory::UploadMissing.failure(message)
        };
        let upload = file.upload.as_ref();
        let upload = upload.ok_or_else(|| missing("no upload is named".to_owned()))?;
        let content = observed.uploads.get(upload);
        let content =
            content.ok_or_else(|| missing(format!("its upload {upload} is not there")))?;
        if content != sha256 {
            let message =
                format!("{upload} has sha256 {content}, not {sha256} as announced for {path}");
            return Err(FailureCategory::HashMismatch.failure(message));
        }
        changes.push(FileChange {
            path: path.clone(),
            upload: upload.clone(),
            sha256: sha256.clone(),
            previous_sha256: current.cloned(),
        });
    }
    Ok(changes)
}

/// Returns the agent's services that the request no longer lists, in reverse start order.
fn leaving(request: &Request, observed: &Observed) -> Result<Vec<ServiceChange>, Failure> {
    let mut known: BTreeSet<_> = request.services.iter().map(|it| key(&it.name)).collect();
    let ours = observed.ours.iter().rev();
    let gone = ours.filter(|name| known.insert(key(name)));
    let change = |name: &String| {
        let there = observed.services.get(&key(name))?;
        Some(service_change(name, Some(there), observed))
    };
    let leaving: Vec<_> = gone.filter_map(change).collect();
    if request.services.is_empty() && !leaving.is_empty() {
        // An empty list is more likely an error on the way here than intended.
        let message = "the request has no services, but the agent keeps some; they are not removed on an empty list";
        return Err(FailureCategory::InvalidRequest.failure(message));
    }
    Ok(leaving)
}

/// Returns the services that must stop for the change, including all services of the request that depend on them.
fn stopping(
    request: &Request,
    order: &[&Service],
    files: &[FileChange],
    observed: &Observed,
) -> BTreeSet<String> {
    let mut stopping = BTreeSet::new();
    // Dependencies come first in the order, so one pass also finds indirect dependents.
    for service in order {
        let Some(there) = observed.services.get(&key(&service.name)) else {
            continue;
        };
        let (now, wanted) = (&there.settings, settings(request, service));
        let mut files = files.iter();
        let runs_changed_file =
            files.any(|file| runs(&now.command, &file.path) || runs(&wanted.command, &file.path));
        let mut needs = now.dependencies.iter().chain(&wanted.dependencies);
        if runs_changed_file
            || needs.any(|name| stopping.contains(&key(name)))
            || now.command != wanted.command
            || now.environment != wanted.environment
        {
            stopping.insert(key(&service.name));
        }
    }
    stopping
}

#[cfg(test)]
pub(crate) mod tests;
