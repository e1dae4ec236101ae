//! What is on the node.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread;

use protocol::order::{key, start_order};
use protocol::paths::{AGENT_EXE, AGENT_SERVICE, DESIRED_FILE, JOURNAL_FILE, STATE_FILE};
use protocol::{
    Failure, FailureCategory, FileStatus, ForeignInstance, NodeState, PipeStatus, Request,
    ServiceState, ServiceStatus,
};
use windows_storage_agent::errors::{failed_to, service_failed_to};
use windows_storage_agent::journal::Journal;
use windows_storage_agent::plan::{Observed, ObservedService};
use windows_storage_agent::scripts::resolved;
use windows_storage_agent::seen::{SeenProcess, foreign};
use windows_storage_agent::state::Memory;

use super::scm::Scm;
use super::{files, machine, pipes, store};

/// What the agent has on disk.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The request that the node is kept to.
    pub request: Option<Request>,
    /// What else it remembers.
    pub memory: Memory,
    /// Whether something of the memory is not on disk yet.
    pub unsaved: bool,
}

impl Kept {
    /// The request as it was carried out: with what scripts said filled in.
    pub fn carried_out(&self) -> Option<Request> {
        self.request
            .as_ref()
            .map(|request| resolved(request, &self.memory.commands))
    }

    /// Services that only the agent changes.
    fn ours(&self) -> Vec<String> {
        let kept = self.request.iter().flat_map(|request| &request.services);
        kept.map(|service| &service.name)
            .chain(&self.memory.ours)
            .cloned()
            .collect()
    }
}

/// What `status` prints: read from disk and from Windows, without the service.
///
/// The journal is read first: the end of a request is noted before its journal goes, so that whoever finds no journal
/// also finds the end.
pub fn status(extra_files: &[String], extra_pipes: &[String]) -> Result<NodeState, Failure> {
    let unfinished = unfinished()?;
    let kept = Kept {
        request: store::load(DESIRED_FILE)?,
        memory: store::load(STATE_FILE)?.unwrap_or_default(),
        unsaved: false,
    };
    let state = node_state(&kept, extra_files, extra_pipes)?;
    Ok(NodeState {
        unfinished_request_id: unfinished,
        ..state
    })
}

fn unfinished() -> Result<Option<String>, Failure> {
    Ok(store::load::<Journal>(JOURNAL_FILE)?.map(|journal| journal.request.id))
}

/// What the node looks like now.
pub fn node_state(
    kept: &Kept,
    extra_files: &[String],
    extra_pipes: &[String],
) -> Result<NodeState, Failure> {
    let scm =
        Scm::look().map_err(|error| failed_to("reaching the Service Control Manager", &error))?;
    let request = kept.request.as_ref();
    let mut services = Vec::new();
    for service in request.iter().flat_map(|request| &request.services) {
        services.push(service_status(&scm, &service.name, &kept.memory)?);
    }
    let mut paths: Vec<&String> = request
        .iter()
        .flat_map(|request| &request.files)
        .map(|file| &file.path)
        .chain(extra_files)
        .collect();
    let mut names: Vec<&String> = request
        .iter()
        .flat_map(|request| &request.pipes)
        .flat_map(|pipes| &pipes.pipes)
        .chain(extra_pipes)
        .collect();
    without_doubles(&mut paths);
    without_doubles(&mut names);
    let agent_service = service_status(&scm, AGENT_SERVICE, &kept.memory)?.state;
    // Windows is asked while files are read.
    let (files, foreign) = thread::scope(|scope| {
        let files = scope.spawn(|| look_at_all(&paths));
        let foreign = find_foreign(kept);
        (joined(files), foreign)
    });
    let (files, agent_sha256) = files?;
    Ok(NodeState {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        agent_sha256,
        agent_service,
        request_id: request.map(|request| request.id.clone()),
        unfinished_request_id: unfinished()?,
        running_agent_sha256: kept
            .memory
            .running_agent_sha256
            .clone()
            .filter(|_| agent_service == ServiceState::Running),
        foreign: foreign?,
        services,
        files,
        pipes: names
            .into_iter()
            .map(|name| PipeStatus {
                name: name.clone(),
                open: pipes::is_open(name),
            })
            .collect(),
        last_result: kept.memory.last_result.clone(),
    })
}

fn look_at_all(paths: &[&String]) -> Result<(Vec<FileStatus>, Option<String>), Failure> {
    let mut files = Vec::new();
    for path in paths {
        files.push(FileStatus {
            path: (*path).clone(),
            sha256: look(path)?,
        });
    }
    Ok((files, look(AGENT_EXE)?))
}

