//! Decisions of the controller, made anew from the whole state at each pass. No client, no clock.

mod left;
mod removal;
mod rollout;
mod settings;
mod throttle;
mod todo;
mod unseen;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::api::{Management, WindowsStorageSpec};
use crate::assess::causes::csi_proxy;
use crate::assess::report::{NodeReadiness, Verdict};
use crate::assess::{Blocked, BlockedKey, Departed, Memory, Report, assess, only_fresh_data_opens};
use crate::index::{Cluster, Listed, Name, Node};
use crate::node::payload::Payload;
use crate::node::{Awaited, NodePlan, Planner, Present, Rollout};
use crate::services::{self, Document, ServicesError, ServicesPlan, csi_proxy_service, wmco_entry};
use crate::status::{MOST_BLOCKED, NodeInputs, NodeStatus, is_ready, is_used, node_status};
use throttle::MessageThrottle;
pub use todo::{Left, LeftOver, News, Todo};
use unseen::Unseen;

/// How long a verdict stands while something it depends on cannot be read. A restart of the API server is over by then.
const STALE: Duration = Duration::from_secs(120);
/// The shortest time between two checks of volumes that hold upgrades, for their events.
const BLOCKED_PAUSE: Duration = Duration::from_secs(1);

/// How many findings about DaemonSets that run csi-proxy a node's status tells.
const NAMED_SETS: usize = 10;
/// How long after lists ended slots for removals and releases may be given, and stand until their work begins.
const STAYS_FRESH: Duration = Duration::from_secs(60);

/// The decisions of the last pass, and what a later one cannot see any more.
pub struct Decisions {
    payload: Payload,
    /// The settings.
    pub spec: WindowsStorageSpec,
    /// What the objects alone do not say.
    memory: Memory,
    /// What is judged of the cluster. What departs is found by comparing it with the next.
    pub report: Report,
    /// The last verdict, with the announced message.
    pub throttle: MessageThrottle,
    /// "A verdict stands for two minutes while something cannot be read": since when that is so.
    stale_since: Option<Instant>,
    /// The plan for the services entry.
    pub services: Result<ServicesPlan, ServicesError>,
    /// The plan for each Windows node.
    pub plans: BTreeMap<String, NodePlan>,
    /// The number of Windows nodes that are ready.
    pub ready: usize,
    /// "A key that an administrator added is removed only with its node": Windows nodes that this process has seen disappear.
    departed: BTreeSet<String>,
    /// Whether the last verdict is based on the complete cluster, not just on what has been read by now.
    pub is_complete: bool,
    /// The granted slots, and the progress of the rollout.
    pub rollout: Rollout,
    /// Whether the work in progress of the previous process was restored.
    is_restored: bool,
    /// When csi-proxy may be removed from nodes that no longer use it.
    removals: BTreeMap<String, Instant>,
    /// "A node is released from fresh data": since when it is to be released, or rid of the agent, by node.
    leaving_since: BTreeMap<String, Instant>,
    /// Since when lists are wanted, because some node would get a slot for that if it rested on them.
    slots_want: Option<Instant>,
    /// "Removed once this process has seen it unused for ten minutes": since when, from complete data, by node.
    unused_since: BTreeMap<String, Instant>,
    /// Whether the cluster was upgraded although upgrades were, and are, held.
    pub is_upgraded_while_held: bool,
    /// Statuses that were written, but are not in the index yet.
    pub unseen: Unseen,
    blocked_looked_at: Option<Instant>,
    /// "Opens a minute after what held upgrades went from sight": when that last happened.
    gone: BTreeMap<Departed, Instant>,
}

impl Decisions {
    /// Creates it without any decisions.
    pub fn new(payload: Payload) -> Self {
        let memory = Memory::default();
        Self {
            payload,
            spec: WindowsStorageSpec::default(),
            report: assess(&Cluster::default(), &memory, None),
            memory,
            throttle: MessageThrottle::default(),
            stale_since: None,
            services: services::plan(None, &csi_proxy_service(&[])),
            plans: BTreeMap::new(),
            ready: 0,
            departed: BTreeSet::new(),
            is_complete: false,
            rollout: Rollout::default(),
            is_restored: false,
            removals: BTreeMap::new(),
            leaving_since: BTreeMap::new(),
            slots_want: None,
            unused_since: BTreeMap::new(),
            is_upgraded_while_held: false,
            unseen: Unseen::default(),
            blocked_looked_at: None,
            gone: BTreeMap::new(),
        }
    }

    /// Returns the last verdict, with the announced message.
    pub fn verdict(&self) -> Option<&Verdict> {
        (self.throttle.announced.as_ref()).map(|(verdict, _)| verdict)
    }

