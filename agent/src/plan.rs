//! From a request and what is on the node to the steps between the two.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure_actions::FailureActions;
use crate::journal::{AUTO_START, FileChange, ServiceChange, ServiceSettings};
use crate::seen::{SeenProcess, SeenService, belongs_to, dependents};
use crate::state::{DESCRIPTION_MARK, description};
use protocol::command::{program, same_path};
use protocol::document::Service;
use protocol::order::{key, start_order};
use protocol::{DesiredFile, Failure, FailureCategory, Request, ServicePipes, ServiceState};

/// What is on the node, as far as a request is concerned.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The SHA-256 of each file of the request that is there.
    pub files: BTreeMap<String, String>,
    /// The SHA-256 of each upload that is there; looked at only where a file differs.
    pub uploads: BTreeMap<String, String>,
    /// The services of the request, of the kept request and of those that the agent made, by [`key`].
    pub services: BTreeMap<String, ObservedService>,
    /// The names of services that the agent made or that the kept request has, in start order where one is known.
    pub ours: Vec<String>,
    /// Whether the agent keeps the node to an earlier request.
    pub kept: bool,
    /// The pipes that are open.
    pub open_pipes: BTreeSet<String>,
    /// Who serves the open ones, as far as Windows tells.
    pub pipe_servers: BTreeMap<String, SeenProcess>,
    /// All services of the machine.
    pub machine: Vec<SeenService>,
}

/// A service that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedService {
    /// Its configuration.
    pub settings: ServiceSettings,
    /// Its state.
    pub state: ServiceState,
    /// Its process, while it has one.
    pub process_id: Option<u32>,
    /// What Windows does when it crashes, where Windows tells.
    pub failure_actions: Option<FailureActions>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop a service outside of the request that needs one of the request.
    Pause(String),
    /// Stop a service and wait for its process.
    Stop(String),
    /// Put new content in place.
    Replace(FileChange),
    /// Delete a service.
    Delete(String),
    /// Make a service or change its configuration.
    Configure(Service),
    /// Start a service and wait until it runs.
    Start(String),
    /// Wait for a service's pipes.
    AwaitPipes(ServicePipes),
    /// Start a service outside of the request again.
    Resume(String),
}

/// The steps, and what must be known to go back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// The files that change.
    pub files: Vec<FileChange>,
    /// The services that change.
    pub services: Vec<ServiceChange>,
    /// Services outside of the request that stop meanwhile, in start order.
    pub dependents: Vec<String>,
    /// There is no service to go back to.
    pub first: bool,
}

impl Plan {
    /// Whether anything on the node changes.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        !self.files.is_empty() || !self.services.is_empty()
    }
}

/// Plans the way from what is observed to what a valid request says.
pub fn plan(request: &Request, observed: &Observed) -> Result<Plan, Failure> {
    let order = start_order(&request.services)
        .map_err(|error| Failure::new(FailureCategory::InvalidRequest, error.to_string()))?;
    for service in &order {
        refuse_foreign(request, service, observed)?;
    }
    let files = changed_files(&request.files, observed)?;
    let leaving = leaving(request, observed)?;
    let mut stopping = stopping(request, &order, &files, observed);
    let dependents = dependents_to_stop(&leaving, &stopping, observed);
    let (inside, outside): (Vec<String>, Vec<String>) = dependents
        .iter()
        .cloned()
        .partition(|name| order.iter().any(|service| key(&service.name) == key(name)));

    let mut plan = Plan::default();
    for name in dependents.into_iter().rev() {
        plan.steps.push(if inside.contains(&name) {
            Step::Stop(name)
        } else {
            Step::Pause(name)
        });
    }
    for service in &leaving {
        plan.steps.push(Step::Stop(service.name.clone()));
    }
    for service in order
        .iter()
        .rev()
        .filter(|service| stopping.contains(&key(&service.name)))
    {
        plan.steps.push(Step::Stop(service.name.clone()));
    }
    stopping.extend(inside.iter().map(|name| key(name)));
    plan.steps.extend(
        leaving
            .iter()
            .map(|service| Step::Delete(service.name.clone())),
    );
    plan.steps.extend(files.iter().cloned().map(Step::Replace));
    for service in order {
        let before = observed.services.get(&key(&service.name));
        let configure = before.is_none_or(|before| before.settings != settings(request, service));
        let start = stopping.contains(&key(&service.name))
            || before.is_none_or(|before| !is_up(before.state));
        if configure {
            plan.steps.push(Step::Configure(service.clone()));
        }
        if start {
            plan.steps.push(Step::Start(service.name.clone()));
        }
        if configure || start {
            plan.services.push(change(&service.name, before, observed));
        }
        for pipes in request
            .pipes
            .iter()
            .filter(|pipes| key(&pipes.service) == key(&service.name))
        {
            if start
                || pipes
                    .pipes
                    .iter()
                    .any(|pipe| !observed.open_pipes.contains(pipe))
            {
                plan.steps.push(Step::AwaitPipes(pipes.clone()));
            }
        }
    }
    plan.steps.extend(outside.iter().cloned().map(Step::Resume));
    plan.dependents = outside;
    plan.services.extend(leaving);
    plan.files = files;
    if plan.steps.iter().any(|step| matches!(step, Step::Start(_))) {
        refuse_intruders(request, observed)?;
    }
    plan.first = !observed.kept && plan.services.iter().all(|service| service.before.is_none());
    Ok(plan)
}

