//! The workflows pin everything they run, and have only the permissions they need. `actionlint` checks the rest.

use std::collections::BTreeMap;
use std::fs;

use serde_yaml::Value;

use crate::root;

/// Returns each workflow: its file name, its text and its content.
fn workflows() -> BTreeMap<String, (String, Value)> {
    let files = fs::read_dir(root().join(".github/workflows")).unwrap();
    let workflows: BTreeMap<_, _> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let value = serde_yaml::from_str(&text).unwrap();
            (name, (text, value))
        })
        .collect();
    let names: Vec<_> = workflows.keys().collect();
    assert_eq!(
        names,
        ["ci.yaml", "nightly.yaml", "release.yaml", "windows.yaml"]
    );
    workflows
}

fn jobs(workflow: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let jobs = workflow["jobs"].as_mapping().unwrap().iter();
    jobs.map(|(name, job)| (name.as_str().unwrap(), job))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[test]
fn every_action_is_pinned_by_its_hash_and_names_its_version() {
    let mut pins: BTreeMap<String, String> = BTreeMap::new();
    for (file, (text, workflow)) in workflows() {
        let lines = text.lines().map(|line| line.trim_start_matches([' ', '-']));
        let actions = lines.filter_map(|line| line.strip_prefix("uses: "));
        for action in actions.filter(|action| !action.starts_with("./")) {
            let (name, pin) = action.split_once('@').unwrap();
            let (hash, version) = pin.split_once(" # v").unwrap();
            assert!(is_hex(hash, 40), "{file}: {action}");
            let numbers: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
            let is_whole = numbers.len() == 3 && numbers.iter().all(Result::is_ok);
            assert!(is_whole, "{file}: {action}");
            let first = pins.entry(name.to_owned()).or_insert(pin.to_owned());
            assert_eq!(first, pin, "{name} is pinned to two versions");
        }
        for (job, value) in jobs(&workflow) {
            if let Some(image) = value["container"]["image"].as_str() {
                let digest = image
                    .split_once("@sha256:")
                    .map_or("", |(_, digest)| digest);
                assert!(is_hex(digest, 64), "{job}: {image}");
            }
        }
    }
    assert!(pins.len() >= 4, "{pins:?}");
}

#[test]
fn rights_are_to_read_one_job_alone_may_publish_and_what_outsiders_write_is_never_run() {
    let read_only: Value = serde_yaml::from_str("contents: read").unwrap();
    let (mut writers, mut scripts) = (Vec::new(), 0);
    for (file, (text, workflow)) in workflows() {
        assert_eq!(workflow["permissions"], read_only, "{file}");
        for (name, job) in jobs(&workflow) {
            if job.get("permissions").is_some() {
                writers.push(format!("{file}: {name}"));
            }
            for step in job["steps"].as_sequence().into_iter().flatten() {
                let uses = step["uses"].as_str().unwrap_or_default();
                if uses.starts_with("actions/checkout@") {
                    let persists = &step["with"]["persist-credentials"];
                    assert_eq!(*persists, Value::Bool(false), "{file}: {uses}");
                }
                // Nothing that a pull request has cached may get into a release.
                let is_cache = uses.starts_with("actions/cache");
                assert!(!is_cache || file == "ci.yaml", "{file}");
                // An expression becomes part of the script before a shell reads it; a variable does not.
                let script = step["run"].as_str().unwrap_or_default();
                assert!(!script.contains("${{"), "{file}: {script}");
                scripts += usize::from(!script.is_empty());
            }
        }
        for never in [
            "secrets.",
            "pull_request_target",
            "workflow_run",
            "issue_comment",
        ] {
            assert!(!text.contains(never), "{file}: {never}");
        }
    }
    // The first opens issues, the second reads which runs were green.
    let expected = [
        "nightly.yaml: report",
        "release.yaml: nightly",
        "release.yaml: publish",
    ];
    assert_eq!(writers, expected);
    assert!(scripts > 10, "{scripts}");
}
