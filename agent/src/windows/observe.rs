//! Reads the state of the node.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Instant;

use protocol::order::{key, start_order};
use protocol::paths::{
    AGENT_EXE, AGENT_SERVICE, CSI_PROXY_SERVICE, DESIRED_FILE, JOURNAL_FILE, STATE_FILE,
};
use protocol::seen::{contains, foreign};
use protocol::{
    Failure, FileStatus, ForeignInstance, NodeState, PipeStatus, Request, ServiceState,
    ServiceStatus,
};
use windows_storage_agent::errors::Context;
use windows_storage_agent::journal::Journal;
use windows_storage_agent::plan::{Observed, ObservedService};
use windows_storage_agent::probe::Probe;
use windows_storage_agent::scripts::resolved;
use windows_storage_agent::state::Memory;

use super::probe::{self, GREETING};
use super::scm::{OpenService, READ, Scm};
use super::{apply, files, machine, store};

/// What the agent stores on disk.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The stored request, which the agent enforces on the node.
    pub request: Option<Request>,
    /// Everything else that the agent remembers.
    pub memory: Memory,
}

impl Kept {
    /// Returns the request as it was carried out, with the output of scripts filled in.
    pub fn carried_out(&self) -> Option<Request> {
        let request = self.request.as_ref()?;
        Some(resolved(request, &self.memory.commands))
    }

    /// Returns the services that only the agent changes, each once, in start order where one is known.
    pub fn ours(&self) -> Vec<String> {
        let kept = self.request.as_ref().map(|request| &request.services);
        let order = kept
            .and_then(|services| start_order(services).ok())
            .unwrap_or_default();
        let mut ours: Vec<String> = order.iter().map(|service| service.name.clone()).collect();
        for name in &self.memory.ours {
            if !contains(&ours, name) {
                ours.push(name.clone());
            }
        }
        ours
    }
}

/// Returns what `status` prints. It is read from disk and from Windows; the service is only asked whether it answers.
///
/// The journal is read first. The end of a request is recorded before its journal is removed, so a reader that finds no
/// journal also finds the end.
pub fn status(extra_files: &[String], extra_pipes: &[String]) -> Result<NodeState, Failure> {
    let journal = store::load(JOURNAL_FILE)?;
    let kept = Kept {
        request: store::load(DESIRED_FILE)?,
        memory: store::load(STATE_FILE)?.unwrap_or_default(),
    };
    let mut state = node_state(journal, &kept, extra_files, extra_pipes)?;
    if state.agent_service == ServiceState::Running {
        let answers = apply::check_answers(Instant::now() + apply::ANSWER);
        state.agent_problem = answers.err().map(|failure| failure.message);
    }
    Ok(state)
}

/// Returns the current state of the node.
pub fn node_state(
    journal: Option<Journal>,
    kept: &Kept,
    extra_files: &[String],
    extra_pipes: &[String],
) -> Result<NodeState, Failure> {
    let scm = Scm::connect().context("reaching the Service Control Manager")?;
    let (request, memory) = (kept.request.as_ref(), &kept.memory);
    let services = request.iter().flat_map(|request| &request.services);
    let services: Vec<ServiceStatus> = services
        .map(|service| service_status(&scm, &service.name, memory))
        .collect::<Result<_, _>>()?;
    let files = request.iter().flat_map(|request| &request.files);
    let paths = without_doubles(files.map(|file| &file.path).chain(extra_files));
    let pipes = request.iter().flat_map(|request| &request.pipes);
    let pipes = without_doubles(pipes.flat_map(|of| &of.pipes).chain(extra_pipes));
    let pipes = pipe_statuses(&scm, request, &pipes)?;
    let agent_service = service_status(&scm, AGENT_SERVICE, memory)?.state;
    // Queries Windows while the files are read.
    let (files, foreign) = thread::scope(|scope| {
        let files = scope.spawn(|| read_files(&paths));
        let foreign = find_foreign(kept);
        (joined(files), foreign)
    });
    let (files, agent_sha256) = files?;
    let running = memory.running_agent_sha256.clone();
    Ok(NodeState {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        agent_sha256,
        agent_service,
        agent_problem: None,
        request_id: request.map(|request| request.id.clone()),
        unfinished_request_id: journal.map(|journal| journal.request.id),
        running_agent_sha256: running.filter(|_| agent_service == ServiceState::Running),
        foreign: foreign?,
        services,
        files,
        pipes,
        last_result: memory.last_result.clone(),
    })
}

