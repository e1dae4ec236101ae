//! What the controller decides, kept up to date in proportion to what is new. No client, no clock.

mod departed;
mod settings;
mod todo;
mod turns;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::api::{LogLevel, WindowsStorageSpec};
use crate::assess::causes::csi_proxy::daemon_sets;
use crate::assess::report::{Finding, Verdict};
use crate::assess::{Assessment, only_fresh_data_opens};
use crate::gate::GateReport;
use crate::index::{Cluster, Node};
use crate::node::{NodePlan, Planner, Rollout};
use crate::payload::Payload;
use crate::services::{self, ServicesError, Step, csi_proxy_service, wmco_entry};
use crate::status::{MOST_BLOCKED, NodeInputs, is_ready, node_status};
pub use todo::{News, NodeDecision, Todo};
use wording::{Told, Wording};

/// What was decided so far.
pub struct Decisions {
    payload: Payload,
    spec: Option<WindowsStorageSpec>,
    assessment: Assessment,
    verdict: Option<Verdict>,
    wording: Wording,
    services: Result<Step, ServicesError>,
    plans: BTreeMap<String, NodePlan>,
    ready: BTreeSet<String>,
    /// Windows nodes that this process has seen leave.
    gone: BTreeSet<String>,
    /// The nodes whose status is to be looked at: something is new there, or the last write failed.
    open: BTreeSet<String>,
    complete: bool,
    interval: Duration,
    /// The plans, or whose turn it is, have changed since they were last handed over.
    unassigned: bool,
    rollout: Rollout,
    settling: bool,
    /// Nodes that a process before this one may have left in the middle of an update.
    maybe_in_progress: BTreeSet<String>,
    /// The DaemonSets that run csi-proxy, which somebody else has brought.
    csi_proxy_sets: Vec<Finding>,
    said: Option<Said>,
    blocked_looked_at: Option<Instant>,
}

/// The least time between two looks at what is to be told of volumes that hold upgrades.
const BLOCKED_PAUSE: Duration = Duration::from_secs(1);

/// What the status of `WindowsStorage` follows from, beside the configuration.
#[derive(Clone, PartialEq)]
struct Said {
    verdict: Verdict,
    counts: [usize; 3],
    rollout: Rollout,
    managed: bool,
    complete: bool,
    services_problem: Option<String>,
    gate: Option<GateReport>,
}

impl Decisions {
    /// Nothing decided yet.
    pub fn new(payload: Payload) -> Self {
        Self {
            payload,
            spec: None,
            assessment: Assessment::default(),
            verdict: None,
            wording: Wording::default(),
            services: services::plan(None, &csi_proxy_service(&[])),
            plans: BTreeMap::new(),
            ready: BTreeSet::new(),
            gone: BTreeSet::new(),
            open: BTreeSet::new(),
            complete: false,
            interval: Duration::default(),
            unassigned: false,
            rollout: Rollout::default(),
            settling: true,
            maybe_in_progress: BTreeSet::new(),
            csi_proxy_sets: Vec::new(),
            said: None,
            blocked_looked_at: None,
        }
    }

    /// The last verdict.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The last verdict in the words in which it is told.
    pub fn told(&self) -> Option<&Verdict> {
        self.wording.told().map(|told| &told.verdict)
    }

    /// When the verdict is to be told in other words, though nothing is new.
    pub fn rewords_at(&self) -> Option<Instant> {
        self.wording.due()
    }

    /// Whether the last verdict rests on all of the cluster, rather than whether all of it has been read by now.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// How much is to be logged.
    pub fn log_level(&self) -> LogLevel {
        let spec = self.spec.as_ref();
        spec.map(|spec| spec.log_level).unwrap_or_default()
    }

    /// What is done on each Windows node.
    pub fn plans(&self) -> &BTreeMap<String, NodePlan> {
        &self.plans
    }

    /// The nodes that may be interrupted now.
    pub fn turns(&self) -> &BTreeSet<String> {
        &self.rollout.turns
    }

    /// The nodes that a process before this one may have left in the middle of an update: they had not come to what is
    /// desired, and this process has not reached them yet. Soon after its start it is assumed of none.
    pub fn maybe_in_progress(&self) -> &BTreeSet<String> {
        &self.maybe_in_progress
    }

    /// The pause between two looks at a node that is in order.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The step for the services entry.
    pub fn services(&self) -> &Result<Step, ServicesError> {
        &self.services
    }

