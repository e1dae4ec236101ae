//! Runs the program as a process, on small clusters.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::schema::fault_of;

/// The input folders that have snapshots.
pub const FOLDERS: [&str; 4] = ["azure-1.27", "gce-1.23", "ready-1.31", "vsphere-1.26"];

/// A minimal Windows node, and its CSINode without drivers.
pub const WINDOWS_NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: win-1, labels: {kubernetes.io/os: windows}}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: win-1}
spec: {drivers: []}
---
";

/// A pod on that node with an in-tree volume, which holds upgrades.
pub const BLOCKING_POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  nodeName: win-1
  volumes: [{name: data, azureDisk: {diskName: d, diskURI: d}}]
status: {phase: Running}
---
";

/// Returns the folder that contains the input folders.
pub fn input() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check/input")
}

/// The result of a run.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Parses the report, which must be all of standard output.
    pub fn json(&self) -> Value {
        assert!(!self.stdout.is_empty(), "no report: {}", self.stderr);
        let report: Value = serde_json::from_str(&self.stdout).unwrap();
        if report["kind"] == "ReadinessReport" {
            assert_eq!(fault_of(&report), None, "{}", self.stdout);
        }
        report
    }

    /// Parses the report less what it is about, which differs from run to run.
    pub fn judgement(&self) -> Value {
        let mut report = self.json();
        assert!(report["about"]["time"].is_string(), "{report}");
        report.as_object_mut().unwrap().remove("about");
        report
    }

    /// Asserts the exit status.
    #[track_caller]
    pub fn assert_status(&self, status: i32) {
        assert_eq!(self.status, Some(status), "{self:?}");
    }

    /// Asserts that the run failed because no input was usable: status 1, a message, no report, no panic.
    #[track_caller]
    pub fn assert_refused(&self, what: &str) {
        assert_eq!(self.status, Some(1), "{what}: {self:?}");
        assert_eq!(self.stdout, "", "{what}");
        self.assert_told(what);
    }

    /// Asserts that unreadable input is named, and that the rest is reported with the verdict `Unknown`.
    #[track_caller]
    pub fn assert_unknown(&self, what: &str) {
        assert_eq!(self.status, Some(4), "{what}: {self:?}");
        let message = &self.json()["verdict"];
        assert_eq!(message["reason"], "ReadinessUnknown", "{what}: {message}");
        self.assert_told(what);
    }

    #[track_caller]
    fn assert_told(&self, what: &str) {
        let Self { stdout, stderr, .. } = self;
        assert!(stderr.starts_with("error: "), "{what}: {stderr}");
        assert!(!stderr.contains("panicked"), "{what}: {stderr}");
        let raw = |char: char| char.is_control() && char != '\n';
        assert!(!stderr.contains(raw), "{what}: {stderr:?}");
        assert!(!stdout.contains(raw), "{what}: {stdout:?}");
    }
}

/// Builds the command in this folder: no cluster, no terminal, no settings of the user who runs the tests.
pub fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    command.current_dir(folder).stdin(Stdio::null());
    for name in [
        "KUBECONFIG",
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "NO_COLOR",
        "CLICOLOR_FORCE",
        "RUST_LOG",
        "RUST_BACKTRACE",
    ] {
        command.env_remove(name);
    }
    command.env("HOME", folder);
    command
}

/// Runs `check` with these arguments in a folder.
pub fn check_in(folder: &Path, arguments: &[&str]) -> Ended {
    end(program(folder).arg("check").args(arguments))
}

/// Runs `check -o json` on one file with this name and content.
pub fn check_file(name: &str, content: impl AsRef<[u8]>) -> Ended {
    check_files(&[(name, content.as_ref())])
}

/// Runs `check -o json` on these files, named on the command line in this order.
pub fn check_files(files: &[(&str, &[u8])]) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command.args(["check", "-o", "json"]);
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
        command.args(["-f", name]);
    }
    end(&mut command)
}

/// Runs `check -o json -f -` with this standard input.
pub fn check_stdin(content: &[u8]) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let mut child = program(folder.path())
        .args(["check", "-o", "json", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may stop reading after an error.
    let _ = child.stdin.take().unwrap().write_all(content);
    ended(child.wait_with_output().unwrap())
}

/// Runs a command to completion.
pub fn end(command: &mut Command) -> Ended {
    ended(command.output().unwrap())
}

/// Converts the output of a process.
pub fn ended(output: std::process::Output) -> Ended {
    Ended {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Replaces the time at which a report says that it was made, which stands last after these words.
pub fn without_time(report: &str, words: &str) -> String {
    let (before, after) = report.rsplit_once(words).unwrap();
    let (time, after) = after.split_at("2026-01-01T00:00:00Z".len());
    assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
    format!("{before}{words}TIME{after}")
}

/// Creates a temporary folder with these files.
pub fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// Returns all objects of an input folder, with lists split into their items.
pub fn objects(folder: &str) -> Vec<Value> {
    let mut files: Vec<_> = walkdir::WalkDir::new(input().join(folder))
        .sort_by_file_name()
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect();
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        for document in serde_yaml::Deserializer::from_str(&text) {
            let mut document: serde_yaml::Value =
                serde::Deserialize::deserialize(document).unwrap();
            document.apply_merge().unwrap();
            take_apart(serde_json::to_value(document).unwrap(), &mut objects);
        }
    }
    objects
}

fn take_apart(document: Value, objects: &mut Vec<Value>) {
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    let Some(items) = document["items"].as_array() else {
        return objects.push(document);
    };
    for item in items {
        let mut item = item.clone();
        if kind != "List" {
            item["apiVersion"] = document["apiVersion"].clone();
            item["kind"] = kind.strip_suffix("List").unwrap().into();
        }
        objects.push(item);
    }
}
