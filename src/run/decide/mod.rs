//! Decisions of the controller, updated incrementally. No client, no clock.

mod left;
mod removal;
mod rollout;
mod settings;
mod throttle;
mod todo;
mod unseen;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::api::{Management, WindowsStorageSpec};
use crate::assess::causes::csi_proxy;
use crate::assess::report::{Finding, Verdict};
use crate::assess::{
    Assessment, Blocked, BlockedKey, Departed, daemon_sets_that_use_it, only_fresh_data_opens,
};
use crate::index::{Cluster, Node, NodeSide, ObjectKey};
use crate::node::{Awaited, NodePlan, Planner, Present, Rollout};
use crate::payload::Payload;
use crate::services::{self, Document, ServicesError, ServicesPlan, csi_proxy_service, wmco_entry};
use crate::status::{
    ClusterInputs, MOST_BLOCKED, NewCondition, NodeInputs, NodeStatus, NodesByKey, is_ready,
    is_used, node_status,
};
use throttle::MessageThrottle;
pub use todo::{Left, LeftOver, News, Todo};
use unseen::Unseen;

/// How long a verdict stands while something it depends on cannot be read. A restart of the API server is over by then.
const STALE: Duration = Duration::from_secs(120);
/// The shortest time between two checks of volumes that hold upgrades, for their events.
const BLOCKED_PAUSE: Duration = Duration::from_secs(1);

/// The decisions so far.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Decisions {
    payload: Payload,
    /// The settings.
    pub spec: WindowsStorageSpec,
    /// The assessment of the cluster.
    pub assessment: Assessment,
    /// The last verdict, with the announced message.
    pub throttle: MessageThrottle,
    /// Since when something that the verdict depends on cannot be read.
    stale_since: Option<Instant>,
    /// The plan for the services entry.
    pub services: Result<ServicesPlan, ServicesError>,
    /// The plan for each Windows node.
    pub plans: BTreeMap<String, NodePlan>,
    /// The Windows nodes that are ready.
    pub ready: BTreeSet<String>,
    /// Windows nodes that this process has seen disappear.
    departed: BTreeSet<String>,
    /// Nodes whose status must be checked: something changed, or the last write failed.
    pub open: BTreeSet<String>,
    /// Whether the last verdict is based on the complete cluster, not just on what has been read by now.
    pub is_complete: bool,
    /// Whether plans or slots have changed since they were last handed over.
    pub is_unassigned: bool,
    /// The granted slots, and the progress of the rollout.
    pub rollout: Rollout,
    settling: bool,
    /// Whether the work in progress of the previous process was restored.
    is_restored: bool,
    /// DaemonSets of others that run csi-proxy.
    csi_proxy_sets: Vec<(ObjectKey, NodeSide)>,
    /// DaemonSets whose pods use csi-proxy, or may use it.
    csi_proxy_users: Vec<(ObjectKey, NodeSide)>,
    /// When csi-proxy may be removed from nodes that no longer use it.
    removals: BTreeMap<String, Instant>,
    /// Whether some node would get a slot to remove csi-proxy or the agent if the data were proven to be current.
    are_slots_unproved: bool,
    /// Since when this process has seen, from complete data, that nothing uses csi-proxy on a node.
    unused_since: BTreeMap<String, Instant>,
    /// Whether the cluster was upgraded although upgrades were, and are, held.
    pub is_upgraded_while_held: bool,
    /// Whether nothing of this operator is left on any node, as the administrator wants.
    is_removed: bool,
    /// Whether host keys of nodes must still be deleted for that.
    has_left_keys: bool,
    /// Findings about the DaemonSets that run csi-proxy.
    csi_proxy_findings: Vec<Finding>,
    /// Whether some Windows node has another owner.
    has_others: bool,
    /// How the pools fit the nodes, if there are pools.
    node_pools: Option<NewCondition>,
    /// For each private key, the managed nodes that need it and the key that they accepted.
    nodes_by_key: Arc<NodesByKey>,
    /// Inputs of the status of `WindowsStorage` when it was last written.
    settings: Option<ClusterInputs>,
    /// Statuses that were written, but are not in the index yet.
    pub unseen: Unseen,
    blocked_looked_at: Option<Instant>,
    /// How often objects that held upgrades have disappeared, and when they last did.
    gone: BTreeMap<Departed, (u64, Instant)>,
}