    /// Judges the cluster, plans everything, and returns what is to be done.
    pub fn update(&mut self, cluster: &Cluster, news: &News<'_>) -> Todo {
        self.spec = cluster.wanted();
        self.memory.learn(cluster);
        let report = assess(cluster, &self.memory, None);
        for departed in report.departed(&self.report) {
            self.gone.insert(departed, news.instant);
        }
        self.report = report;
        self.unseen.compare(cluster);
        let verdict = self.judge(cluster, news.instant);
        let knows_configuration = cluster.knows_configuration();
        self.is_complete = cluster.unread().is_empty() && knows_configuration;
        let is_readable = self.is_complete && cluster.stale().is_empty();
        let listed = cluster.listed().filter(|_| is_readable);
        self.plan_services(cluster);
        self.plan(cluster, news, listed);
        let is_removed = self.is_all_removed();
        if is_removed {
            let map = cluster.config_maps.get(services::CONFIG_MAP);
            self.services = services::plan_removal(map);
        }
        self.decide_slots(cluster, news, listed);
        let (nodes, left) = if self.is_complete {
            let nodes = self.node_statuses(cluster, news);
            (nodes, self.left_behind(cluster, is_removed))
        } else {
            // A use may go unseen.
            self.unused_since.clear();
            (Vec::new(), Vec::new())
        };
        let has_left_keys = left.iter().any(|left| left.what == LeftOver::Key);
        Todo {
            verdict,
            is_readable: cluster.stale().is_empty(),
            lists: cluster.lists(),
            gone: self.gone(cluster),
            blocked: self.blocked(cluster, news.instant),
            knows_configuration,
            nodes,
            left,
            settings: self.settings(cluster, news, has_left_keys),
        }
    }

    /// Returns when something last disappeared that would hold upgrades if it came back now.
    fn gone(&self, cluster: &Cluster) -> Option<Instant> {
        let gone = self.gone.iter();
        let held = gone.filter(|(departed, _)| self.report.would_hold(cluster, departed));
        held.map(|(_, at)| *at).max()
    }

    /// Returns the verdict, with the announced message.
    fn judge(&mut self, cluster: &Cluster, now: Instant) -> Verdict {
        let stale = cluster.stale();
        let since = self.stale_since.unwrap_or(now);
        self.stale_since = (!stale.is_empty()).then_some(since);
        let is_stale_for_long = !stale.is_empty() && now >= since + STALE;
        let last = self.verdict().filter(|_| !is_stale_for_long);
        let verdict = only_fresh_data_opens(last, self.report.verdict.clone(), &stale);
        let judged = (verdict, self.report.blocking.clone());
        self.throttle.update(judged, now).0.clone()
    }

    /// Returns objects with volumes that hold upgrades. Rate-limited: nothing waits for them, and passes may follow
    /// every hundredth of a second.
    fn blocked(
        &mut self,
        cluster: &Cluster,
        now: Instant,
    ) -> Option<BTreeMap<BlockedKey, Blocked>> {
        let last = self.blocked_looked_at;
        if !self.is_complete || last.is_some_and(|last| now < last + BLOCKED_PAUSE) {
            return None;
        }
        self.blocked_looked_at = Some(now);
        Some(self.report.blocked_objects(cluster, MOST_BLOCKED))
    }

    /// Plans the services entry. For a complete removal, the entry stays until nothing of this operator is left on any node.
    fn plan_services(&mut self, cluster: &Cluster) {
        let map = cluster.config_maps.get(services::CONFIG_MAP);
        self.services = match self.spec.csi_proxy.management {
            Management::Removed => Ok(ServicesPlan::Keep(Document::default())),
            _ => services::plan(map, &csi_proxy_service(&self.spec.csi_proxy.extra_args)),
        };
    }

    /// Plans every Windows node.
    fn plan(&mut self, cluster: &Cluster, news: &News<'_>, listed: Option<Listed>) {
        let present = Present {
            now: news.now,
            instant: news.instant,
            listed: listed.map(|listed| listed.begun),
            report: &self.report,
            plans: &self.plans,
            unused_since: &self.unused_since,
        };
        let (spec, payload) = (&self.spec, &self.payload);
        let planner = Planner::new(cluster, spec, payload, &self.services, present);
        let plan = |(name, node): (&Name, &Node)| {
            let plan = planner.plan(name, node);
            let hold = planner.hold(name, node, &plan);
            (name.to_string(), plan, hold)
        };
        let made: Vec<_> = cluster.windows_nodes().map(plan).collect();
        self.removals.clear();
        let mut plans = BTreeMap::new();
        for (name, plan, hold) in made {
            self.note_removal(&name, hold.as_ref());
            plans.insert(name, plan);
        }
        let leaving = plans.iter().filter(|(_, plan)| plan.takes_away());
        let leaving = leaving.map(|(name, _)| {
            let since = self.leaving_since.get(name).copied();
            (name.clone(), since.unwrap_or(news.instant))
        });
        self.leaving_since = leaving.collect();
        let before = std::mem::replace(&mut self.plans, plans);
        let departed = before
            .into_keys()
            .filter(|name| !self.plans.contains_key(name));
        self.departed.extend(departed);
        self.departed.retain(|name| !self.plans.contains_key(name));
        self.unused_since
            .retain(|name, _| self.plans.contains_key(name));
    }

