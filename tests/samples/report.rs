//! `check` as a program, and what it reports.

use std::process::Command;

use serde_json::Value;

/// What a run of `check -o json` said.
#[derive(Debug)]
pub struct Report {
    pub status: Option<i32>,
    pub json: Value,
}

/// Runs `check -o json` with those arguments.
pub fn check(arguments: &[&str]) -> Report {
    let output = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(["check", "-o", "json"])
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_slice(&output.stdout);
    assert!(json.is_ok(), "{errors}");
    Report {
        status: output.status.code(),
        json: json.unwrap(),
    }
}

/// Runs it on these objects in a file.
pub fn check_objects(objects: &[Value]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.json");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).unwrap();
    check(&["-f", file.to_str().unwrap()])
}

impl Report {
    /// `True` or `False`, and why.
    pub fn verdict(&self) -> (&str, &str) {
        let text = |name: &str| self.json["verdict"][name].as_str().unwrap();
        (text("upgradeable"), text("reason"))
    }

    pub fn message(&self) -> &str {
        self.json["verdict"]["message"].as_str().unwrap()
    }

    /// The row of a driver.
    pub fn driver(&self, name: &str) -> &Value {
        let mut drivers = self.json["drivers"].as_array().unwrap().iter();
        let found = drivers.find(|driver| driver["name"] == name);
        assert!(found.is_some(), "{name} is not in {}", self.json);
        found.unwrap()
    }

    /// All findings as code and object, wherever they stand.
    pub fn findings(&self) -> Vec<(&str, &str)> {
        let mut found: Vec<&Value> = self.json["findings"].as_array().unwrap().iter().collect();
        for rows in ["drivers", "nodes"] {
            for row in self.json[rows].as_array().unwrap() {
                found.extend(row["findings"].as_array().unwrap());
            }
        }
        let mut pairs: Vec<_> = found
            .into_iter()
            .map(|finding| {
                let text = |name: &str| finding[name].as_str().unwrap();
                (text("code"), text("object"))
            })
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// The findings that are about a DaemonSet, at whatever version of Kubernetes: `versions.rs` is about that.
    pub fn complaints(&self) -> Vec<(&str, &str)> {
        let mut findings = self.findings();
        findings.retain(|(code, object)| {
            object.starts_with("DaemonSet/") && *code != "DriverNotForVersion"
        });
        findings
    }
}