impl Decisions {
    /// Creates it without any decisions.
    pub fn new(payload: Payload) -> Self {
        Self {
            payload,
            spec: WindowsStorageSpec::default(),
            assessment: Assessment::default(),
            throttle: MessageThrottle::default(),
            stale_since: None,
            services: services::plan(None, &csi_proxy_service(&[])),
            plans: BTreeMap::new(),
            ready: BTreeSet::new(),
            departed: BTreeSet::new(),
            open: BTreeSet::new(),
            is_complete: false,
            is_unassigned: false,
            rollout: Rollout::default(),
            settling: true,
            is_restored: false,
            csi_proxy_sets: Vec::new(),
            csi_proxy_users: Vec::new(),
            removals: BTreeMap::new(),
            are_slots_unproved: false,
            unused_since: BTreeMap::new(),
            is_upgraded_while_held: false,
            is_removed: false,
            has_left_keys: false,
            csi_proxy_findings: Vec::new(),
            has_others: false,
            node_pools: None,
            nodes_by_key: Arc::default(),
            settings: None,
            unseen: Unseen::default(),
            blocked_looked_at: None,
            gone: BTreeMap::new(),
        }
    }

    /// Returns the last verdict, with the announced message.
    pub fn verdict(&self) -> Option<&Verdict> {
        (self.throttle.announced.as_ref()).map(|(verdict, _)| verdict)
    }

    /// Processes changes, and returns what is to be done.
    pub fn update(&mut self, cluster: &mut Cluster, news: &News<'_>) -> Todo {
        let mut replan = !cluster.config_maps.take_changed().is_empty();
        replan |= !cluster.secrets.take_changed().is_empty();
        // The object includes the status that this operator writes: only its spec concerns the nodes.
        let settings_changed = !cluster.settings.take_changed().is_empty();
        let is_respecified = settings_changed && self.spec != cluster.wanted();
        if is_respecified {
            self.spec = cluster.wanted();
        }
        let touched = self.assessment.update(cluster);
        let mut touched: BTreeSet<String> = touched.iter().map(ToString::to_string).collect();
        // A status records the history of a node, which its plan depends on.
        touched.extend(cluster.node_statuses.take_changed());
        let cluster = &*cluster;
        self.unseen.compare(cluster);

        let verdict = self.judge(cluster, news.instant);
        let knows_configuration = cluster.knows_configuration();
        let complete = cluster.unread().is_empty() && knows_configuration;
        let sets = csi_proxy::that_run_it(cluster);
        let sets = owned(sets.map(|(key, _, side)| (key, side)));
        let users = owned(daemon_sets_that_use_it(cluster));
        let findings = csi_proxy::daemon_sets(&self.assessment, cluster);
        // The settings, other owners of csi-proxy, and whether anything may be written concern every node.
        let is_completed = std::mem::replace(&mut self.is_complete, complete) != complete;
        let concerns_all = is_respecified || is_completed;
        let all_nodes = || cluster.nodes.iter().map(|(name, _)| name.to_string());
        let others = sets != self.csi_proxy_sets
            || users != self.csi_proxy_users
            || findings != self.csi_proxy_findings;
        if concerns_all || others {
            self.csi_proxy_sets = sets;
            self.csi_proxy_users = users;
            self.csi_proxy_findings = findings;
            self.open.extend(all_nodes());
        }
        self.open.extend(touched.iter().cloned());
        self.open.extend(news.observed.iter().cloned());

        replan |= concerns_all;
        if replan {
            self.plan_services(cluster);
            touched.extend(all_nodes());
            touched.extend(self.plans.keys().cloned());
        }
        // The owner of a node depends on what runs there, and on the owners of other nodes.
        if others {
            touched.extend(all_nodes());
        }
        touched.extend(self.now_decided(news.now, news.instant));
        self.is_unassigned |= is_respecified;
        let is_fresh = news.is_fresh && complete && cluster.stale().is_empty();
        if !touched.is_empty() {
            self.is_unassigned |= self.plan(cluster, &touched, news, is_fresh);
        }
        let is_removed = self.is_all_removed();
        if std::mem::replace(&mut self.is_removed, is_removed) != is_removed {
            self.plan_services(cluster);
        }
        let has_settled = std::mem::replace(&mut self.settling, news.settling) != news.settling;
        let is_proved = self.are_slots_unproved && is_fresh;
        // Labels decide which nodes are counted together.
        let is_regrouped = !touched.is_empty() && !self.spec.node_pools.is_empty();
        if replan || !touched.is_empty() {
            self.group_nodes(cluster);
        }
        let is_changed = self.is_unassigned || is_regrouped || !news.observed.is_empty();
        let has_news_of_rollout = replan || is_changed || has_settled || is_proved;
        if has_news_of_rollout {
            self.decide_slots(cluster, news, is_fresh);
        }
        let (nodes, left) = if complete {
            (self.node_statuses(cluster, news), self.left_behind(cluster))
        } else {
            // A use may go unseen.
            self.unused_since.clear();
            (Vec::new(), Vec::new())
        };
        self.has_left_keys = left.iter().any(|left| left.what == LeftOver::Key);
        Todo {
            verdict,
            is_readable: cluster.stale().is_empty(),
            gone: self.gone(cluster, news.instant),
            blocked: self.blocked(cluster, news.instant),
            knows_configuration,
            has_news_of_rollout,
            has_news_of_nodes: self.is_unassigned || !news.observed.is_empty(),
            assign: knows_configuration && self.is_unassigned,
            nodes,
            left,
            settings: self.settings(cluster, news, replan || settings_changed),
        }
    }