fn find_foreign(kept: &Kept) -> Result<Vec<ForeignInstance>, Failure> {
    Ok(foreign(
        &machine::services().map_err(|error| failed_to("listing services", &error))?,
        &machine::processes(&[]).map_err(|error| failed_to("listing processes", &error))?,
        &kept.ours(),
    ))
}

/// What a thread has found; one that panics ends the process.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What the planner needs to know.
pub fn observe(scm: &Scm, request: &Request, kept: &Kept) -> Result<Observed, Failure> {
    let mut observed = Observed {
        kept: kept.request.is_some(),
        ..Observed::default()
    };
    if let Some(order) = kept
        .request
        .as_ref()
        .and_then(|kept| start_order(&kept.services).ok())
    {
        observed
            .ours
            .extend(order.iter().map(|service| service.name.clone()));
    }
    for name in &kept.memory.ours {
        if !observed.ours.iter().any(|known| key(known) == key(name)) {
            observed.ours.push(name.clone());
        }
    }
    for file in &request.files {
        let (current, upload) = thread::scope(|scope| {
            let upload = file
                .upload
                .as_ref()
                .map(|upload| scope.spawn(|| hash(upload)));
            let current = hash(&file.path);
            (current, upload.map(joined))
        });
        let current = current?;
        if current.as_ref() != Some(&file.sha256)
            && let Some((path, sha256)) = file.upload.as_ref().zip(upload.transpose()?.flatten())
        {
            observed.uploads.insert(path.clone(), sha256);
        }
        if let Some(current) = current {
            observed.files.insert(file.path.clone(), current);
        }
    }
    for name in request
        .services
        .iter()
        .map(|service| &service.name)
        .chain(&observed.ours)
    {
        let looked = scm.open(name).and_then(|service| {
            service
                .map(|service| {
                    let status = service.status()?;
                    Ok::<_, io::Error>(ObservedService {
                        settings: service.settings()?,
                        state: status.state,
                        process_id: status.process_id,
                        failure_actions: service.failure_actions().ok(),
                    })
                })
                .transpose()
        });
        if let Some(service) = looked.map_err(|error| {
            service_failed_to(
                &format!("looking at service {name}"),
                &error,
                FailureCategory::Internal,
            )
        })? {
            observed.services.insert(key(name), service);
        }
    }
    observed.open_pipes = request
        .pipes
        .iter()
        .flat_map(|pipes| &pipes.pipes)
        .filter(|pipe| pipes::is_open(pipe))
        .cloned()
        .collect();
    observed.pipe_servers =
        servers(&observed.open_pipes).map_err(|error| failed_to("listing processes", &error))?;
    observed.machine =
        machine::services().map_err(|error| failed_to("listing services", &error))?;
    Ok(observed)
}

/// Who serves each of the pipes, as far as Windows tells.
fn servers(open: &BTreeSet<String>) -> io::Result<BTreeMap<String, SeenProcess>> {
    let ids: BTreeMap<&String, u32> = open
        .iter()
        .filter_map(|pipe| Some((pipe, pipes::server_of(pipe)?)))
        .collect();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let wanted: Vec<u32> = ids.values().copied().collect();
    let processes = machine::processes(&wanted)?;
    Ok(ids
        .into_iter()
        .filter_map(|(pipe, id)| {
            let process = processes.iter().find(|process| process.id == id)?;
            Some((pipe.clone(), process.clone()))
        })
        .collect())
}

fn service_status(scm: &Scm, name: &str, memory: &Memory) -> Result<ServiceStatus, Failure> {
    let failed = |error| {
        service_failed_to(
            &format!("looking at service {name}"),
            &error,
            FailureCategory::Internal,
        )
    };
    let mut status = ServiceStatus {
        name: name.to_owned(),
        state: ServiceState::Missing,
        process_id: None,
        command: None,
        restarts: memory.restarts.get(name).copied().unwrap_or(0),
        failing: memory.failing.get(&key(name)).cloned(),
    };
    if let Some(service) = scm.open(name).map_err(failed)? {
        let now = service.status().map_err(failed)?;
        status.state = now.state;
        status.process_id = now.process_id;
        status.command = Some(service.settings().map_err(failed)?.command);
    }
    Ok(status)
}

fn hash(path: &str) -> Result<Option<String>, Failure> {
    files::sha256(path).map_err(|error| failed_to(&format!("reading {path}"), &error))
}

fn look(path: &str) -> Result<Option<String>, Failure> {
    files::sha256_to_look(path).map_err(|error| failed_to(&format!("reading {path}"), &error))
}

fn without_doubles(names: &mut Vec<&String>) {
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.to_lowercase()));
}