/// Probes each of these pipes as a pipe of the service that it belongs to: csi-proxy's if no request lists it.
fn pipe_statuses(
    scm: &Scm,
    request: Option<&Request>,
    names: &[String],
) -> Result<Vec<PipeStatus>, Failure> {
    let process_of = |name: &String| {
        let mut of = request.iter().flat_map(|request| &request.pipes);
        let service = of.find(|of| of.pipes.contains(name));
        let service = service.map_or(CSI_PROXY_SERVICE, |of| &of.service);
        let status = scm.status(service);
        let status = status.context(format_args!("reading the state of service {service}"))?;
        Ok(status.and_then(|status| status.process_id))
    };
    let all = || names.iter().map(process_of).collect::<Result<Vec<_>, _>>();
    let before = all()?;
    let mut probes = probe::all(names.iter(), GREETING);
    let own = all()?;
    if own != before {
        // The service was restarted meanwhile, so the result may belong to either process.
        probes = probe::all(names.iter(), GREETING);
    }
    let processes = probe::processes(&probes).context("listing processes")?;
    let status = |(name, own): (&String, Option<u32>)| {
        let probe = probes.get(name).copied().unwrap_or(Probe::Closed);
        let open = probe != Probe::Closed;
        let problem = probe.problem(own, &processes).filter(|_| open);
        Ok(PipeStatus {
            name: name.clone(),
            open,
            problem: problem.map(|problem| problem.to_string()),
        })
    };
    names.iter().zip(own).map(status).collect()
}

fn read_files(paths: &[String]) -> Result<(Vec<FileStatus>, Option<String>), Failure> {
    let status = |path: &String| {
        let sha256 = files::sha256_within(path, files::BRIEF)?;
        let path = path.clone();
        Ok(FileStatus { path, sha256 })
    };
    let files = paths.iter().map(status).collect::<Result<_, _>>()?;
    Ok((files, files::sha256_within(AGENT_EXE, files::BRIEF)?))
}

fn find_foreign(kept: &Kept) -> Result<Vec<ForeignInstance>, Failure> {
    let services = machine::services().context("listing services")?;
    let processes = machine::processes(&[]).context("listing processes")?;
    let mut ours = kept.ours();
    ours.retain(|name| !kept.memory.contested.contains(&key(name)));
    Ok(foreign(&services, &processes, &ours))
}

/// Returns a thread's result; a panic of the thread is passed on.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    let joined = thread.join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns what the planner needs to know.
pub fn observe(scm: &Scm, request: &Request, kept: &Kept) -> Result<Observed, Failure> {
    let ours = kept.ours();
    let (mut current_files, mut uploads) = (BTreeMap::new(), BTreeMap::new());
    for file in &request.files {
        let (current, upload) = thread::scope(|scope| {
            let upload = file.upload.as_ref();
            let upload = upload.map(|upload| scope.spawn(|| files::sha256(upload)));
            (files::sha256(&file.path), upload.map(joined))
        });
        let current = current?;
        if current.as_ref() != Some(&file.sha256)
            && let Some((path, sha256)) = file.upload.as_ref().zip(upload.transpose()?.flatten())
        {
            uploads.insert(path.clone(), sha256);
        }
        if let Some(current) = current {
            current_files.insert(file.path.clone(), current);
        }
    }
    let mut services = BTreeMap::new();
    let wanted = request.services.iter().map(|service| &service.name);
    for name in wanted.chain(&ours) {
        if let Some(there) = observe_service(scm, name)? {
            services.insert(key(name), there);
        }
    }
    let pipes = request.pipes.iter().flat_map(|of| &of.pipes);
    let probes = probe::all(pipes, GREETING);
    let processes = probe::processes(&probes).context("listing processes")?;
    Ok(Observed {
        files: current_files,
        uploads,
        services,
        ours,
        kept: kept.request.is_some(),
        pipes: probes,
        processes,
        machine: machine::services().context("listing services")?,
    })
}

fn observe_service(scm: &Scm, name: &str) -> Result<Option<ObservedService>, Failure> {
    let observe = |service: OpenService| {
        let status = service.status()?;
        Ok(ObservedService {
            settings: service.settings(name)?,
            state: status.state,
            process_id: status.process_id,
            failure_actions: service.failure_actions().ok(),
        })
    };
    let opened = scm.open(name, READ);
    let observed = opened.and_then(|it| it.map(observe).transpose());
    observed.context(format_args!("reading the state of service {name}"))
}

fn service_status(scm: &Scm, name: &str, memory: &Memory) -> Result<ServiceStatus, Failure> {
    let there = observe_service(scm, name)?;
    Ok(ServiceStatus {
        name: name.to_owned(),
        state: (there.as_ref()).map_or(ServiceState::Missing, |there| there.state),
        process_id: there.as_ref().and_then(|there| there.process_id),
        command: there.map(|there| there.settings.command),
        restarts: memory.restarts.get(&key(name)).copied().unwrap_or(0),
        failing: memory.failing.get(&key(name)).cloned(),
    })
}

fn without_doubles<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let first = names.filter(|name| seen.insert(key(name)));
    first.cloned().collect()
}
