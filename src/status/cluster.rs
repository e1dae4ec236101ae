//! The status of `WindowsStorage`: the verdict, numbers, and what is wrong with the inputs.

use jiff::Timestamp;

use crate::api::{Counts, WindowsStorageStatus};
use crate::assess::report::{Upgradeable, Verdict};
use crate::gate::GateReport;
use crate::index::Cluster;
use crate::node::{
    HOST_KEYS_CONFIG_MAP, INSTANCES_CONFIG_MAP, KNOWN_HOSTS, KnownHosts, Rollout, SSH_SECRET,
    check_private_key, parse_instances,
};
use crate::services::{ServicesError, Step};
use crate::status::conditions::{NewCondition, find, settle};
use crate::status::rollout::{rollout_condition, rollout_status};

/// Whether the verdict is in the `OperatorCondition`; absent where the operator was given none to write.
const OPERATOR_CONDITION_WRITTEN: &str = "OperatorConditionWritten";

/// What the status follows from, beside the index.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterInputs {
    /// The verdict.
    pub verdict: Verdict,
    /// How many volumes hold upgrades.
    pub blocking: usize,
    /// How many Windows nodes there are.
    pub windows_nodes: usize,
    /// How many of them are ready.
    pub ready_nodes: usize,
    /// Whether this operator looks after csi-proxy on any of them.
    pub managed: bool,
    /// How far csi-proxy is on those.
    pub rollout: Rollout,
    /// The version of csi-proxy that they shall have.
    pub version: String,
    /// What is to be done with the services entry.
    pub services: Result<Step, ServicesError>,
    /// Why that could not be done the last time.
    pub services_problem: Option<String>,
    /// How the gate stands, where there is one.
    pub gate: Option<GateReport>,
}

/// The status that follows from all that is known.
#[must_use]
pub fn cluster_status(
    previous: &WindowsStorageStatus,
    cluster: &Cluster,
    inputs: &ClusterInputs,
    (generation, now): (Option<i64>, Timestamp),
) -> WindowsStorageStatus {
    let ClusterInputs {
        verdict,
        blocking,
        windows_nodes,
        ready_nodes,
        managed,
        rollout,
        version,
        services,
        services_problem,
        gate,
    } = inputs;
    let (windows_nodes, ready_nodes, managed) = (*windows_nodes, *ready_nodes, *managed);
    let gate = gate.as_ref();
    let said = [
        Some(upgradeable(verdict)),
        gate.map(|gate| operator_condition(previous, gate)),
        Some(credentials(cluster, managed)),
        Some(instances(cluster)),
        Some(host_keys(cluster)),
        Some(services_condition(services, services_problem.as_deref())),
        Some(rollout_condition(previous, rollout, version, managed)),
        Some(nodes_ready(windows_nodes, ready_nodes)),
    ];
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    WindowsStorageStatus {
        verdict: Some(verdict.clone()),
        counts: Some(Counts {
            windows_nodes: count(windows_nodes),
            ready_nodes: count(ready_nodes),
            blocking_volumes: count(*blocking),
        }),
        rollout: rollout_status(previous, rollout, version, managed),
        conditions: said
            .into_iter()
            .flatten()
            .map(|said| settle(&previous.conditions, said, generation, now))
            .collect(),
    }
}

/// The last status with another verdict, and how the gate stands: all that can be said while not all of the cluster can
/// be read.
#[must_use]
pub fn with_verdict(
    previous: &WindowsStorageStatus,
    verdict: &Verdict,
    gate: Option<&GateReport>,
    (generation, now): (Option<i64>, Timestamp),
) -> WindowsStorageStatus {
    let mut status = previous.clone();
    status.verdict = Some(verdict.clone());
    let said = [
        Some(upgradeable(verdict)),
        gate.map(|gate| operator_condition(previous, gate)),
    ];
    let mut conditions: Vec<_> = said
        .into_iter()
        .flatten()
        .map(|said| settle(&previous.conditions, said, generation, now))
        .collect();
    let others = status.conditions.into_iter().filter(|other| {
        other.type_ != OPERATOR_CONDITION_WRITTEN
            && conditions.iter().all(|said| said.type_ != other.type_)
    });
    let others: Vec<_> = others.collect();
    conditions.extend(others);
    status.conditions = conditions;
    status
}

/// What a process before this one has said stands until this one knows better, which it does soon.
fn operator_condition(previous: &WindowsStorageStatus, gate: &GateReport) -> NewCondition {
    if gate.is_pending()
        && let Some(before) = find(&previous.conditions, OPERATOR_CONDITION_WRITTEN)
    {
        return NewCondition::unchanged(OPERATOR_CONDITION_WRITTEN, before);
    }
    NewCondition {
        type_: OPERATOR_CONDITION_WRITTEN,
        status: gate.status,
        reason: gate.reason.to_owned(),
        message: gate.message.clone(),
    }
}

