//! Builds the status of `WindowsStorage`: the verdict, counts, and problems of the inputs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{
    Counts, Management, PrivateKeySecretRef, SETTINGS_NAME, UPGRADEABLE, WindowsStorageStatus,
};
use crate::assess::report::{Upgradeable, Verdict};
use crate::gate::{GateReport, Judged};
use crate::index::Cluster;
use crate::node::{self, HOST_KEYS_CONFIG_MAP, KNOWN_HOSTS, check_private_key, printable};
use crate::run::plan::{Inputs, Plan};
use crate::services::{ServicesError, ServicesPlan};
use crate::status::conditions::{
    NAMED, NewCondition, OPERATOR_CONDITION_WRITTEN, condition, find, no, settle, unchanged,
    unknown, yes,
};
use crate::status::node::has_accepted;
use crate::status::ready::ready;
use crate::status::removal::removal_condition;
use crate::status::rollout::{ROLLOUT_PROGRESSING, rollout_condition, rollout_status};
use crate::status::upgraded::note_upgrade;
use crate::visible::some_of;

/// WMCO's `ConfigMap` of hosts to configure, by address.
pub const INSTANCES_CONFIG_MAP: &str = "windows-instances";

/// Conditions that follow from the verdict and the gate alone.
const OF_VERDICT: [&str; 2] = [UPGRADEABLE, OPERATOR_CONDITION_WRITTEN];

/// Builds the status. While the cluster cannot be read completely, only the verdict and the state of the gate are updated.
pub fn cluster_status(plan: &Plan, inputs: &Inputs<'_>) -> WindowsStorageStatus {
    let object = inputs.cluster.settings.get(SETTINGS_NAME);
    let generation = object.and_then(|object| object.metadata.generation);
    let previous = object.and_then(|object| object.status.clone());
    let mut status = previous.clone().unwrap_or_default();
    let previous = previous.unwrap_or_default();
    let mut conditions = verdict_conditions(&previous, plan, inputs);
    if plan.is_complete {
        conditions.extend(other_conditions(&previous, plan, inputs));
        conditions.extend(ready(&conditions));
    }
    let new = settle(&previous.conditions, conditions, (generation, inputs.now));
    let is_kept =
        |before: &Condition| !plan.is_complete && !OF_VERDICT.contains(&before.type_.as_str());
    status.conditions.retain(is_kept);
    status.conditions.splice(0..0, new);
    if let Some(version) = &inputs.cluster.api_server_version {
        note_upgrade(&mut status, version);
    }
    if plan.is_complete {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let blocking = inputs.history.blocking();
        status.observed_generation = generation;
        status.counts = Some(Counts {
            windows_nodes: count(inputs.report.windows.len()),
            ready_nodes: count(plan.ready),
            blocking_volumes: count(blocking.count),
        });
        status.blocking_volumes = blocking.first;
        status.rollout = rollout_status(&previous, plan, &inputs.payload.csi_proxy.version);
    } else if !plan.judged.in_progress.is_empty() {
        // Work may begin meanwhile, and the next process must know where. A process that just started does not know it yet.
        let rollout = status.rollout.get_or_insert_default();
        rollout.in_progress = plan.judged.in_progress.iter().cloned().collect();
    }
    status
}

/// Returns the conditions besides those of the verdict.
fn other_conditions(
    previous: &WindowsStorageStatus,
    plan: &Plan,
    inputs: &Inputs<'_>,
) -> Vec<(&'static str, NewCondition)> {
    let cluster = inputs.cluster;
    let problem = inputs.seen.services_problem.as_deref();
    let is_removed = plan.spec.csi_proxy.management == Management::Removed;
    let services = if is_removed && plan.services.is_ok() && problem.is_none() {
        let message = "csi-proxy is to run on no node: its entry in ConfigMap windows-services goes with the last one";
        yes("Unneeded", message)
    } else {
        services(&plan.services, problem)
    };
    let progress = if is_removed {
        removal_condition(plan, inputs)
    } else {
        let version = &inputs.payload.csi_proxy.version;
        rollout_condition(previous, &plan.rollout, version, plan.has_rollout())
    };
    let nodes = inputs.report.windows.len();
    let pools = node_pools(cluster).map(|pools| ("NodePoolsValid", pools));
    let others = [
        ("CredentialsValid", credentials(cluster, plan)),
        ("InstancesValid", instances(cluster, plan)),
        ("HostKeysValid", host_keys(cluster)),
        ("ServicesValid", services),
        (ROLLOUT_PROGRESSING, progress),
        ("NodesReady", nodes_ready(nodes, plan.ready)),
    ];
    pools.into_iter().chain(others).collect()
}

