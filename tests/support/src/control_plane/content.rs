//! Saves and restores the content of a control plane.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use openssl::base64;
use serde_json::{Value, json};

use super::ControlPlane;

const DEADLINE: Duration = Duration::from_secs(20);
/// etcd's default limit is 128.
const OPERATIONS_AT_ONCE: usize = 100;
/// With more changes, a new control plane is faster.
const MOST_CHANGES: usize = 2_000;

/// Objects that the API server caches in other forms and updates with a delay: kinds, RBAC, accounts, policies.
const FOLLOWED: [&str; 6] = [
    "/registry/apiextensions.k8s.io/",
    "/registry/apiregistration.k8s.io/",
    "/registry/cluster",
    "/registry/role",
    "/registry/serviceaccounts/",
    "/registry/validatingadmissionpolic",
];
/// Objects that the API server writes for its own use.
const ITS_OWN: [&str; 7] = [
    "/registry/flowschemas/",
    "/registry/leases/kube-system/",
    "/registry/masterleases/",
    "/registry/peerserverleases/",
    "/registry/prioritylevelconfigurations/",
    "/registry/ranges/",
    "/registry/configmaps/kube-system/",
];

/// A snapshot of everything that is stored.
#[derive(Debug)]
pub struct Content(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    /// Identifies unchanged content without reading it.
    revision: String,
    /// As etcd returns it, in base64.
    value: String,
}

impl ControlPlane {
    /// Returns what is stored now.
    pub fn content(&self) -> Result<Content> {
        self.read_content(false).map(Content)
    }

    /// Restores an earlier content directly in etcd; the API server notices it from there. Returns an error if that is
    /// not enough for the earlier state: if kinds, RBAC or namespaces have changed, or too many objects.
    pub fn restore(&self, before: &Content) -> Result<()> {
        let now = self.read_content(true)?;
        let changed = before.0.iter().filter(|(key, stored)| {
            now.get(*key).map(|now| &now.revision) != Some(&stored.revision)
        });
        let added = now.keys().filter(|key| !before.0.contains_key(*key));
        let mut operations = Vec::new();
        for (key, stored) in changed {
            let is_namespace = key.starts_with("/registry/namespaces/");
            ensure!(!is_namespace && !is_followed(key), "{key} has changed");
            operations.push(put(key, stored));
        }
        for key in added {
            ensure!(!is_followed(key), "{key} was added");
            operations.push(json!({"request_delete_range": {"key": encode(key)}}));
        }
        ensure!(
            operations.len() <= MOST_CHANGES,
            "{} objects have changed",
            operations.len()
        );
        self.carry_out(&operations)
    }

    /// Stores the content in an empty etcd, before the API server starts.
    pub(super) fn store(&self, content: &Content) -> Result<()> {
        let each = content.0.iter();
        let puts = each.map(|(key, stored)| put(key, stored));
        self.carry_out(&puts.collect::<Vec<_>>())
    }

    fn carry_out(&self, operations: &[Value]) -> Result<()> {
        for operations in operations.chunks(OPERATIONS_AT_ONCE) {
            self.ask_etcd("/v3/kv/txn", &json!({ "success": operations }))?;
        }
        Ok(())
    }

    /// Reads the content, with or without values.
    fn read_content(&self, keys_only: bool) -> Result<BTreeMap<String, Entry>> {
        let answer = self.ask_etcd(
            "/v3/kv/range",
            &json!({
                "key": encode("/registry/"),
                "range_end": encode("/registry0"),
                "keys_only": keys_only,
            }),
        )?;
        let mut content = BTreeMap::new();
        for entry in answer["kvs"].as_array().into_iter().flatten() {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            let key = String::from_utf8(base64::decode_block(text("key"))?)?;
            if ITS_OWN.iter().any(|own| key.starts_with(own)) {
                continue;
            }
            let stored = Entry {
                revision: text("mod_revision").to_owned(),
                value: text("value").to_owned(),
            };
            content.insert(key, stored);
        }
        ensure!(!content.is_empty(), "etcd holds nothing");
        Ok(content)
    }

    /// Sends a request to etcd's JSON API over HTTP.
    pub(super) fn ask_etcd(&self, path: &str, question: &Value) -> Result<Value> {
        let address = self.etcd.trim_start_matches("http://").parse()?;
        let mut tcp = TcpStream::connect_timeout(&address, DEADLINE)?;
        tcp.set_read_timeout(Some(DEADLINE))?;
        tcp.set_write_timeout(Some(DEADLINE))?;
        let question = question.to_string();
        write!(
            tcp,
            "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{question}",
            question.len()
        )?;
        let mut answer = String::new();
        tcp.read_to_string(&mut answer)?;
        let Some((head, body)) = answer.split_once("\r\n\r\n") else {
            bail!("etcd does not speak HTTP: {answer:?}");
        };
        ensure!(head.contains(" 200 "), "etcd refuses {path}: {answer}");
        serde_json::from_str(body).with_context(|| format!("what etcd answers to {path}"))
    }
}

fn is_followed(key: &str) -> bool {
    FOLLOWED.iter().any(|prefix| key.starts_with(prefix))
}

fn put(key: &str, stored: &Entry) -> Value {
    json!({"request_put": {"key": encode(key), "value": stored.value}})
}

fn encode(key: &str) -> String {
    base64::encode_block(key.as_bytes())
}