    /// Returns when something last disappeared that would hold upgrades if it came back now.
    fn gone(&mut self, cluster: &Cluster, now: Instant) -> Option<Instant> {
        for (departed, &times) in self.assessment.departures() {
            let last = self.gone.entry(departed.clone()).or_insert((0, now));
            if last.0 != times {
                *last = (times, now);
            }
        }
        let would_hold = |departed: &Departed| self.assessment.would_hold(cluster, departed);
        let held = self
            .gone
            .iter()
            .filter(|(departed, _)| would_hold(departed));
        held.map(|(_, (_, at))| *at).max()
    }

    /// Returns the verdict, with the announced message.
    fn judge(&mut self, cluster: &Cluster, now: Instant) -> Verdict {
        let stale = cluster.stale();
        let since = self.stale_since.unwrap_or(now);
        self.stale_since = (!stale.is_empty()).then_some(since);
        let is_stale_for_long = !stale.is_empty() && now >= since + STALE;
        let last = self.verdict().filter(|_| !is_stale_for_long);
        let verdict = only_fresh_data_opens(last, self.assessment.verdict(cluster), &stale);
        let judged = (verdict, self.assessment.blocking_volumes());
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
        Some(self.assessment.blocked_objects(cluster, MOST_BLOCKED))
    }

    /// Plans the services entry. For a complete removal, the entry stays until nothing of this operator is left on any node.
    fn plan_services(&mut self, cluster: &Cluster) {
        let map = cluster.config_maps.get(services::CONFIG_MAP);
        self.services = match (self.spec.csi_proxy.management, self.is_removed) {
            (Management::Removed, true) => services::plan_removal(map),
            (Management::Removed, false) => Ok(ServicesPlan::Keep(Document::default())),
            _ => services::plan(map, &csi_proxy_service(&self.spec.csi_proxy.extra_args)),
        };
    }