    /// How many nodes' statuses, or their being away, are still to be written.
    pub fn open_nodes(&self) -> usize {
        self.open.len()
    }

    /// Whether a node's status, or its being away, is still to be written.
    pub fn is_open(&self, node: &str) -> bool {
        self.open.contains(node)
    }

    /// A node has the status that was decided.
    pub fn is_written(&mut self, node: &str) {
        self.open.remove(node);
    }

    /// The plans have been handed over.
    pub fn are_assigned(&mut self) {
        self.unassigned = false;
    }

    /// What was to be done has not been begun: it is to be said again.
    pub fn is_put_off(&mut self) {
        // All else stays to be done until it is told that it was.
        self.said = None;
    }

    /// Takes in what is new and says what is to be done.
    pub fn update(&mut self, cluster: &mut Cluster, news: &News<'_>) -> Todo {
        let mut replan = !cluster.config_maps.take_changed().is_empty();
        replan |= !cluster.secrets.take_changed().is_empty();
        // The object holds what this operator itself writes of it: only what is wanted concerns the nodes.
        let settings_changed = !cluster.settings.take_changed().is_empty();
        let spec = settings_changed.then(|| cluster.wanted());
        let resettled = spec.is_some() && spec != self.spec;
        if resettled {
            self.spec = spec;
        }
        let touched = self.assessment.update(cluster);
        let csi_proxy_sets = daemon_sets(cluster);
        if csi_proxy_sets != self.csi_proxy_sets {
            self.csi_proxy_sets = csi_proxy_sets;
            let nodes = cluster.nodes.iter();
            self.open.extend(nodes.map(|(name, _)| name.to_string()));
        }
        self.open.extend(touched.iter().map(ToString::to_string));
        // A status tells what the node has been through, which its plan follows from.
        let statuses = cluster.node_statuses.take_changed();
        self.open.extend(statuses.iter().cloned());
        self.open.extend(news.observed.iter().cloned());
        let cluster = &*cluster;

        let new = self.assessment.verdict(cluster);
        let verdict = only_fresh_data_opens(
            self.verdict.as_ref().filter(|_| !news.stale_for_long),
            new,
            &cluster.stale(),
        );
        self.verdict = Some(verdict.clone());
        let blocking = self.assessment.blocking();
        let told = self.wording.tell(Told { verdict, blocking }, news.instant);
        let told = told.clone();

        let knows_configuration = cluster.knows_configuration();
        let complete = cluster.unread().is_empty() && knows_configuration;
        if resettled || complete != self.complete {
            // Who has to run csi-proxy, and whether anything may be written, are matters of every node.
            let nodes = cluster.nodes.iter();
            self.open.extend(nodes.map(|(name, _)| name.to_string()));
            replan = true;
        }
        self.complete = complete;
        // Nobody waits for it, and passes may come every hundredth of a second.
        let look_at_blocked = complete
            && self
                .blocked_looked_at
                .is_none_or(|before| news.instant >= before + BLOCKED_PAUSE);
        if look_at_blocked {
            self.blocked_looked_at = Some(news.instant);
        }
        if replan {
            self.unassigned |= self.plan_all(cluster);
        } else if !touched.is_empty() || !statuses.is_empty() {
            let nodes = touched.iter().map(AsRef::as_ref);
            let names = nodes.chain(statuses.iter().map(String::as_str));
            self.unassigned |= self.plan(cluster, names);
        }
        let news_of_nodes = self.unassigned || !news.observed.is_empty();
        if replan || news_of_nodes || news.settling != self.settling {
            self.settling = news.settling;
            self.give_turns(cluster, news);
        }
        let (nodes, strays) = if complete {
            self.decide_nodes(cluster, news)
        } else {
            (Vec::new(), Vec::new())
        };
        let settings = self.settings(cluster, news, &told, replan || settings_changed);
        Todo {
            verdict: told.verdict,
            fresh: cluster.stale().is_empty(),
            departures: self.assessment.departures(),
            blocking_by_driver: self
                .assessment
                .blocking_by_driver()
                .map(|(driver, volumes)| (driver.map(str::to_owned), volumes))
                .collect(),
            blocked: look_at_blocked
                .then(|| self.assessment.blocked_objects(cluster, MOST_BLOCKED)),
            windows_nodes: self.assessment.windows_nodes().len(),
            ready_nodes: self.ready.len(),
            knows_configuration,
            assign: knows_configuration && self.unassigned,
            nodes,
            strays,
            departed: if complete {
                self.departed(cluster, replan)
            } else {
                Vec::new()
            },
            settings,
        }
    }