/// How a service of a request is to be configured.
#[must_use]
pub fn settings(request: &Request, service: &Service) -> ServiceSettings {
    ServiceSettings {
        command: service.path.clone(),
        description: description(&service.name),
        dependencies: service.dependencies.clone(),
        start_type: AUTO_START,
        environment: request
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
    }
}

/// Whether a service runs or is about to.
#[must_use]
pub fn is_up(state: ServiceState) -> bool {
    matches!(
        state,
        ServiceState::Running | ServiceState::StartPending | ServiceState::Paused
    )
}

fn change(name: &str, before: Option<&ObservedService>, observed: &Observed) -> ServiceChange {
    ServiceChange {
        name: name.to_owned(),
        before: before.map(|before| before.settings.clone()),
        was_running: before.is_some_and(|before| is_up(before.state)),
        // Ours have always the same: what is read may be what a change that was cut off has left.
        failure_actions: before
            .filter(|before| !is_ours(name, before, observed))
            .and_then(|before| before.failure_actions.clone()),
    }
}

fn is_ours(name: &str, service: &ObservedService, observed: &Observed) -> bool {
    service.settings.description.starts_with(DESCRIPTION_MARK)
        || observed.ours.iter().any(|ours| key(ours) == key(name))
}

/// A service that somebody else made is let alone, whatever it runs, unless the request says otherwise.
fn refuse_foreign(
    request: &Request,
    service: &Service,
    observed: &Observed,
) -> Result<(), Failure> {
    match observed.services.get(&key(&service.name)) {
        Some(there) if !request.replace_foreign && !is_ours(&service.name, there, observed) => {
            let message = format!(
                "service {} was not made by windows-storage-operator; its command is: {}; delete it, let its maker look after it, or allow that foreign services are replaced",
                service.name, there.settings.command
            );
            Err(Failure::new(FailureCategory::Foreign, message))
        }
        _ => Ok(()),
    }
}

/// Pipes that another process serves cannot be opened: better to know before anything is stopped.
fn refuse_intruders(request: &Request, observed: &Observed) -> Result<(), Failure> {
    for (service, pipe) in request
        .pipes
        .iter()
        .flat_map(|pipes| pipes.pipes.iter().map(|pipe| (&pipes.service, pipe)))
    {
        let Some(server) = observed.pipe_servers.get(pipe) else {
            continue;
        };
        let known = observed.services.values().any(|there| {
            belongs_to(server, there.process_id)
                || (there.process_id.is_none() && runs(&there.settings.command, server))
        });
        if !known {
            let message = format!(
                "pipe {pipe} of service {service} is served by process {}, {}, which is not that service's; stop it, or remove what starts it",
                server.id, server.program
            );
            return Err(Failure::new(FailureCategory::Foreign, message));
        }
    }
    Ok(())
}

