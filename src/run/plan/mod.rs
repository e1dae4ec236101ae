//! The whole wish of the controller, made anew from the whole state. No client, no clock.

mod left;
mod rollout;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::api::{
    Management, SETTINGS_NAME, UPGRADEABLE, WindowsNodeStorageStatus, WindowsStorage,
    WindowsStorageSpec, WindowsStorageStatus,
};
use crate::assess::Report;
use crate::assess::report::NodeReadiness;
use crate::gate::{GateReport, Judged, is_held};
use crate::index::{AnyTable, Cluster, Listed, Node};
use crate::node::payload::Payload;
use crate::node::{Awaited, Hold, NodePlan, Observation, Planner, Present, Rollout, SlotState};
use crate::run::History;
use crate::services::{self, Entry, ServicesError, ServicesPlan, csi_proxy_flags};
use crate::status::{NodeInputs, NodeStatus, NodeStatuses, find, is_ready, node_status};

/// How long after lists ended slots for removals and releases may be given, and stand until their work begins.
const STAYS_FRESH: Duration = Duration::from_secs(60);
/// The shortest pause before undecided nodes are looked at again.
const LEAST_PAUSE: Duration = Duration::from_millis(500);

/// What the plan follows from, except for the slots.
pub struct Inputs<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// What is judged of it.
    pub report: &'a Report,
    /// What the last snapshot cannot say.
    pub history: &'a History,
    /// The plan before this one.
    pub before: Option<&'a Plan>,
    /// What the actors have seen.
    pub seen: Seen<'a>,
    /// The programs for nodes.
    pub payload: &'a Payload,
    /// Until when unseen nodes may be in the middle of work that an earlier process began.
    pub settled_at: Instant,
    /// The wall clock, for timestamps in objects.
    pub now: Timestamp,
    /// The monotonic clock, for pauses.
    pub instant: Instant,
}

/// What the actors have seen.
pub struct Seen<'a> {
    /// Observations of nodes.
    pub observations: &'a BTreeMap<String, Observation>,
    /// Why the last write of the services entry failed.
    pub services_problem: Option<String>,
    /// The state of the gate, once it is known.
    pub gate: Option<GateReport>,
}

/// What each actor is to do.
pub struct Plan {
    /// The settings.
    pub spec: WindowsStorageSpec,
    /// What the gate depends on.
    pub judged: Judged,
    /// Whether it is based on the complete cluster, not just on what has been read by now.
    pub is_complete: bool,
    /// Whether everything that work on nodes depends on has been read.
    pub knows_configuration: bool,
    /// The plan for the services entry.
    pub services: Result<ServicesPlan, ServicesError>,
    /// The resourceVersion that the ConfigMaps were read up to.
    pub config_maps_version: u64,
    /// The plan for each Windows node.
    pub nodes: BTreeMap<String, NodePlan>,
    /// The granted slots, and the progress of the rollout.
    pub rollout: Rollout,
    /// The nodes that may begin work in their slots.
    pub allowed: BTreeSet<String>,
    /// The statuses of nodes that differ from what is stored.
    pub statuses: NodeStatuses,
    /// The number of Windows nodes that are ready.
    pub ready: usize,
    /// The nodes on which nothing uses csi-proxy; nothing while a use may go unseen.
    pub unused: Option<BTreeSet<String>>,
    /// The status of `WindowsStorage`, if it differs: the current object, and the new status.
    pub settings: Option<(Option<WindowsStorage>, WindowsStorageStatus)>,
    /// The resourceVersion that the settings were read up to.
    pub settings_version: u64,
    /// Statuses to be deleted.
    pub left_statuses: BTreeSet<String>,
    /// Nodes whose host keys are to be removed.
    pub left_keys: BTreeSet<String>,
    /// Since when lists are wanted for a removal or a release.
    pub wants_lists: Option<Instant>,
    /// When the plan is another one if nothing changes.
    pub due: Option<Instant>,
}

