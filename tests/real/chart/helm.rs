//! Runs the real Helm and parses the objects that it prints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use testbed::commands::printed;
use testbed::parts::part;

pub const CHART: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/charts/windows-storage-operator"
);
pub const OPERATOR: &str = "windows-storage-operator";

/// The page that installs by Helm.
pub const GUIDE: &str = include_str!("../../../docs/install/options.md");

/// Objects by kind, namespace and name.
pub type Objects = BTreeMap<String, Value>;

/// Helm with its own home folder, for the user of a kubeconfig.
pub struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Creates a Helm without a cluster.
    pub fn offline() -> Self {
        Self {
            program: part("helm").unwrap(),
            home: tempfile::tempdir().unwrap(),
            kubeconfig: None,
        }
    }

    pub fn with(kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: Some(kubeconfig.to_owned()),
            ..Self::offline()
        }
    }

    /// Builds a command. Arguments are separated by spaces; `CHART` stands for the chart.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        let words = line.split(' ');
        command.args(words.map(|word| if word == "CHART" { CHART } else { word }));
        command.env_remove("KUBECONFIG");
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, self.home.path().join(name));
        }
        if let Some(kubeconfig) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        command
    }

    /// Runs a command that succeeds and returns its output.
    pub fn run(&self, line: &str) -> String {
        printed(&mut self.command(line)).unwrap()
    }

    /// Runs a command that fails and returns its error output.
    pub fn refusal(&self, line: &str) -> String {
        let Output { status, stderr, .. } = self.command(line).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(!status.success(), "helm {line} works: {stderr}");
        stderr
    }

    /// Returns the objects of `helm template` with these values, given as YAML.
    pub fn template(&self, namespace: &str, values: &str) -> Objects {
        objects(&self.run(&self.with_values("template", namespace, values)))
    }

    /// Returns the error of `helm template` for values that it refuses.
    pub fn refused(&self, values: &str) -> String {
        self.refusal(&self.with_values("template", OPERATOR, values))
    }

    fn with_values(&self, command: &str, namespace: &str, values: &str) -> String {
        let file = self.home.path().join("values.yaml");
        std::fs::write(&file, values).unwrap();
        let file = file.display();
        format!("{command} {OPERATOR} CHART --namespace {namespace} --values {file}")
    }
}

/// Parses the objects of a text with one or more documents.
pub fn objects(text: &str) -> Objects {
    let documents = serde_yaml::Deserializer::from_str(text);
    let objects = documents.map(|document| Value::deserialize(document).unwrap());
    let mut found = Objects::new();
    for mut object in objects.filter(|object| !object.is_null()) {
        write_numbers_alike(&mut object);
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let [kind, namespace, name] =
            [&object["kind"], &metadata["namespace"], &metadata["name"]].map(word);
        let before = found.insert(format!("{kind} {namespace}/{name}"), object);
        assert!(before.is_none(), "twice: {before:?}");
    }
    found
}

/// Writes whole numbers without a fraction, because kubectl writes 1.0 as 1.
fn write_numbers_alike(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0);
            let whole = whole.and_then(|number| format!("{number}").parse::<i64>().ok());
            if let Some(whole) = whole {
                *value = whole.into();
            }
        }
        Value::Object(members) => members.values_mut().for_each(write_numbers_alike),
        Value::Array(items) => items.iter_mut().for_each(write_numbers_alike),
        _ => {}
    }
}