/// Whether a process may be what is left of a service: its program may have been renamed under it.
fn runs(command: &str, process: &SeenProcess) -> bool {
    program(command).is_some_and(|program| {
        same_path(program, &process.program)
            || same_path(&format!("{program}.previous"), &process.program)
    })
}

fn changed_files(files: &[DesiredFile], observed: &Observed) -> Result<Vec<FileChange>, Failure> {
    let mut changes = Vec::new();
    for file in files {
        let current = observed.files.get(&file.path);
        if current == Some(&file.sha256) {
            continue;
        }
        let missing = |what: &str| {
            Failure::new(
                FailureCategory::UploadMissing,
                format!("{} is not as requested, and {what}", file.path),
            )
        };
        let upload = file
            .upload
            .as_ref()
            .ok_or_else(|| missing("no upload is named"))?;
        let content = observed
            .uploads
            .get(upload)
            .ok_or_else(|| missing(&format!("its upload {upload} is not there")))?;
        if *content != file.sha256 {
            let message = format!(
                "{upload} has sha256 {content}, not {} as announced for {}",
                file.sha256, file.path
            );
            return Err(Failure::new(FailureCategory::HashMismatch, message));
        }
        changes.push(FileChange {
            path: file.path.clone(),
            upload: upload.clone(),
            sha256: file.sha256.clone(),
            previous_sha256: current.cloned(),
        });
    }
    Ok(changes)
}

/// Services of ours that the request no longer has, those that start last first.
fn leaving(request: &Request, observed: &Observed) -> Result<Vec<ServiceChange>, Failure> {
    let wanted: BTreeSet<String> = request
        .services
        .iter()
        .map(|service| key(&service.name))
        .collect();
    let mut seen = BTreeSet::new();
    let leaving: Vec<_> = observed
        .ours
        .iter()
        .rev()
        .filter(|name| !wanted.contains(&key(name)) && seen.insert(key(name)))
        .filter_map(|name| {
            observed
                .services
                .get(&key(name))
                .map(|service| change(name, Some(service), observed))
        })
        .collect();
    if wanted.is_empty() && !leaving.is_empty() {
        // An empty list is more likely a mistake on its way here than a wish.
        let message = "the request has no services, but the agent keeps some; they are not removed on an empty list";
        return Err(Failure::new(FailureCategory::InvalidRequest, message));
    }
    Ok(leaving)
}

/// Services that must stop for the change, with all of the request that depend on them.
fn stopping(
    request: &Request,
    order: &[&Service],
    files: &[FileChange],
    observed: &Observed,
) -> BTreeSet<String> {
    let mut stopping = BTreeSet::new();
    // Dependencies come first in the order, so one pass finds dependents of dependents too.
    for service in order {
        let Some(there) = observed.services.get(&key(&service.name)) else {
            continue;
        };
        let runs_changed_file = [&there.settings.command, &service.path]
            .into_iter()
            .filter_map(|command| program(command))
            .any(|program| files.iter().any(|file| same_path(&file.path, program)));
        let needs_stopped = service
            .dependencies
            .iter()
            .chain(&there.settings.dependencies)
            .any(|name| stopping.contains(&key(name)));
        let wanted = settings(request, service);
        let runs_otherwise = there.settings.command != wanted.command
            || there.settings.environment != wanted.environment;
        if runs_changed_file || needs_stopped || runs_otherwise {
            stopping.insert(key(&service.name));
        }
    }
    stopping
}

/// Services that nothing of the request makes stop, but that Windows has depend on one that stops; in start order.
fn dependents_to_stop(
    leaving: &[ServiceChange],
    stopping: &BTreeSet<String>,
    observed: &Observed,
) -> Vec<String> {
    let leaving = leaving.iter().map(|service| key(&service.name));
    let all: BTreeSet<String> = stopping.iter().cloned().chain(leaving).collect();
    dependents(&all, &observed.machine)
        .into_iter()
        .map(|service| service.name.clone())
        .collect()
}

#[cfg(test)]
pub(crate) mod tests;
