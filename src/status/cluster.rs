//! Builds the status of `WindowsStorage`: the verdict, counts, and problems of the inputs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::api::{Counts, PrivateKeySecretRef, UPGRADEABLE, WindowsStorageStatus};
use crate::assess::BlockingVolumes;
use crate::assess::report::{Upgradeable, Verdict};
use crate::gate::{GateReport, Turned};
use crate::index::Cluster;
use crate::node::{self, HOST_KEYS_CONFIG_MAP, KNOWN_HOSTS, Rollout, check_private_key, printable};
use crate::services::{ServicesError, ServicesPlan};
use crate::status::conditions::{
    NAMED, NewCondition, condition, find, no, settle, unchanged, unknown, yes,
};
use crate::status::node::has_accepted;
use crate::status::ready::ready;
use crate::status::removal::{RemovalProgress, removal_condition};
use crate::status::rollout::{ROLLOUT_PROGRESSING, rollout_condition, rollout_status};
use crate::status::upgraded::{held_since_version, upgraded_while_held};
use crate::visible::some_of;

/// Whether the verdict is written to the `OperatorCondition`. Absent if the operator has no `OperatorCondition`.
pub const OPERATOR_CONDITION_WRITTEN: &str = "OperatorConditionWritten";

/// WMCO's `ConfigMap` of hosts to configure, by address.
pub const INSTANCES_CONFIG_MAP: &str = "windows-instances";

/// Nodes by the SSH key that they need.
pub type NodesByKey = BTreeMap<PrivateKeySecretRef, Vec<String>>;

/// The inputs of the status, besides the index.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterInputs {
    /// The verdict.
    pub verdict: Verdict,
    /// The volumes that hold upgrades.
    pub blocking: BlockingVolumes,
    /// The number of Windows nodes.
    pub windows_nodes: usize,
    /// The number of ready Windows nodes.
    pub ready_nodes: usize,
    /// Whether this operator manages csi-proxy on any node.
    pub managed: bool,
    /// The progress of the removal, if everything is to be removed.
    pub removal: Option<RemovalProgress>,
    /// The progress of the rollout on managed nodes.
    pub rollout: Rollout,
    /// The nodes that are being changed.
    pub in_progress: BTreeSet<String>,
    /// The csi-proxy version to roll out.
    pub version: String,
    /// The SSH keys that managed nodes need, each with its nodes.
    pub nodes_by_key: NodesByKey,
    /// What to do with the services entry.
    pub services: Result<ServicesPlan, ServicesError>,
    /// Why the last attempt at that failed.
    pub services_problem: Option<String>,
    /// The state of the gate, once it is known.
    pub gate: Option<GateReport>,
    /// When the verdict turned to what it is.
    pub turned: Turned,
    /// The API server's Kubernetes version.
    pub kubernetes_version: String,
}

/// Builds the status from all inputs.
pub fn cluster_status(
    previous: &WindowsStorageStatus,
    cluster: &Cluster,
    inputs: &ClusterInputs,
    when: (Option<i64>, Timestamp),
) -> WindowsStorageStatus {
    let (windows_nodes, ready_nodes) = (inputs.windows_nodes, inputs.ready_nodes);
    let (rollout, version, managed) = (&inputs.rollout, &inputs.version, inputs.managed);
    let services = match &inputs.removal {
        Some(_) if inputs.services.is_ok() && inputs.services_problem.is_none() => yes(
            "NotUsed",
            "the services of ConfigMap windows-services are not kept any more",
        ),
        _ => services(&inputs.services, inputs.services_problem.as_deref()),
    };
    let progress = match &inputs.removal {
        Some(removal) => removal_condition(removal, rollout),
        None => rollout_condition(previous, rollout, version, managed),
    };
    let mut conditions = verdict_conditions(previous, inputs);
    let pools = node_pools(cluster);
    conditions.extend(pools.map(|condition| ("NodePoolsValid", condition)));
    conditions.extend([
        ("CredentialsValid", credentials(cluster, inputs)),
        ("InstancesValid", instances(cluster, inputs)),
        ("HostKeysValid", host_keys(cluster)),
        ("ServicesValid", services),
        (ROLLOUT_PROGRESSING, progress),
        ("NodesReady", nodes_ready(windows_nodes, ready_nodes)),
    ]);
    conditions.extend(ready(&conditions));
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let conditions = settle(&previous.conditions, conditions, when);
    WindowsStorageStatus {
        observed_generation: when.0,
        held_since_version: held_since_version(previous, &inputs.kubernetes_version, &conditions),
        upgraded_while_held: upgraded_while_held(previous, &inputs.kubernetes_version, &conditions),
        counts: Some(Counts {
            windows_nodes: count(windows_nodes),
            ready_nodes: count(ready_nodes),
            blocking_volumes: count(inputs.blocking.count),
        }),
        blocking_volumes: inputs.blocking.first.clone(),
        rollout: rollout_status(previous, inputs),
        conditions,
    }
}

