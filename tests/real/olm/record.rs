//! The history of a gate: what the operator has written, and what OLM did.

use serde_json::Value;

use crate::olm::cluster::{CONDITION, Cluster, upgradeable};

/// Returns the status of the gate in this `OperatorCondition` after each write by the operator, in order, from the API
/// server's audit log.
pub fn written(cluster: &Cluster, namespace: &str, name: &str) -> Vec<String> {
    let requests = cluster
        .control_plane
        .requests_of(namespace, "windows-storage-operator")
        .unwrap();
    requests
        .iter()
        .filter(|request| {
            request.code == 200
                && request.resource == "operatorconditions"
                && request.name.as_deref() == Some(name)
                && request.answer["kind"] == CONDITION
        })
        .map(|request| {
            let gate = upgradeable(&request.answer["spec"]["conditions"]);
            gate["status"].as_str().unwrap_or("absent").to_owned()
        })
        .collect()
}

/// Returns the phases that a CSV has gone through, as OLM records them in it.
pub fn phases(csv: &Value) -> Vec<&str> {
    let history = csv["status"]["conditions"].as_array().unwrap();
    let mut phases: Vec<&str> = history
        .iter()
        .map(|entry| entry["phase"].as_str().unwrap())
        .collect();
    phases.dedup();
    phases
}
