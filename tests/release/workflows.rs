//! The workflows pin everything they run, have only the permissions they need, and call only targets that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_yaml::Value;

use crate::makefile::targets;
use crate::root;

/// A workflow: its file name, its text, and its parsed content.
struct Workflow {
    name: String,
    text: String,
    value: Value,
}

fn workflows() -> Vec<Workflow> {
    let files = fs::read_dir(root().join(".github/workflows")).unwrap();
    let mut workflows: Vec<Workflow> = files
        .map(|file| {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            Workflow {
                name: path.file_name().unwrap().to_str().unwrap().to_owned(),
                value: serde_yaml::from_str(&text).unwrap(),
                text,
            }
        })
        .collect();
    workflows.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<&str> = workflows.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        ["ci.yaml", "nightly.yaml", "release.yaml", "windows.yaml"]
    );
    workflows
}

impl Workflow {
    fn jobs(&self) -> impl Iterator<Item = (&str, &Value)> {
        let jobs = self.value["jobs"].as_mapping().unwrap().iter();
        jobs.map(|(name, job)| (name.as_str().unwrap(), job))
    }

    fn steps(&self) -> impl Iterator<Item = &Value> {
        self.jobs()
            .flat_map(|(_, job)| job["steps"].as_sequence().into_iter().flatten())
    }

    /// Returns the scripts of its steps.
    fn scripts(&self) -> impl Iterator<Item = &str> {
        self.steps().filter_map(|step| step["run"].as_str())
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[test]
fn every_action_is_pinned_by_its_hash_and_names_its_version() {
    let mut pins: BTreeMap<String, String> = BTreeMap::new();
    for workflow in workflows() {
        let uses = workflow.text.lines().filter_map(|line| {
            let line = line.trim_start().trim_start_matches("- ");
            line.strip_prefix("uses: ")
        });
        for action in uses.filter(|action| !action.starts_with("./")) {
            let place = format!("{}: {action}", workflow.name);
            let (name, pin) = action.split_once('@').unwrap_or_else(|| panic!("{place}"));
            let (hash, version) = pin.split_once(" # v").unwrap_or_else(|| panic!("{place}"));
            assert!(is_hex(hash, 40), "{place}");
            let numbers: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
            assert!(
                numbers.len() == 3 && numbers.iter().all(Result::is_ok),
                "{place}"
            );
            let first = pins
                .entry(name.to_owned())
                .or_insert_with(|| pin.to_owned());
            assert_eq!(first, pin, "{name} is pinned to two versions");
        }
        for (job, value) in workflow.jobs() {
            let image = value["container"]["image"].as_str();
            if let Some(image) = image {
                let digest = image.split_once("@sha256:").map(|(_, digest)| digest);
                assert!(
                    digest.is_some_and(|digest| is_hex(digest, 64)),
                    "{job}: {image}"
                );
            }
        }
    }
    assert!(pins.len() >= 4, "{pins:?}");
}

#[test]
fn rights_are_to_read_and_one_job_alone_may_publish() {
    let mut writers = BTreeSet::new();
    for workflow in workflows() {
        let read_only: Value = serde_yaml::from_str("contents: read").unwrap();
        assert_eq!(
            workflow.value["permissions"], read_only,
            "{}",
            workflow.name
        );
        for (name, job) in workflow.jobs() {
            if job.get("permissions").is_some() {
                writers.insert(format!("{}: {name}", workflow.name));
            }
        }
        for step in workflow.steps() {
            let uses = step["uses"].as_str().unwrap_or_default();
            if uses.starts_with("actions/checkout@") {
                let persists = &step["with"]["persist-credentials"];
                assert_eq!(persists, &Value::Bool(false), "{}: {uses}", workflow.name);
            }
            // Nothing that a pull request has cached may get into a release.
            let is_cache = uses.starts_with("actions/cache");
            assert!(!is_cache || workflow.name == "ci.yaml", "{}", workflow.name);
        }
        assert!(!workflow.text.contains("secrets."), "{}", workflow.name);
    }
    assert_eq!(
        writers,
        // report opens issues; release's nightly reads which runs were green.
        BTreeSet::from(
            [
                "nightly.yaml: report",
                "release.yaml: nightly",
                "release.yaml: publish"
            ]
            .map(str::to_owned)
        )
    );
}

#[test]
fn what_outsiders_write_is_never_run() {
    let mut scripts = 0;
    for workflow in workflows() {
        for trigger in ["pull_request_target", "workflow_run", "issue_comment"] {
            assert!(
                !workflow.text.contains(trigger),
                "{}: {trigger}",
                workflow.name
            );
        }
        for script in workflow.scripts() {
            // An expression becomes part of the script before a shell reads it; a variable does not.
            assert!(!script.contains("${{"), "{}: {script}", workflow.name);
            scripts += 1;
        }
    }
    assert!(scripts > 10, "{scripts}");
}

#[test]
fn the_targets_and_scripts_that_workflows_call_are_there() {
    let targets = targets();
    let mut called = BTreeSet::new();
    for workflow in workflows() {
        for line in workflow.scripts().flat_map(str::lines) {
            let mut words = line.split_whitespace();
            if words.by_ref().any(|word| word == "make") {
                let target = words.next().unwrap();
                assert!(targets.contains_key(target), "{}: {line}", workflow.name);
                called.insert(format!("make {target}"));
            }
            let words = line.split(|c: char| c.is_whitespace() || "()\"'".contains(c));
            for script in
                words.filter(|word| word.starts_with("tools/") || word.starts_with(".ci/"))
            {
                let mode = fs::metadata(root().join(script)).map(|file| file.permissions().mode());
                assert!(
                    mode.is_ok_and(|mode| mode & 0o111 != 0),
                    "{}: {line}",
                    workflow.name
                );
                called.insert(script.to_owned());
            }
        }
    }
    for expected in [
        ".ci/run",
        "make release",
        "make setup-build",
        "tools/publish",
    ] {
        assert!(called.contains(expected), "{called:?}");
    }
}
