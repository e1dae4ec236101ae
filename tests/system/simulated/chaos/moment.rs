//! When the operator is killed, and what it was at.

use std::fmt;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use testbed::api_proxy::{ApiProxy, Verb};

use super::{HOSTS, INTERRUPTION, Simulation};

/// A moment that does not come is waited for no longer than this.
const PATIENCE: Duration = Duration::from_secs(6);
/// A write that was seen so short a while ago is still on its way, or its answer is.
const ON_ITS_WAY: Duration = Duration::from_millis(15);
/// What the operator writes.
const WRITTEN: [&str; 6] = [
    "operatorconditions",
    "windowsnodestorages",
    "windowsstorages",
    "configmaps",
    "leases",
    "events",
];

/// When to kill. Chosen by what is seen from outside, so that the kills come into every phase of a rollout and not only
/// into its long ones.
#[derive(Debug)]
pub enum Moment {
    /// So long after the start.
    After(Duration),
    /// When so many requests have come to hosts since the start.
    HostRequests(u64),
    /// When so many requests have come to the API server since the start.
    ApiRequests(usize),
    /// While this host keeps its answer to that request of it back.
    Held(usize, u64),
    /// So long after csi-proxy was stopped somewhere, by this operator or the one before.
    Stopped(Duration),
    /// When this is being written.
    Writes(&'static str),
}

/// What the operator was at when it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Starting,
    Reading,
    Writing(&'static str),
    LoggingIn,
    Commanding,
    Bringing,
    Stopped,
    Looking,
}

/// Those that a long run has to hit. Which objects are written depends on what there is to write.
pub const PHASES: [Phase; 7] = [
    Phase::Starting,
    Phase::Reading,
    Phase::Writing("windowsnodestorages"),
    Phase::LoggingIn,
    Phase::Commanding,
    Phase::Bringing,
    Phase::Stopped,
];

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("before its first request"),
            Self::Reading => f.write_str("while it read the cluster"),
            Self::Writing(resource) => write!(f, "while it wrote {resource}"),
            Self::LoggingIn => f.write_str("on the way into a node"),
            Self::Commanding => f.write_str("while a command ran on a node"),
            Self::Bringing => f.write_str("while it brought files"),
            Self::Stopped => f.write_str("while csi-proxy was stopped on a node"),
            Self::Looking => f.write_str("between reconciles, or at their end"),
        }
    }
}

/// Requests so far, when the operator was not running.
pub struct Before {
    api: usize,
    hosts: u64,
}

impl Before {
    pub fn of(simulation: &Simulation, proxy: &ApiProxy) -> Self {
        let requests = simulation.hosts.iter().map(|host| host.counters().requests);
        Self {
            api: proxy.seen_so_far(),
            hosts: requests.sum(),
        }
    }
}

impl Moment {
    pub fn any(dice: &mut StdRng) -> Self {
        match dice.random_range(0..10) {
            0 => Self::After(Duration::from_millis(dice.random_range(0..1500))),
            1 => Self::ApiRequests(dice.random_range(1..60)),
            2 => Self::HostRequests(dice.random_range(1..200)),
            3..=5 => Self::Held(dice.random_range(0..HOSTS), dice.random_range(1..45)),
            6 | 7 => {
                let most = u64::try_from(INTERRUPTION.as_millis()).unwrap_or(u64::MAX);
                Self::Stopped(Duration::from_millis(dice.random_range(0..most)))
            }
            _ => Self::Writes(WRITTEN[dice.random_range(0..WRITTEN.len())]),
        }
    }

    /// At which the operator is probably at that.
    pub fn aimed_at(phase: Phase, dice: &mut StdRng) -> Self {
        match phase {
            Phase::Starting => Self::After(Duration::ZERO),
            Phase::Reading => Self::ApiRequests(dice.random_range(1..10)),
            Phase::Writing(resource) => Self::Writes(resource),
            Phase::Stopped => Self::Stopped(Duration::ZERO),
            Phase::LoggingIn | Phase::Commanding | Phase::Bringing | Phase::Looking => {
                Self::Held(dice.random_range(0..HOSTS), dice.random_range(1..45))
            }
        }
    }

    /// Waits for it, and says what the operator is at then that was started after `before`.
    pub fn come(
        &self,
        simulation: &Simulation,
        proxy: &ApiProxy,
        before: &Before,
        dice: &mut StdRng,
    ) -> Phase {
        let started = Instant::now();
        if let Self::Held(host, request) = self {
            simulation.hosts[*host].hold_at(*request);
        }
        while !self.is_here(simulation, proxy, before, started) && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Self::Stopped(delay) = self {
            std::thread::sleep(*delay);
        }
        // And not always right after what was waited for.
        if dice.random_bool(0.3) {
            std::thread::sleep(Duration::from_millis(dice.random_range(0..30)));
        }
        phase(simulation, proxy, before)
    }

    fn is_here(
        &self,
        simulation: &Simulation,
        proxy: &ApiProxy,
        before: &Before,
        started: Instant,
    ) -> bool {
        match self {
            Self::After(delay) => started.elapsed() >= *delay,
            Self::ApiRequests(number) => proxy.seen_so_far() >= before.api + number,
            Self::HostRequests(number) => {
                Before::of(simulation, proxy).hosts >= before.hosts + number
            }
            Self::Held(host, _) => simulation.hosts[*host].counters().held > 0,
            Self::Stopped(_) => {
                let has_begun = proxy.seen_so_far() > before.api;
                has_begun && simulation.fleet.gauges().interrupted.now() > 0
            }
            Self::Writes(resource) => {
                let seen = proxy.seen_after(before.api);
                let is_it = |verb| verb != Verb::Get && verb != Verb::List && verb != Verb::Watch;
                (seen.iter()).any(|seen| is_it(seen.call.verb) && seen.call.resource == *resource)
            }
        }
    }
}

fn phase(simulation: &Simulation, proxy: &ApiProxy, before: &Before) -> Phase {
    let now = Before::of(simulation, proxy);
    // First, because csi-proxy may still be stopped by the operator that was killed before.
    if now.api == before.api {
        return Phase::Starting;
    }
    if simulation.fleet.gauges().interrupted.now() > 0 {
        return Phase::Stopped;
    }
    let seen = proxy.seen_after(before.api);
    let written = seen.iter().rev().find_map(|seen| {
        let resource = WRITTEN
            .into_iter()
            .find(|name| *name == seen.call.resource)?;
        let writes = !matches!(seen.call.verb, Verb::Get | Verb::List | Verb::Watch);
        (writes && seen.at.elapsed() <= ON_ITS_WAY).then_some(resource)
    });
    let held = simulation
        .hosts
        .iter()
        .find(|host| host.counters().held > 0)
        .and_then(|host| host.requests().last().copied());
    let latest = held.or_else(|| {
        let came = now.hosts > before.hosts;
        simulation
            .fleet
            .gauges()
            .latest_request()
            .filter(|_| came && written.is_none())
    });
    let connected = simulation
        .hosts
        .iter()
        .any(|host| host.counters().connections_now > 0);
    match (latest, written) {
        (Some("connection" | "login" | "login offered" | "channel" | "subsystem"), _) => {
            Phase::LoggingIn
        }
        (Some("command"), _) if connected => Phase::Commanding,
        (Some(name), _) if connected && name.starts_with("sftp") => Phase::Bringing,
        (None, Some(resource)) => Phase::Writing(resource),
        (None, None) if now.hosts == before.hosts => Phase::Reading,
        (Some(_), _) | (None, None) => Phase::Looking,
    }
}
