//! Runs `check` as a process and reads its report.

use std::process::Command;

use serde_json::Value;

/// The result of `check -o json`.
#[derive(Debug)]
pub struct Report {
    pub status: Option<i32>,
    pub json: Value,
}

/// Runs `check -o json` with these arguments.
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

/// Runs `check` on these objects in a file.
pub fn check_objects(objects: &[Value]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.json");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).unwrap();
    check(&["-f", file.to_str().unwrap()])
}

impl Report {
    /// Returns the verdict, `True` or `False`, and its reason.
    pub fn verdict(&self) -> (&str, &str) {
        let text = |name: &str| self.json["verdict"][name].as_str().unwrap();
        (text("upgradeable"), text("reason"))
    }

    pub fn message(&self) -> &str {
        self.json["verdict"]["message"].as_str().unwrap()
    }

    /// Returns the row of a driver.
    pub fn driver(&self, name: &str) -> &Value {
        let mut drivers = self.json["drivers"].as_array().unwrap().iter();
        let found = drivers.find(|driver| driver["name"] == name);
        assert!(found.is_some(), "{name} is not in {}", self.json);
        found.unwrap()
    }

    /// Returns all findings of all sections as code and object.
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

    /// Returns the findings about a DaemonSet, except for its version of Kubernetes, which `versions.rs` tests.
    pub fn complaints(&self) -> Vec<(&str, &str)> {
        let mut findings = self.findings();
        findings.retain(|(code, object)| {
            object.starts_with("DaemonSet/") && *code != "DriverNotForVersion"
        });
        findings
    }
}