/// Makes the plan.
pub fn plan(inputs: &Inputs<'_>, slots: &SlotState) -> Plan {
    let mut plan = Plan::of_nodes(inputs);
    let is_readable = plan.is_complete && inputs.cluster.stale().is_empty();
    let listed = inputs.cluster.listed().filter(|_| is_readable);
    let due = plan.plan_nodes(inputs, listed);
    let is_removed = plan.is_all_removed();
    if is_removed {
        let map = inputs.cluster.config_maps.get(services::CONFIG_MAP);
        plan.services = services::plan_removal(map);
    } else if matches!(plan.services, Ok(ServicesPlan::Create(_)))
        && !plan.nodes.values().any(NodePlan::is_managed)
    {
        plan.services = Ok(ServicesPlan::Unneeded);
    }
    let slots_want = plan.decide_slots(inputs, slots, listed);
    plan.judged.in_progress = plan.of_these(slots.in_progress(&plan.rollout.slots));
    plan.allowed = plan.allowed(inputs);
    if plan.is_complete {
        let windows = inputs.report.windows.iter().map(ToString::to_string);
        let is_unused = |name: &String| inputs.report.csi_proxy_use(name).is_none();
        plan.unused = Some(windows.filter(is_unused).collect());
        plan.plan_statuses(inputs);
        plan.left_statuses = left::statuses(inputs.cluster);
        plan.left_keys = left::keys(inputs, is_removed);
    }
    plan.plan_settings(inputs);
    let is_due = |at: &&Instant| **at <= inputs.instant;
    let removal = due.iter().filter(is_due).max().copied();
    plan.wants_lists = slots_want.max(removal).filter(|_| is_readable);
    plan.due = plan.next_due(inputs, &due);
    plan
}

impl Plan {
    /// Begins a plan with what follows from the cluster alone.
    fn of_nodes(inputs: &Inputs<'_>) -> Self {
        let Inputs {
            cluster, history, ..
        } = inputs;
        let spec = cluster.wanted();
        let knows_configuration = cluster.knows_configuration();
        let verdict = history.announced().map(|(verdict, _)| verdict);
        Self {
            judged: Judged {
                verdict: verdict.unwrap_or(&inputs.report.verdict).clone(),
                turned: history.turned,
                at: inputs.instant,
                lists: cluster.lists(),
                gone: history.gone(cluster, inputs.report),
                in_progress: BTreeSet::new(),
                was_held: (inputs.before)
                    .and_then(|before| before.judged.was_held)
                    .or_else(|| was_held(cluster)),
            },
            is_complete: cluster.unread().is_empty() && knows_configuration,
            knows_configuration,
            services: plan_services(cluster, &spec),
            config_maps_version: cluster.config_maps.version(),
            nodes: BTreeMap::new(),
            rollout: inputs
                .before
                .map_or_else(Rollout::default, |before| before.rollout.clone()),
            allowed: BTreeSet::new(),
            statuses: NodeStatuses {
                version: cluster.node_statuses.version(),
                by_name: BTreeMap::new(),
            },
            ready: inputs.before.map_or(0, |before| before.ready),
            unused: None,
            settings: None,
            settings_version: cluster.settings.version(),
            left_statuses: BTreeSet::new(),
            left_keys: BTreeSet::new(),
            wants_lists: None,
            due: None,
            spec,
        }
    }

    /// Returns the nodes with a slot whose work may begin: the stored status names them, or the next process would not know,
    /// and the gate has done with the last plan that does, or it could still be opening.
    fn allowed(&self, inputs: &Inputs<'_>) -> BTreeSet<String> {
        let stored = stored_in_progress(inputs.cluster);
        let (Some(gate), Some(before)) = (&inputs.seen.gate, inputs.before) else {
            return BTreeSet::new();
        };
        let known = &gate.knows & &before.judged.in_progress;
        &(&self.rollout.slots & &stored) & &known
    }

    /// Plans every Windows node. Returns when removals are due that wait only for that time, or for lists since.
    fn plan_nodes(&mut self, inputs: &Inputs<'_>, listed: Option<Listed>) -> Vec<Instant> {
        let nobody = BTreeMap::new();
        let present = Present {
            now: inputs.now,
            instant: inputs.instant,
            listed: listed.map(|listed| listed.begun),
            report: inputs.report,
            plans: inputs.before.map_or(&nobody, |before| &before.nodes),
            unused_since: &inputs.history.unused_since,
        };
        let planner = Planner::as_of(inputs.cluster, &self.spec, present)
            .bringing(inputs.payload, &self.services);
        let mut due = Vec::new();
        let mut nodes = BTreeMap::new();
        for (name, node) in inputs.cluster.windows_nodes() {
            let plan = planner.plan(name, node);
            if let Some(Hold::Until(at) | Hold::Unlisted(at)) = planner.hold(name, node, &plan) {
                due.push(at);
            }
            nodes.insert(name.to_string(), plan);
        }
        self.nodes = nodes;
        due
    }