    fn plan_all(&mut self, cluster: &Cluster) -> bool {
        let spec = cluster.wanted();
        let entry = csi_proxy_service(&spec.csi_proxy.extra_args);
        self.services = services::plan(cluster.config_maps.get(services::CONFIG_MAP), &entry);
        let interval = Duration::from_secs(u64::from(spec.probe_interval_seconds));
        let interval_changed = interval != self.interval;
        self.interval = interval;
        let names: BTreeSet<String> = cluster
            .nodes
            .iter()
            .map(|(name, _)| name.to_string())
            .chain(self.plans.keys().cloned())
            .collect();
        self.plan(cluster, names.iter().map(String::as_str)) || interval_changed
    }

    /// Plans those nodes anew. Says whether anything is to be done otherwise.
    fn plan<'a>(&mut self, cluster: &Cluster, names: impl Iterator<Item = &'a str>) -> bool {
        let spec = cluster.wanted();
        let planner = Planner::new(cluster, &spec, &self.payload, &self.services);
        let mut changed = false;
        for name in names {
            let node = cluster.nodes.get(name).filter(|node| node.is_windows());
            let Some(node) = node else {
                if self.plans.remove(name).is_some() {
                    changed = true;
                    self.gone.insert(name.to_owned());
                }
                self.ready.remove(name);
                continue;
            };
            self.gone.remove(name);
            let plan = planner.plan(name, node);
            if self.plans.get(name) != Some(&plan) {
                changed = true;
                self.open.insert(name.to_owned());
                self.plans.insert(name.to_owned(), plan);
            }
        }
        changed
    }

    fn decide_nodes(
        &mut self,
        cluster: &Cluster,
        news: &News<'_>,
    ) -> (Vec<NodeDecision>, Vec<String>) {
        let mut decisions = Vec::new();
        let mut strays = Vec::new();
        let mut done = Vec::new();
        for name in &self.open {
            let Some(node) = cluster.nodes.get(name.as_str()) else {
                // The object goes with its Node.
                done.push(name.clone());
                continue;
            };
            if !node.is_windows() {
                if !node.deleting && cluster.node_statuses.get(name).is_some() {
                    strays.push(name.clone());
                } else {
                    done.push(name.clone());
                }
                continue;
            }
            let Some(decision) = self.decide_node(cluster, news, name, node.uid.clone()) else {
                continue;
            };
            if is_ready(&decision.status) {
                self.ready.insert(name.clone());
            } else {
                self.ready.remove(name);
            }
            if decision.previous.as_ref() == Some(&decision.status) {
                done.push(name.clone());
            } else {
                decisions.push(decision);
            }
        }
        for name in done {
            self.open.remove(&name);
        }
        (decisions, strays)
    }

    fn decide_node(
        &self,
        cluster: &Cluster,
        news: &News<'_>,
        name: &str,
        uid: String,
    ) -> Option<NodeDecision> {
        let node = cluster.nodes.get(name)?;
        let readiness = self.assessment.node(cluster, name)?;
        let previous = cluster.node_statuses.get(name).cloned();
        let inputs = NodeInputs {
            readiness: &readiness,
            plan: self.plans.get(name)?,
            observation: news.observations.get(name),
            looked_after: &self.looked_after(cluster, node),
            csi_proxy: (
                &self.payload.csi_proxy.sha256,
                &self.payload.csi_proxy.version,
            ),
        };
        let status = node_status(&previous.clone().unwrap_or_default(), &inputs, news.now);
        Some(NodeDecision {
            name: name.to_owned(),
            uid,
            previous,
            status,
        })
    }

    /// Who else looks after csi-proxy on a node, as far as it can be seen from outside.
    fn looked_after(&self, cluster: &Cluster, node: &Node) -> String {
        let version = node.wmco_version.as_deref();
        let by_wmco = version.and_then(|version| {
            let name = format!("{}-{version}", services::CONFIG_MAP);
            wmco_entry(cluster.config_maps.get(name.as_str()), &name)
        });
        let sets = self.csi_proxy_sets.iter();
        let told: Vec<String> = by_wmco
            .into_iter()
            .chain(sets.map(|finding| finding.message.clone()))
            .collect();
        told.join("; ")
    }
}

#[cfg(test)]
mod tests;
