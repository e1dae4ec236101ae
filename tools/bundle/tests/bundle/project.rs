//! The project's own files, and a copy of them to change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bundler::{Release, Releases};
use semver::Version;
use serde_yaml::Value;
use tempfile::TempDir;

/// Returns the project's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Returns the newest release.
pub fn newest() -> Release {
    Releases::read(&root()).unwrap().newest().clone()
}

/// Returns a release after all others.
pub fn later(version: &str) -> Release {
    Release {
        version: Version::parse(version).unwrap(),
        ..newest()
    }
}

/// Copies all sources of a bundle.
pub fn copy() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let mut cp = std::process::Command::new("cp");
    cp.args(["-r", "manifests", "crds"]).arg(copy.path());
    testbed::commands::printed(cp.current_dir(root())).unwrap();
    copy
}

/// Replaces text in a file below `root`, which must contain it.
pub fn replace(root: &Path, file: &str, from: &str, to: &str) {
    let path = root.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from:?}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// Parses a table of strings.
pub fn table(yaml: &str) -> Vec<[String; 4]> {
    serde_yaml::from_str(yaml).unwrap()
}

/// Parses a file of the project as documents.
pub fn documents(file: &str) -> Vec<Value> {
    parse(&fs::read_to_string(root().join(file)).unwrap())
}

/// Parses the documents of a text.
pub fn parse(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text)
        .map(|document| serde::Deserialize::deserialize(document).unwrap())
        .collect()
}

/// Renders a release, and returns the files and the `ClusterServiceVersion`.
pub fn rendered(release: &Release) -> (BTreeMap<PathBuf, String>, Value) {
    let files = bundler::render(&root(), release).unwrap();
    let csv = &files[Path::new(CSV)];
    let csv = serde_yaml::from_str(csv).unwrap();
    (files, csv)
}

/// The path of the `ClusterServiceVersion`.
pub const CSV: &str = "bundle/manifests/windows-storage-operator.clusterserviceversion.yaml";

/// Returns the list at a path of keys.
pub fn list<'a>(value: &'a Value, keys: &str) -> &'a [Value] {
    at(value, keys).as_sequence().unwrap()
}

/// Returns the string at a path of keys.
pub fn text<'a>(value: &'a Value, keys: &str) -> &'a str {
    at(value, keys).as_str().unwrap()
}

/// Returns the value at a path of keys, or null.
pub fn at<'a>(value: &'a Value, keys: &str) -> &'a Value {
    keys.split('/')
        .try_fold(value, |value, key| match key.parse::<usize>() {
            Ok(index) => value.get(index),
            Err(_) => value.get(key),
        })
        .unwrap_or(&Value::Null)
}
