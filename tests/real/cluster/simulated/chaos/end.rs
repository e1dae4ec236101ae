//! The result of a run, without what differs between any two runs.

use std::collections::BTreeMap;

use serde_json::Value;
use simulated_host::File;
use testbed::objects::NAMESPACE;

use super::payloads::Payloads;
use crate::cluster::simulated::Simulation;

/// The decisions, statuses and files, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State(BTreeMap<String, String>);

impl State {
    pub fn of(simulation: &Simulation, version: u32) -> Self {
        let kinds = "windowsnodestorages,windowsstorages,configmaps,operatorconditions";
        let arguments = ["get", kinds, "-n", NAMESPACE, "-o", "json"];
        let list: Value =
            serde_json::from_str(&simulation.harness.kubectl_with(&arguments)).unwrap();
        let (sha256, version) = (Payloads::sha256(version), Payloads::version(version));
        let plain = |text: &str| text.replace(&sha256, "SHA256").replace(&version, "VERSION");
        let mut state = BTreeMap::new();
        for object in list["items"].as_array().unwrap() {
            let mut content = match object["kind"].as_str().unwrap() {
                "ConfigMap" => object["data"].clone(),
                "OperatorCondition" => object["spec"]["conditions"].clone(),
                _ => object["status"].clone(),
            };
            without_times(&mut content);
            let name = format!("{}/{}", object["kind"], object["metadata"]["name"]);
            state.insert(name, plain(&format!("{content:#}")));
        }
        for host in &simulation.hosts {
            let files = host.with_disk(|disk| {
                let hash = |path: &String| disk.file(path).map(File::sha256);
                let files = disk.files();
                let lines = files.iter().map(|path| format!("{path} {:?}", hash(path)));
                lines.collect::<Vec<_>>().join("\n")
            });
            state.insert(format!("disk of {}", host.name()), plain(&files));
            let command = host.command().unwrap_or_default();
            state.insert(format!("csi-proxy of {}", host.name()), plain(&command));
        }
        Self(state)
    }

    /// Returns whether no status is waiting for another check, or for OLM, which does not exist here.
    pub fn is_at_rest(&self) -> bool {
        if self
            .0
            .values()
            .any(|content| content.contains("\"Pending\""))
        {
            return false;
        }
        let nodes = self
            .0
            .iter()
            .filter(|(name, _)| name.contains("WindowsNode"));
        nodes.clone().count() > 0
            && nodes
                .clone()
                .all(|(_, status)| status.contains("\"PipesOpen\""))
    }

    /// Asserts that both are the same, and shows the first difference.
    pub fn assert_same(&self, other: &Self) {
        let names: Vec<&String> = self.0.keys().collect();
        assert_eq!(names, other.0.keys().collect::<Vec<_>>());
        for (name, content) in &self.0 {
            assert_eq!(content, &other.0[name], "{name}");
        }
    }
}

/// Replaces times, and removes counts.
fn without_times(value: &mut Value) {
    match value {
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => {
            "TIME".clone_into(text);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        Value::Object(fields) => {
            fields.remove("observedGeneration");
            // A hash of the version and more.
            fields.remove("completedRevision");
            fields.values_mut().for_each(without_times);
        }
        _ => {}
    }
}
