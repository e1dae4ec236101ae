//! Clusters written by hand, each for one sentence of the contract, with what the report must say of them.
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!(…)` reads best where it is handed over"
)]
#![allow(clippy::too_many_lines, reason = "a table is as long as the contract")]

/// A row of a table: the case's name, its objects, and what the report must say of them.
macro_rules! case {
    ($name:literal: $objects:expr => $expected:expr) => {
        crate::cases::case($name, Vec::from($objects), $expected)
    };
}

mod drivers;
mod owners;
mod verdict;
mod volumes;
mod workloads;

use crate::oracle::cluster::{
    CLAIM, CSI_NODE, Kind, NODE, PERSISTENT_VOLUME, POD, REPLICATION_CONTROLLER, STORAGE_CLASS,
    WINDOWS_STORAGE,
};
use crate::oracle::expect;
use crate::run::{Subject, comparable, disagreement, fresh};
use serde_json::{Value, json};

pub struct Case {
    pub name: &'static str,
    pub objects: Vec<Value>,
    /// Parts of what the oracle says. Of objects some keys may be left out, of lists no item.
    pub expected: Value,
}

pub fn all() -> Vec<Case> {
    [
        verdict::cases(),
        workloads::cases(),
        owners::cases(),
        volumes::cases(),
        drivers::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a subject gets wrong, each with the name of the case.
pub fn failures(make: impl Fn() -> Box<dyn Subject>) -> Vec<String> {
    let mut failures = Vec::new();
    for case in all() {
        let report = fresh(&make, &case.objects);
        let mut got = comparable(&report);
        got["verdict"]["message"] = report["verdict"]["message"].clone();
        let wrong = mismatch("", &case.expected, &got)
            .or_else(|| disagreement(&expect(&case.objects), &report));
        failures.extend(wrong.map(|wrong| format!("{}: {wrong}", case.name)));
    }
    failures
}

/// The first place where what is expected is not there.
pub fn mismatch(at: &str, expected: &Value, got: &Value) -> Option<String> {
    match (expected, got) {
        (Value::Object(wanted), Value::Object(there)) => wanted.iter().find_map(|(key, wanted)| {
            let got = there
                .get(key)
                .or_else(|| there.get("message").filter(|_| key == "messageEnd"));
            let ends = key == "messageEnd"
                && got
                    .and_then(Value::as_str)
                    .is_some_and(|text| text.ends_with(wanted.as_str().unwrap_or("?")));
            if ends {
                None
            } else {
                mismatch(&format!("{at}/{key}"), wanted, got.unwrap_or(&Value::Null))
            }
        }),
        (Value::Array(wanted), Value::Array(there)) if wanted.len() == there.len() => wanted
            .iter()
            .zip(there)
            .enumerate()
            .find_map(|(index, (wanted, got))| mismatch(&format!("{at}/{index}"), wanted, got)),
        _ => (expected != got).then(|| format!("{at}: expected {expected}, got {got}")),
    }
}

fn case(name: &'static str, objects: Vec<Value>, expected: Value) -> Case {
    Case {
        name,
        objects,
        expected,
    }
}

fn object((api_version, kind): Kind, namespaced: bool, name: &str, mut parts: Value) -> Value {
    parts["apiVersion"] = json!(api_version);
    parts["kind"] = json!(kind);
    parts["metadata"]["name"] = json!(name);
    if namespaced {
        parts["metadata"]["namespace"] = json!("shop");
    }
    parts
}

fn node(name: &str, metadata: Value) -> Value {
    object(NODE, false, name, json!({"metadata": metadata}))
}

fn windows(name: &str) -> Value {
    node(name, json!({"labels": {"kubernetes.io/os": "windows"}}))
}

fn linux(name: &str) -> Value {
    node(name, json!({"labels": {"kubernetes.io/os": "linux"}}))
}

fn csi_node(name: &str, drivers: &[&str]) -> Value {
    let drivers: Vec<_> = drivers
        .iter()
        .map(|driver| json!({"name": driver, "nodeID": name}))
        .collect();
    object(CSI_NODE, false, name, json!({"spec": {"drivers": drivers}}))
}

fn pod(name: &str, spec: Value) -> Value {
    object(
        POD,
        true,
        name,
        json!({"spec": spec, "status": {"phase": "Running"}}),
    )
}

fn pod_on(node: &str, name: &str, volume: Value) -> Value {
    pod(name, json!({"nodeName": node, "volumes": [volume]}))
}

/// A pod on `win-1` with one volume `data` from a claim `data`.
fn pod_with_claim() -> Value {
    pod_on(
        "win-1",
        "web-0",
        json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}}),
    )
}

fn azure_disk() -> Value {
    json!({"name": "data", "azureDisk": {"diskName": "d", "diskURI": "u"}})
}

fn claim(name: &str, spec: Value) -> Value {
    object(CLAIM, true, name, json!({"spec": spec}))
}

fn persistent_volume(name: &str, spec: Value) -> Value {
    object(PERSISTENT_VOLUME, false, name, json!({"spec": spec}))
}

fn class(name: &str, provisioner: &str) -> Value {
    object(
        STORAGE_CLASS,
        false,
        name,
        json!({"provisioner": provisioner}),
    )
}

/// An owner whose template has this spec; its uid is its name.
fn owner(kind: Kind, name: &str, template: Value) -> Value {
    object(
        kind,
        true,
        name,
        json!({"metadata": {"uid": name}, "spec": {"template": {"spec": template}}}),
    )
}

fn controlled_by(mut object: Value, uid: &str) -> Value {
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": REPLICATION_CONTROLLER.1, "name": uid, "uid": uid, "controller": true}]);
    object
}

fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = json!(value);
    object
}

fn risk_accepted() -> Value {
    object(
        WINDOWS_STORAGE,
        false,
        "cluster",
        json!({"spec": {"upgradeGate": "Ignore"}}),
    )
}

fn asking(volume: Value) -> Value {
    json!({"os": {"name": "windows"}, "volumes": [volume]})
}
