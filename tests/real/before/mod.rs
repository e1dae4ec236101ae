//! What the version before has said and written is read without loss: what its agent answers and keeps on a node, and what
//! is stored in the cluster. `tools/before` names that version; with the next one the fixtures here follow.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use protocol::{Answer, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windows_storage_agent::journal::{Journal, Recovery, recover};
use windows_storage_agent::state::{Call, Memory, Reply};
use windows_storage_operator::api::{WindowsNodeStorage, WindowsStorage};
use windows_storage_operator::index::ConfigMap;
use windows_storage_operator::node::{HostKey, goes_with_node};
use windows_storage_operator::services::{ServicesPlan, csi_proxy_service, plan};

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
fn what_the_agent_before_answers_is_understood() {
    let answers: Vec<Answer> = read(include_str!("answers.jsonl"));
    assert_eq!(answers.len(), 24);
}

#[test]
fn what_the_agent_before_keeps_on_a_node_is_understood_also_in_the_middle_of_a_change() {
    read::<Request>(include_str!("request.json"));
    read::<Memory>(include_str!("memory.json"));
    let journals: Vec<Journal> = read(include_str!("journals.jsonl"));
    let found: Vec<Recovery> = journals.iter().map(recover).collect();
    assert_eq!(found, [Recovery::Undo, Recovery::Close, Recovery::Commit]);
    // Its service runs while the new command has it end.
    read::<Call>(include_str!("calls.jsonl"));
    read::<Reply>(include_str!("replies.jsonl"));
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
    let entry = csi_proxy_service(&[]);
    let services = match plan(Some(&map), &entry).unwrap() {
        ServicesPlan::Keep(document) => document.services,
        // Another command for csi-proxy. The entry stays the same one, and others stay.
        ServicesPlan::Update { data, .. } => serde_json::from_str(&data["services"]).unwrap(),
        ServicesPlan::Create(_) => Vec::new(),
    };
    let names: Vec<&str> = services.iter().map(|service| &*service.name).collect();
    assert_eq!(names, ["other", "csi-proxy"]);
}
