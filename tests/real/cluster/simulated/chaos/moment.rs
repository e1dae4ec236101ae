//! When the operator is killed, and what it was doing then.

use std::fmt;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use testbed::api_proxy::{ApiProxy, Verb};

use super::{HOSTS, INTERRUPTION, Simulation};

/// Maximum time to wait for a moment that may never come.
const PATIENCE: Duration = Duration::from_secs(6);
/// A write that was seen less than this long ago is still in flight, or its answer is.
const ON_ITS_WAY: Duration = Duration::from_millis(15);
/// The resources that the operator writes.
const WRITTEN: [&str; 5] = [
    "operatorconditions",
    "windowsnodestorages",
    "windowsstorages",
    "configmaps",
    "events",
];

/// When to kill the operator. Moments are chosen by what is visible from outside, so that kills hit every phase of a
/// rollout rather than only the long ones.
#[derive(Debug)]
pub enum Moment {
    /// This long after the start.
    After(Duration),
    /// When hosts have received this many requests since the start.
    HostRequests(u64),
    /// When the API server has received this many requests since the start.
    ApiRequests(usize),
    /// While this host delays its answer to its request with this number.
    Held(usize, u64),
    /// This long after csi-proxy was stopped somewhere, by this operator or the previous one.
    Stopped(Duration),
    /// While this resource is being written.
    Writes(&'static str),
}

/// What the operator was doing when it was killed.
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

/// The phases that a long run has to hit. Which objects are written depends on what there is to write.
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

/// Numbers of requests before the operator was started.
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

    /// Returns a moment at which the operator is probably in this phase.
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

    /// Waits for the moment, and returns the phase of the operator that was started after `before`.
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
        // Adds a random delay, so that the kill does not always come right after the event.
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
    // Checked first, because the operator that was killed before may have left csi-proxy stopped.
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
