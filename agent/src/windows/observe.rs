//! Reads the state of the node.

use std::collections::BTreeSet;
use std::thread;

use protocol::paths::{
    AGENT_EXE, AGENT_SERVICE, CSI_PROXY_EXE, CSI_PROXY_SERVICE, DESIRED_FILE, JOURNAL_FILE,
    STATE_FILE,
};
use protocol::seen::{dependents, foreign};
use protocol::{
    CsiProxyStatus, Failure, ForeignInstance, NodeState, PipeStatus, Request, ServiceState,
};
use windows_storage_agent::errors::Context;
use windows_storage_agent::journal::Journal;
use windows_storage_agent::probe::Probe;
use windows_storage_agent::state::Memory;
use windows_storage_agent::wanted::{Observed, ObservedService, Wanted};

use super::probe::{self, GREETING};
use super::scm::{OpenService, READ, Scm};
use super::{files, machine, presence, store};

/// What the agent stores on disk.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The stored request, which the agent enforces on the node.
    pub request: Option<Request>,
    /// Everything else that the agent remembers.
    pub memory: Memory,
}

impl Kept {
    /// Returns whether csi-proxy's service is the agent's whatever its description: it keeps a request, and no other program
    /// manages the service.
    pub fn is_ours(&self) -> bool {
        self.request.is_some() && !self.memory.contested
    }
}

/// Returns what `status` prints. It is read from disk and from Windows.
///
/// The journal is read first. The end of a request is recorded before its journal is removed, so a reader that finds no
/// journal also finds the end.
pub fn status(extra_pipes: &[String]) -> Result<NodeState, Failure> {
    let journal: Option<Journal> = store::load(JOURNAL_FILE)?;
    let kept = Kept {
        request: store::load(DESIRED_FILE)?,
        memory: store::load(STATE_FILE)?.unwrap_or_default(),
    };
    let scm = Scm::connect().context("reaching the Service Control Manager")?;
    let (request, memory) = (kept.request.as_ref(), &kept.memory);
    let pipes = request.iter().flat_map(|request| &request.pipes);
    let mut seen = BTreeSet::new();
    let mut pipes: Vec<String> = pipes.chain(extra_pipes).cloned().collect();
    pipes.retain(|name| seen.insert(name.to_lowercase()));
    let pipes = pipe_statuses(&scm, &pipes)?;
    let agent = scm.status(AGENT_SERVICE);
    let agent = agent.context("reading the state of the agent's service")?;
    let runs = agent.filter(|agent| agent.state == ServiceState::Running);
    let there = observe_service(&scm, CSI_PROXY_SERVICE)?;
    let there = there.as_ref();
    // Queries Windows while the files are read.
    let (hashes, foreign) = thread::scope(|scope| {
        let read = |path| files::sha256_within(path, files::BRIEF);
        let hashes = scope.spawn(move || Ok((read(CSI_PROXY_EXE)?, read(AGENT_EXE)?)));
        let foreign = find_foreign(&kept);
        (joined(hashes), foreign)
    });
    let (sha256, agent_sha256) = hashes?;
    Ok(NodeState {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        agent_sha256,
        agent_service: agent.map_or(ServiceState::Missing, |agent| agent.state),
        agent_problem: runs.and_then(|agent| presence::problem(agent.process_id)),
        request_id: request.map(|request| request.id.clone()),
        unfinished_request_id: journal.map(|journal| journal.request.id),
        running_agent_sha256: runs.and_then(|_| presence::program()),
        foreign: foreign?,
        csi_proxy: CsiProxyStatus {
            state: there.map_or(ServiceState::Missing, |there| there.state),
            process_id: there.and_then(|there| there.process_id),
            command: there.map(|there| there.settings.command.clone()),
            sha256,
            restarts: memory.restarts,
            failing: memory.failing.clone(),
        },
        pipes,
        last_result: memory.last_result.clone(),
    })
}

/// Probes each of these pipes as one of csi-proxy's.
fn pipe_statuses(scm: &Scm, names: &[String]) -> Result<Vec<PipeStatus>, Failure> {
    let process = || {
        let there = observe_service(scm, CSI_PROXY_SERVICE)?;
        Ok(there.and_then(|there| there.process_id))
    };
    let before = process()?;
    let mut probes = probe::all(names.iter(), GREETING);
    let own = process()?;
    if own != before {
        // The service was restarted meanwhile, so the result may belong to either process.
        probes = probe::all(names.iter(), GREETING);
    }
    let processes = probe::processes(&probes).context("listing processes")?;
    let status = |name: &String| {
        let probe = probes.get(name).copied().unwrap_or(Probe::Closed);
        let open = probe != Probe::Closed;
        let problem = probe.problem(own, &processes).filter(|_| open);
        PipeStatus {
            name: name.clone(),
            open,
            problem: problem.map(|problem| problem.to_string()),
        }
    };
    Ok(names.iter().map(status).collect())
}

fn find_foreign(kept: &Kept) -> Result<Vec<ForeignInstance>, Failure> {
    let services = machine::services().context("listing services")?;
    let processes = machine::processes(&[]).context("listing processes")?;
    Ok(foreign(&services, &processes, kept.is_ours()))
}

/// Returns a thread's result; a panic of the thread is passed on.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    let joined = thread.join();
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns what the plan for a wanted state rests on.
pub fn observe(scm: &Scm, wanted: &Wanted) -> Result<Observed, Failure> {
    let (sha256, from_sha256) = thread::scope(|scope| {
        let from = wanted.from.as_ref();
        let from = from.map(|from| scope.spawn(|| files::sha256(from)));
        (files::sha256(CSI_PROXY_EXE), from.map(joined))
    });
    let sha256 = sha256?;
    let from_sha256 = if sha256 == wanted.sha256 {
        None
    } else {
        from_sha256.transpose()?.flatten()
    };
    let probes = probe::all(wanted.pipes.iter(), GREETING);
    let processes = probe::processes(&probes).context("listing processes")?;
    let services = machine::services().context("listing services")?;
    Ok(Observed {
        sha256,
        from_sha256,
        service: observe_service(scm, CSI_PROXY_SERVICE)?,
        pipes: probes,
        processes,
        dependents: dependents(&services).map(str::to_owned).collect(),
    })
}

fn observe_service(scm: &Scm, name: &str) -> Result<Option<ObservedService>, Failure> {
    let observe = |service: OpenService| {
        let status = service.status()?;
        Ok(ObservedService {
            settings: service.settings(name)?,
            state: status.state,
            process_id: status.process_id,
        })
    };
    let opened = scm.open(name, READ);
    let observed = opened.and_then(|it| it.map(observe).transpose());
    observed.context(format_args!("reading the state of service {name}"))
}