    /// Returns how long until the owner of the next node is decided, or csi-proxy may be removed from it. Nodes that are due
    /// already wait for something else.
    pub fn decided_in(&self, now: Timestamp, instant: Instant) -> Option<Duration> {
        let coming = self.decided_at().map(|(_, at)| at).filter(|at| *at > now);
        let decided = coming.min().and_then(|first| now.until(first).ok());
        let decided = decided.map(|wait| Duration::try_from(wait).unwrap_or_default());
        let coming = self.removals.values().filter(|at| **at > instant);
        let removal = coming.min().map(|first| *first - instant);
        decided.into_iter().chain(removal).min()
    }

    fn decided_at(&self) -> impl Iterator<Item = (&String, Timestamp)> {
        self.plans.iter().filter_map(|(name, plan)| match plan {
            NodePlan::Undecided(Awaited::Time(until)) => Some((name, (*until)?)),
            _ => None,
        })
    }

    /// Returns the statuses of nodes that differ from what is stored.
    fn node_statuses(&mut self, cluster: &Cluster, news: &News<'_>) -> Vec<NodeStatus> {
        let findings = csi_proxy::daemon_sets(&self.report, cluster);
        let first = findings
            .iter()
            .take(NAMED_SETS)
            .map(|finding| &*finding.message);
        let sets = first.collect::<Vec<_>>().join("; ");
        let mut readiness = self.report.nodes(cluster);
        let nodes = cluster.windows_nodes();
        let statuses: Vec<_> = nodes
            .filter_map(|(name, node)| {
                let readiness = readiness.remove(name)?;
                self.node_status(cluster, news, (name, node), &readiness, &sets)
            })
            .collect();
        self.ready = statuses.iter().filter(|it| is_ready(&it.status)).count();
        let differs = |it: &NodeStatus| it.previous.as_ref() != Some(&it.status);
        for NodeStatus { name, status, .. } in &statuses {
            if is_used(status) {
                self.unused_since.remove(name);
            } else {
                let since = self.unused_since.entry(name.clone());
                since.or_insert(news.instant);
            }
        }
        statuses.into_iter().filter(differs).collect()
    }

    fn node_status(
        &self,
        cluster: &Cluster,
        news: &News<'_>,
        (name, node): (&str, &Node),
        readiness: &NodeReadiness,
        sets: &str,
    ) -> Option<NodeStatus> {
        let written = self.unseen.nodes.get(name).map(|written| &written.status);
        let previous = written.or_else(|| cluster.node_statuses.get(name)).cloned();
        let csi_proxy = &self.payload.csi_proxy;
        let pool = self.spec.pools_of(&node.labels).next();
        let pool = pool.map(|pool| pool.name.clone());
        let inputs = NodeInputs {
            readiness,
            plan: self.plans.get(name)?,
            observation: news.observations.get(name),
            looked_after: &looked_after(cluster, node, sets),
            pool: pool.as_deref(),
            csi_proxy: (&csi_proxy.sha256, &csi_proxy.version),
        };
        let status = node_status(&previous.clone().unwrap_or_default(), &inputs, news.now);
        Some(NodeStatus {
            name: name.to_owned(),
            uid: node.uid.clone(),
            previous,
            status,
        })
    }
}

/// Describes who else manages csi-proxy on a node, as far as visible without a login.
fn looked_after(cluster: &Cluster, node: &Node, sets: &str) -> String {
    let version = node.wmco_version.as_deref();
    let by_wmco = version.and_then(|version| {
        let name = format!("{}-{version}", services::CONFIG_MAP);
        wmco_entry(cluster.config_maps.get(name.as_str()), &name)
    });
    match by_wmco {
        Some(by_wmco) if !sets.is_empty() => format!("{by_wmco}; {sets}"),
        Some(by_wmco) => by_wmco,
        None => sets.to_owned(),
    }
}

#[cfg(test)]
mod tests;