fn upgradeable(verdict: &Verdict) -> NewCondition {
    const TYPE: &str = "Upgradeable";
    match verdict.upgradeable {
        Upgradeable::True => NewCondition::yes(TYPE, verdict.reason.as_str(), &verdict.message),
        Upgradeable::False => NewCondition::no(TYPE, verdict.reason.as_str(), &verdict.message),
    }
}

fn credentials(cluster: &Cluster, managed: bool) -> NewCondition {
    const TYPE: &str = "CredentialsValid";
    match check_private_key(cluster.secrets.get(SSH_SECRET), &cluster.namespace) {
        Ok(_) => NewCondition::yes(
            TYPE,
            "Valid",
            format!("Secret {SSH_SECRET} holds a private key"),
        ),
        Err(_) if !managed => NewCondition::yes(
            TYPE,
            "NotNeeded",
            "no node is managed, so no SSH key is needed",
        ),
        Err(error) => NewCondition::no(TYPE, error.reason.as_str(), error.message),
    }
}

fn instances(cluster: &Cluster) -> NewCondition {
    const TYPE: &str = "InstancesValid";
    let instances = cluster
        .config_maps
        .get(INSTANCES_CONFIG_MAP)
        .map(|map| parse_instances(&map.data))
        .unwrap_or_default();
    let problems: Vec<&str> = instances
        .by_address
        .values()
        .filter_map(|user| user.as_ref().err().map(String::as_str))
        .collect();
    match problems.first() {
        None => NewCondition::yes(
            TYPE,
            "Valid",
            format!(
                "{} address(es) have a user of their own",
                instances.by_address.len()
            ),
        ),
        Some(first) => NewCondition::no(
            TYPE,
            "InvalidInstance",
            crate::node::printable(&match problems.len() - 1 {
                0 => (*first).to_owned(),
                1 => format!("{first} (and 1 more entry like this)"),
                more => format!("{first} (and {more} more entries like this)"),
            }),
        ),
    }
}

fn host_keys(cluster: &Cluster) -> NewCondition {
    const TYPE: &str = "HostKeysValid";
    let lines = cluster
        .config_maps
        .get(HOST_KEYS_CONFIG_MAP)
        .and_then(|map| map.data.get(KNOWN_HOSTS));
    let ignored = lines
        .map(|lines| KnownHosts::parse(lines).ignored)
        .unwrap_or_default();
    match ignored.first() {
        None => NewCondition::yes(TYPE, "Valid", "every line of known host keys can be used"),
        Some(first) => NewCondition::no(
            TYPE,
            "InvalidKnownHosts",
            crate::node::printable(&format!(
                "key {KNOWN_HOSTS} of ConfigMap {HOST_KEYS_CONFIG_MAP} has {} line(s) that are not used: {first}; correct or remove them",
                ignored.len()
            )),
        ),
    }
}

fn services_condition(
    services: &Result<Step, ServicesError>,
    problem: Option<&str>,
) -> NewCondition {
    const TYPE: &str = "ServicesValid";
    match services {
        Ok(Step::Keep(document)) => NewCondition::yes(
            TYPE,
            "Valid",
            format!(
                "ConfigMap windows-services lists {} service(s)",
                document.services.len()
            ),
        ),
        Ok(Step::Create(_) | Step::Update { .. }) => match problem {
            Some(problem) => NewCondition::no(
                TYPE,
                "NotWritten",
                crate::node::printable(&format!(
                    "the csi-proxy entry cannot be written to ConfigMap windows-services, so no node is worked on: {problem}"
                )),
            ),
            None => NewCondition::unknown(
                TYPE,
                "Writing",
                "the csi-proxy entry is being written to ConfigMap windows-services",
            ),
        },
        Err(error) => NewCondition::no(
            TYPE,
            "InvalidServices",
            crate::node::printable(&error.to_string()),
        ),
    }
}

fn nodes_ready(nodes: usize, ready: usize) -> NewCondition {
    const TYPE: &str = "NodesReady";
    let message = format!("storage is ready on {ready} of {nodes} Windows node(s)");
    if ready == nodes {
        NewCondition::yes(TYPE, "AllReady", message)
    } else {
        NewCondition::no(
            TYPE,
            "NodesNotReady",
            format!("{message}; see kubectl get windowsnodestorages"),
        )
    }
}