/// Returns the conditions of the verdict and the gate. `Upgradeable` turns True only when the gate does, which may be a minute
/// after the verdict. The previous process's conditions stay until this process has read the gate.
fn verdict_conditions(
    previous: &WindowsStorageStatus,
    plan: &Plan,
    inputs: &Inputs<'_>,
) -> Vec<(&'static str, NewCondition)> {
    let gate = inputs.seen.gate.as_ref();
    let upgradeable = match said(&plan.judged, gate) {
        Some(verdict) => {
            let (status, reason) = (verdict.upgradeable.as_str(), verdict.reason.as_str());
            Some(condition(status, reason, &verdict.message))
        }
        None => find(&previous.conditions, UPGRADEABLE).map(unchanged),
    };
    let upgradeable = upgradeable.map(|upgradeable| (UPGRADEABLE, upgradeable));
    let before = find(&previous.conditions, OPERATOR_CONDITION_WRITTEN);
    let of_olm = gate.filter(|gate| gate.is_of_olm);
    let gate = of_olm.map(|gate| match before {
        Some(before) if gate.is_pending() => unchanged(before),
        _ => condition(gate.status, gate.reason, &gate.message),
    });
    let gate = gate.map(|gate| (OPERATOR_CONDITION_WRITTEN, gate));
    upgradeable.into_iter().chain(gate).collect()
}

/// Returns the verdict to report, which is the gate's where the verdict is True; `None` while the gate is not done with that,
/// or has not seen yet that the verdict was False in between.
fn said<'a>(judged: &'a Judged, gate: Option<&'a GateReport>) -> Option<&'a Verdict> {
    let is_true = judged.verdict.upgradeable == Upgradeable::True;
    let Some(gate) = gate.filter(|_| is_true) else {
        return Some(&judged.verdict);
    };
    let (of, decided) = gate.decided.as_ref()?;
    let is_seen = *of == judged.verdict && (decided.holds() || decided.is_open(&judged.turned));
    is_seen.then_some(&decided.verdict)
}

/// Returns the managed nodes by name.
fn managed(plan: &Plan) -> impl Iterator<Item = &String> {
    let managed = plan.nodes.iter().filter(|(_, plan)| plan.is_managed());
    managed.map(|(name, _)| name)
}

fn credentials(cluster: &Cluster, plan: &Plan) -> NewCondition {
    let mut nodes_by_key: BTreeMap<&PrivateKeySecretRef, Vec<&String>> = BTreeMap::new();
    for name in managed(plan) {
        if let Some(node) = cluster.nodes.get(name.as_str()) {
            let pool = plan.spec.pools_of(&node.labels).next();
            let key = plan.spec.private_key(pool);
            nodes_by_key.entry(key).or_default().push(name);
        }
    }
    let mut left: Vec<&String> = Vec::new();
    for (wanted, nodes) in &nodes_by_key {
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
    if nodes_by_key.is_empty() {
        return yes("NotNeeded", "no node is managed, so no SSH key is needed");
    }
    if left.is_empty() {
        let names: BTreeSet<&str> = nodes_by_key.keys().map(|key| key.name.as_str()).collect();
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
    let mut empty: Vec<&str> = spec.node_pools.iter().map(|pool| &*pool.name).collect();
    let mut several = Vec::new();
    for (name, node) in cluster.windows_nodes() {
        let mut pools = spec.pools_of(&node.labels);
        if let Some(first) = pools.next() {
            empty.retain(|pool| *pool != first.name);
        }
        if pools.next().is_some() {
            several.push(name.as_str());
        }
    }
    let overlap = (!several.is_empty()).then(|| {
        let nodes = some_of(&several, NAMED);
        format!("the labels of {nodes} fit more than one pool; the first in the list counts")
    });
    let none = (!empty.is_empty()).then(|| {
        let pools = some_of(&empty, NAMED);
        format!("no Windows node is in pool(s) {pools}; see kubectl get nodes --show-labels")
    });
    let (reason, message) = match (overlap, none) {
        (Some(overlap), Some(none)) => ("Overlapping", format!("{overlap}; {none}")),
        (Some(overlap), None) => ("Overlapping", overlap),
        (None, Some(none)) => ("WithoutNodes", none),
        (None, None) => {
            let count = spec.node_pools.len();
            let message = format!("each of {count} pool(s) has nodes, and no node fits two");
            ("Valid", message)
        }
    };
    Some(yes(reason, printable(&message)))
}

/// Warns where WMCO may take an address as an order to configure the host of a node that is ours.
fn instances(cluster: &Cluster, plan: &Plan) -> NewCondition {
    let map = cluster.config_maps.get(INSTANCES_CONFIG_MAP);
    let is_listed = |name: &&String| {
        let node = cluster.nodes.get(name.as_str());
        let mut addresses = node.into_iter().flat_map(|node| &node.addresses);
        map.is_some_and(|map| addresses.any(|it| map.data.contains_key(&it.address)))
    };
    let listed: Vec<&String> = managed(plan).filter(is_listed).collect();
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
                some_of(others, NAMED)
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