    /// Plans these nodes again. Returns whether any plan has changed.
    fn plan(
        &mut self,
        cluster: &Cluster,
        names: &BTreeSet<String>,
        news: &News<'_>,
        is_fresh: bool,
    ) -> bool {
        let present = Present {
            now: news.now,
            instant: news.instant,
            is_fresh,
            assessment: &self.assessment,
            plans: &self.plans,
            unused_since: &self.unused_since,
        };
        let (spec, payload) = (&self.spec, &self.payload);
        let planner = Planner::new(cluster, spec, payload, &self.services, present);
        let has_others = planner.has_others();
        let all = if self.has_others == has_others {
            names.clone()
        } else {
            names.iter().chain(self.plans.keys()).cloned().collect()
        };
        let plan = |name: String| {
            let node = cluster.nodes.get(name.as_str());
            let plan = node
                .filter(|node| node.is_windows())
                .map(|node| planner.plan(&name, node));
            let hold = node
                .zip(plan.as_ref())
                .and_then(|(node, plan)| planner.hold(&name, node, plan));
            (name, plan, hold)
        };
        let decided: Vec<_> = all.into_iter().map(plan).collect();
        self.has_others = has_others;
        let mut changed = false;
        for (name, plan, hold) in decided {
            self.note_removal(&name, hold.as_ref(), news.instant);
            let Some(plan) = plan else {
                if self.plans.remove(&name).is_some() {
                    changed = true;
                    self.departed.insert(name.clone());
                }
                self.ready.remove(&name);
                self.unused_since.remove(&name);
                continue;
            };
            self.departed.remove(&name);
            if self.plans.get(&name) != Some(&plan) {
                changed = true;
                self.open.insert(name.clone());
                self.plans.insert(name, plan);
            }
        }
        changed
    }

    /// Returns the nodes whose owner is decided by now, or from which csi-proxy may be removed by now.
    fn now_decided(&self, now: Timestamp, instant: Instant) -> Vec<String> {
        let decided = self.decided_at().filter(|(_, at)| *at <= now);
        let decided = decided.map(|(name, _)| name);
        let removals = self.removals.iter().filter(|(_, at)| **at <= instant);
        let removals = removals.map(|(name, _)| name);
        decided.chain(removals).cloned().collect()
    }

    /// Returns how long until that is so for the next node. Nodes that are due already wait for something else.
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

    /// Returns the statuses to write for open nodes. Closes nodes whose status is up to date.
    fn node_statuses(&mut self, cluster: &Cluster, news: &News<'_>) -> Vec<NodeStatus> {
        let mut decided = Vec::new();
        let mut open = std::mem::take(&mut self.open);
        open.retain(|name| {
            let node = cluster.nodes.get(name.as_str());
            let Some(node) = node.filter(|node| node.is_windows()) else {
                return false;
            };
            let Some(status) = self.node_status(cluster, news, name, node) else {
                return true;
            };
            if is_used(&status.status) {
                self.unused_since.remove(name);
            } else {
                let since = self.unused_since.entry(name.clone());
                since.or_insert(news.instant);
            }
            if is_ready(&status.status) {
                self.ready.insert(name.clone());
            } else {
                self.ready.remove(name);
            }
            let differs = status.previous.as_ref() != Some(&status.status);
            decided.extend(differs.then_some(status));
            differs
        });
        self.open = open;
        decided
    }

    fn node_status(
        &self,
        cluster: &Cluster,
        news: &News<'_>,
        name: &str,
        node: &Node,
    ) -> Option<NodeStatus> {
        let written = self.unseen.nodes.get(name).map(|written| &written.status);
        let previous = written.or_else(|| cluster.node_statuses.get(name)).cloned();
        let csi_proxy = &self.payload.csi_proxy;
        let pool = self.spec.pools_of(&node.labels).next();
        let pool = pool.map(|pool| pool.name.clone());
        let inputs = NodeInputs {
            readiness: &self.assessment.node(cluster, name)?,
            plan: self.plans.get(name)?,
            observation: news.observations.get(name),
            looked_after: &self.looked_after(cluster, node),
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

    /// Describes who else manages csi-proxy on a node, as far as visible without a login.
    fn looked_after(&self, cluster: &Cluster, node: &Node) -> String {
        let version = node.wmco_version.as_deref();
        let by_wmco = version.and_then(|version| {
            let name = format!("{}-{version}", services::CONFIG_MAP);
            wmco_entry(cluster.config_maps.get(name.as_str()), &name)
        });
        let sets = self.csi_proxy_findings.iter();
        let messages = sets.map(|finding| finding.message.clone());
        let messages: Vec<String> = by_wmco.into_iter().chain(messages).collect();
        messages.join("; ")
    }
}

fn owned<'a>(
    sets: impl Iterator<Item = (&'a ObjectKey, &'a NodeSide)>,
) -> Vec<(ObjectKey, NodeSide)> {
    sets.map(|(key, side)| (key.clone(), side.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