/// Returns the previous status with a new verdict and gate state. Nothing else can be updated while the cluster cannot be
/// read completely.
pub fn with_verdict(
    previous: &WindowsStorageStatus,
    inputs: &ClusterInputs,
    when: (Option<i64>, Timestamp),
) -> WindowsStorageStatus {
    let new = verdict_conditions(previous, inputs);
    let mut conditions = settle(&previous.conditions, new, when);
    let of_verdict = [UPGRADEABLE, OPERATOR_CONDITION_WRITTEN];
    let others = previous.conditions.iter();
    let others = others.filter(|other| !of_verdict.contains(&&*other.type_));
    conditions.extend(others.cloned());
    let mut status = previous.clone();
    let version = &inputs.kubernetes_version;
    status.held_since_version = held_since_version(previous, version, &conditions);
    status.upgraded_while_held = upgraded_while_held(previous, version, &conditions);
    status.conditions = conditions;
    // Work may begin meanwhile, and the next process must know where. A process that just started does not know it yet.
    if !inputs.in_progress.is_empty() {
        let rollout = status.rollout.get_or_insert_default();
        rollout.in_progress = inputs.in_progress.iter().cloned().collect();
    }
    status
}

/// Returns the conditions of the verdict and the gate. `Upgradeable` turns True only when the gate does, which may be a minute
/// after the verdict. The previous process's conditions stay until this process has read the gate.
fn verdict_conditions(
    previous: &WindowsStorageStatus,
    inputs: &ClusterInputs,
) -> Vec<(&'static str, NewCondition)> {
    let said = said(inputs);
    let before = find(&previous.conditions, UPGRADEABLE);
    let upgradeable = said.map_or_else(|| before.map(unchanged), |it| Some(verdict_condition(it)));
    let upgradeable = upgradeable.map(|upgradeable| (UPGRADEABLE, upgradeable));
    let before = find(&previous.conditions, OPERATOR_CONDITION_WRITTEN);
    let of_olm = inputs.gate.as_ref().filter(|gate| gate.is_of_olm);
    let gate = of_olm.map(|gate| match before {
        Some(before) if gate.is_pending() => unchanged(before),
        _ => condition(gate.status, gate.reason, &gate.message),
    });
    let gate = gate.map(|gate| (OPERATOR_CONDITION_WRITTEN, gate));
    upgradeable.into_iter().chain(gate).collect()
}

/// Returns the verdict to report, which is the gate's where the verdict is True; `None` while the gate is not done with that,
/// or has not seen yet that the verdict was False in between.
fn said(inputs: &ClusterInputs) -> Option<&Verdict> {
    let is_true = inputs.verdict.upgradeable == Upgradeable::True;
    let Some(gate) = inputs.gate.as_ref().filter(|_| is_true) else {
        return Some(&inputs.verdict);
    };
    let (of, decided) = gate.decided.as_ref()?;
    let is_seen = *of == inputs.verdict && (decided.holds() || decided.is_open(&inputs.turned));
    is_seen.then_some(&decided.verdict)
}

fn verdict_condition(verdict: &Verdict) -> NewCondition {
    let reason = verdict.reason.as_str();
    match verdict.upgradeable {
        Upgradeable::True => yes(reason, &verdict.message),
        Upgradeable::False => no(reason, &verdict.message),
    }
}

fn credentials(cluster: &Cluster, inputs: &ClusterInputs) -> NewCondition {
    let mut left: Vec<&String> = Vec::new();
    for (wanted, nodes) in &inputs.nodes_by_key {
        let secret = cluster.secrets.get(&wanted.name);
        let key = match check_private_key(secret, &cluster.namespace, wanted) {
            Ok(key) => key,
            Err(error) => return no(error.reason.as_str(), error.message),
        };
        match key.previous() {
            Some(Err(error)) => return no(error.reason.as_str(), &error.message),
            Some(Ok(_)) => {
                left.extend(nodes.iter().filter(|node| {
                    let status = cluster.node_statuses.get(node.as_str());
                    !status.is_some_and(|status| has_accepted(status, key.id()))
                }));
            }
            None => {}
        }
    }
    if inputs.nodes_by_key.is_empty() {
        return yes("NotNeeded", "no node is managed, so no SSH key is needed");
    }
    if left.is_empty() {
        let names: BTreeSet<&str> = (inputs.nodes_by_key.keys())
            .map(|key| key.name.as_str())
            .collect();
        let names: Vec<&str> = names.into_iter().collect();
        let message = format!("private keys are in Secret {}", names.join(", "));
        return yes("Valid", printable(&message));
    }
    let message = format!(
        "{} managed node(s) have not taken the new key yet: {}; add its public key there",
        left.len(),
        some_of(&left, NAMED)
    );
    yes("KeyChanging", printable(&message))
}