    /// Returns whether nothing of this operator is left on any node, as the administrator wants.
    fn is_all_removed(&self) -> bool {
        self.is_complete
            && self.spec.csi_proxy.management == Management::Removed
            && !self.has_rollout()
    }

    /// Plans the statuses of nodes.
    fn plan_statuses(&mut self, inputs: &Inputs<'_>) {
        let cluster = inputs.cluster;
        let mut ready = 0;
        let statuses = inputs.report.nodes(cluster, |name, readiness| {
            let node = cluster.nodes.get(name)?;
            let previous = cluster.node_statuses.get(name.as_str());
            let status = self.node_status(inputs, (name, node), previous, &readiness)?;
            ready += usize::from(is_ready(&status));
            let differs = previous != Some(&status);
            differs.then(|| {
                let of_node = NodeStatus {
                    uid: node.uid.clone(),
                    previous: previous.cloned(),
                    status,
                };
                (name.to_string(), of_node)
            })
        });
        self.ready = ready;
        self.statuses.by_name = statuses.into_iter().flatten().collect();
    }

    fn node_status(
        &self,
        inputs: &Inputs<'_>,
        (name, node): (&str, &Node),
        previous: Option<&WindowsNodeStorageStatus>,
        readiness: &NodeReadiness,
    ) -> Option<WindowsNodeStorageStatus> {
        let csi_proxy = &inputs.payload.csi_proxy;
        let pool = self.spec.pools_of(&node.labels).next();
        let of_node = NodeInputs {
            readiness,
            csi_proxy_use: inputs.report.csi_proxy_use(name),
            plan: self.nodes.get(name)?,
            observation: inputs.seen.observations.get(name),
            pool: pool.map(|pool| pool.name.as_str()),
            csi_proxy: (&csi_proxy.sha256, &csi_proxy.version),
        };
        let nothing = WindowsNodeStorageStatus::default();
        Some(node_status(
            previous.unwrap_or(&nothing),
            &of_node,
            inputs.now,
        ))
    }

    /// Returns when the plan is another one by time alone.
    fn next_due(&self, inputs: &Inputs<'_>, removals: &[Instant]) -> Option<Instant> {
        let (now, instant) = (inputs.now, inputs.instant);
        let decided = self.nodes.values().filter_map(|plan| match plan {
            NodePlan::Undecided(Awaited::Time(until)) => *until,
            _ => None,
        });
        // Those that are due already wait for something else.
        let decided = decided.filter(|at| *at > now).min();
        let decided = decided.and_then(|first| Duration::try_from(now.until(first).ok()?).ok());
        let decided = decided.map(|wait| instant + wait.max(LEAST_PAUSE));
        let removal = removals.iter().filter(|at| **at > instant).min();
        let removal = removal.map(|at| (*at).max(instant + LEAST_PAUSE));
        let settled = Some(inputs.settled_at).filter(|at| *at > instant);
        let history = inputs.history.due(instant);
        let due = [decided, removal, settled, history];
        due.into_iter().flatten().min()
    }
}

/// Returns whether `WindowsStorage` holds upgrades, once it has been read.
fn was_held(cluster: &Cluster) -> Option<bool> {
    let status = cluster
        .settings
        .get(SETTINGS_NAME)
        .and_then(|object| object.status.as_ref());
    let said = status.and_then(|status| find(&status.conditions, UPGRADEABLE));
    let is_held = said.is_some_and(|said| is_held(&said.status, &said.reason));
    cluster.settings.is_complete().then_some(is_held)
}

/// Plans the services entry. For a complete removal, the entry stays until nothing of this operator is left on any node.
fn plan_services(
    cluster: &Cluster,
    spec: &WindowsStorageSpec,
) -> Result<ServicesPlan, ServicesError> {
    let map = cluster.config_maps.get(services::CONFIG_MAP);
    match spec.csi_proxy.management {
        Management::Removed => Ok(ServicesPlan::Unneeded),
        _ => services::plan(
            map,
            &Entry::of(&csi_proxy_flags(&spec.csi_proxy.extra_args)?),
        ),
    }
}

/// Returns the nodes that are being changed according to the stored status.
pub fn stored_in_progress(cluster: &Cluster) -> BTreeSet<String> {
    let settings = cluster.settings.get(crate::api::SETTINGS_NAME);
    let status = settings.and_then(|object| object.status.as_ref());
    let rollout = status.and_then(|status| status.rollout.as_ref());
    let nodes = rollout.into_iter().flat_map(|it| &it.in_progress);
    nodes.cloned().collect()
}

#[cfg(test)]
mod tests;
