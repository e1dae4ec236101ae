//! What the version before has stored in the cluster is read without loss. `tools/before` names that version; with the next
//! one the fixtures here follow. An agent of another version is replaced before a request is sent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windows_storage_operator::api::{WindowsNodeStorage, WindowsStorage};
use windows_storage_operator::index::ConfigMap;
use windows_storage_operator::node::{HostKey, goes_with_node};
use windows_storage_operator::services::{Entry, ServicesPlan, plan};

/// Reads a fixture of one object, or of one in each line, and fails where something of it gets lost.
fn read<T: DeserializeOwned + Serialize>(fixture: &str) -> Vec<T> {
    let objects = serde_json::Deserializer::from_str(fixture).into_iter::<Value>();
    let objects = objects.map(|object| {
        let before = object.unwrap();
        let read: T = serde_json::from_value(before.clone()).unwrap();
        let now = serde_json::to_value(&read).unwrap();
        assert_eq!(lost(&before, &now), [""; 0], "of {before}");
        read
    });
    objects.collect()
}

/// The paths of what is not the same any more. What has come since is no loss.
fn lost(before: &Value, now: &Value) -> Vec<String> {
    let within = |name: &dyn std::fmt::Display, before, now| {
        let inner = lost(before, now).into_iter();
        inner.map(|path| format!("/{name}{path}")).collect()
    };
    let parts: Vec<Vec<String>> = match (before, now) {
        (Value::Object(before), Value::Object(now)) => before
            .iter()
            .map(|(name, value)| within(name, value, now.get(name).unwrap_or(&Value::Null)))
            .collect(),
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            let items = before.iter().zip(now).enumerate();
            items
                .map(|(place, (before, now))| within(&place, before, now))
                .collect()
        }
        _ if before == now => Vec::new(),
        _ => vec![vec![String::new()]],
    };
    parts.concat()
}

#[test]
fn what_the_operator_before_has_stored_is_understood() {
    read::<WindowsStorage>(include_str!("windowsstorage.json"));
    read::<WindowsNodeStorage>(include_str!("windowsnodestorages.jsonl"));
    for comment in ["stored-at-first-contact", "accepted"] {
        let pin = format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA {comment}");
        let key = HostKey::parse(&pin).to_string();
        assert_eq!(key, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA");
        assert!(goes_with_node(&pin), "{pin}");
    }
    let data: BTreeMap<String, String> =
        serde_json::from_str(include_str!("windows-services.json")).unwrap();
    let map = ConfigMap {
        data,
        ..ConfigMap::default()
    };
    // Another command for csi-proxy. The entry stays the same one, and others stay.
    let planned = plan(Some(&map), &Entry::of(&["-v=9".to_owned()])).unwrap();
    let ServicesPlan::Update { data, .. } = planned else {
        panic!("{planned:?}")
    };
    let services: Vec<Value> = serde_json::from_str(&data["services"]).unwrap();
    let names: Vec<&Value> = services.iter().map(|service| &service["name"]).collect();
    assert_eq!(names, ["other", "csi-proxy"]);
}