/// Reports pools without nodes, and nodes that match more than one pool. `None` without pools.
fn node_pools(cluster: &Cluster) -> Option<NewCondition> {
    let spec = cluster.wanted();
    if spec.node_pools.is_empty() {
        return None;
    }
    let empty = spec.node_pools.iter().filter(|pool| {
        let mut nodes = cluster.windows_nodes();
        !nodes.any(|(_, node)| {
            spec.pools_of(&node.labels)
                .next()
                .is_some_and(|first| first.name == pool.name)
        })
    });
    let empty: Vec<String> = empty.map(|pool| pool.name.clone()).collect();
    let several = cluster
        .windows_nodes()
        .filter(|(_, node)| spec.pools_of(&node.labels).count() > 1);
    let several: Vec<String> = several.map(|(name, _)| name.to_string()).collect();
    let none = format!(
        "no Windows node is in pool(s) {}; see kubectl get nodes --show-labels",
        some_of(&empty, NAMED)
    );
    if !several.is_empty() {
        let more = if empty.is_empty() {
            String::new()
        } else {
            format!("; {none}")
        };
        let message = format!(
            "the labels of {} fit more than one pool; the first in the list counts{more}",
            some_of(&several, NAMED)
        );
        return Some(yes("Overlapping", printable(&message)));
    }
    if !empty.is_empty() {
        return Some(yes("WithoutNodes", printable(&none)));
    }
    let count = spec.node_pools.len();
    let message = format!("each of {count} pool(s) has nodes, and no node fits two");
    Some(yes("Valid", message))
}

/// Warns where WMCO may take an address as an order to configure the host of a node that is ours.
fn instances(cluster: &Cluster, inputs: &ClusterInputs) -> NewCondition {
    let map = cluster.config_maps.get(INSTANCES_CONFIG_MAP);
    let is_listed = |name: &&String| {
        let node = cluster.nodes.get(name.as_str());
        let mut addresses = node.into_iter().flat_map(|node| &node.addresses);
        map.is_some_and(|map| addresses.any(|it| map.data.contains_key(&it.address)))
    };
    let managed = inputs.nodes_by_key.values().flatten();
    let listed: Vec<&String> = managed.filter(is_listed).collect();
    if listed.is_empty() {
        return yes(
            "Valid",
            "no managed node is listed for the Windows Machine Config Operator",
        );
    }
    let message = format!(
        "ConfigMap {INSTANCES_CONFIG_MAP} lists addresses of managed nodes: {}; in its namespace, it tells the Windows Machine Config \
         Operator to configure these hosts. Remove the addresses, and set the user in spec.ssh or a pool",
        some_of(&listed, NAMED)
    );
    no("ListedForWMCO", printable(&message))
}

fn host_keys(cluster: &Cluster) -> NewCondition {
    let ignored = node::known_hosts(cluster).ignored;
    let Some(first) = ignored.first() else {
        return yes("Valid", "every line of known host keys can be used");
    };
    let message = format!(
        "key {KNOWN_HOSTS} of ConfigMap {HOST_KEYS_CONFIG_MAP} has {} line(s) that are not used: {first}; correct or remove them",
        ignored.len()
    );
    no("InvalidKnownHosts", printable(&message))
}

/// How many of the services that nobody runs are named.
const MOST_OTHERS: usize = 10;

fn services(services: &Result<ServicesPlan, ServicesError>, problem: Option<&str>) -> NewCondition {
    match (services, problem) {
        (Err(error), _) => no("InvalidServices", printable(&error.to_string())),
        (Ok(ServicesPlan::Unneeded), _) => yes(
            "Unneeded",
            "the operator manages csi-proxy on no node, so it keeps no entry in ConfigMap windows-services",
        ),
        (Ok(ServicesPlan::Keep { others }), _) if others.is_empty() => yes(
            "Valid",
            "ConfigMap windows-services has the csi-proxy entry that is wanted",
        ),
        (Ok(ServicesPlan::Keep { others }), _) => {
            let message = format!(
                "ConfigMap windows-services also lists {} service(s) besides csi-proxy, which neither the operator nor its agents run: {}",
                others.len(),
                some_of(others, MOST_OTHERS)
            );
            yes("OthersNotRun", printable(&message))
        }
        (Ok(_), Some(problem)) => {
            let message = format!(
                "the csi-proxy entry cannot be written to ConfigMap windows-services, so no node is reconciled: {problem}"
            );
            no("NotWritten", printable(&message))
        }
        (Ok(_), None) => unknown(
            "Writing",
            "the csi-proxy entry is being written to ConfigMap windows-services",
        ),
    }
}

fn nodes_ready(nodes: usize, ready: usize) -> NewCondition {
    let message = format!("storage is ready on {ready} of {nodes} Windows node(s)");
    if ready == nodes {
        return yes("AllReady", message);
    }
    let message = format!("{message}; see kubectl get windowsnodestorages");
    no("NodesNotReady", message)
}
