//! Objects that refer to each other in ways that no cluster should have, and malicious names.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::run::{Ended, WINDOWS_NODE, check_file, end, folder, program};

fn replica_set(name: &str, uid: &str, controller: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "shop", "uid": uid, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": controller, "controller": true},
        ]},
        "spec": {"template": {"spec": {"os": {"name": "windows"}, "volumes": [{"name": "d", "azureDisk": {}}]}}},
    })
}

fn judged(objects: &[Value]) -> Ended {
    let mut text = WINDOWS_NODE.to_owned();
    for object in objects {
        let _ = write!(text, "\n---\n{object}");
    }
    check_file("all.yaml", text)
}

#[test]
fn owners_that_own_each_other_are_judged() {
    // Each with its name, its uid and that of its owner; at last two with the same uid.
    for sets in [
        &[["a", "u-a", "u-a"]][..],
        &[["a", "u-a", "u-b"], ["b", "u-b", "u-a"]],
        &[
            ["a", "u-a", "u-b"],
            ["b", "u-b", "u-c"],
            ["c", "u-c", "u-a"],
        ],
        &[["a", "u-a", "u-a"], ["b", "u-a", "u-a"]],
    ] {
        let objects = sets
            .iter()
            .map(|[name, uid, owner]| replica_set(name, uid, owner));
        let ended = judged(&objects.collect::<Vec<_>>());
        ended.assert_status(3);
        let report = ended.json();
        assert_eq!(report["volumes"].as_array().unwrap().len(), sets.len());
    }
}

/// Returns owners of which each is controlled by the next.
fn chain(length: usize) -> Vec<Value> {
    let set = |number: usize| {
        let [name, uid, owner] = [("r", number), ("u", number), ("u", number + 1)]
            .map(|(kind, number)| format!("{kind}-{number}"));
        replica_set(&name, &uid, &owner)
    };
    (0..length).map(set).collect()
}

#[test]
fn a_chain_of_owners_hides_nobody_however_long_it_is() {
    // The second chain is long enough to take minutes if the owners of every pod were followed to the end.
    for length in [60, 5_000] {
        let ended = judged(&chain(length));
        ended.assert_status(3);
        let report = ended.json();
        let volumes = report["volumes"].as_array().unwrap();
        assert_eq!(volumes.len(), length, "{}", ended.stderr);
    }
}

#[test]
fn a_pod_stands_for_few_of_the_owners_above_it() {
    let mut objects = chain(60);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": replica_set("p", "p", "u-0")["metadata"].clone()});
    pod["spec"] = objects[0]["spec"]["template"]["spec"].clone();
    objects.push(pod);
    let report = judged(&objects).json();
    // For its own and four above; more would let memory grow with the length of the chain.
    assert_eq!(report["volumes"].as_array().unwrap().len(), 60 - 5 + 1);
}

/// The characters that must not reach a terminal, listed independently of the code.
const FORBIDDEN: &str = "\u{0}\u{7}\u{8}\t\r\u{1b}\u{7f}\u{9b}\u{200b}\u{202e}\u{2066}\u{feff}";

/// Names that no API server accepts, but that a file may contain.
const NAMES: [&str; 9] = [
    "\u{1b}[2J\u{1b}[31mred",
    "a\nUPGRADEABLE (NoInTreeVolumes)",
    "\u{202e}gnp.dab",
    "\u{9b}31m",
    "bell\u{7}\u{8}\u{8}",
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'&amp;\"\\",
    "zero\u{200b}width\u{feff}",
];

fn hostile_objects(name: &str) -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows"}},
            "spec": {"taints": [{"key": name, "value": name, "effect": "NoSchedule"}]},
            "status": {"nodeInfo": {"kubeletVersion": format!("v1.27.0+{name}")}}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
            "spec": {"drivers": [{"name": name}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": name},
            "spec": {"nodeName": name, "volumes": [
                {"name": name, "azureDisk": {}},
                {"name": "c", "persistentVolumeClaim": {"claimName": name}},
                {"name": "gone", "persistentVolumeClaim": {"claimName": format!("no {name}")}}]}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": name},
            "spec": {"volumeName": name, "storageClassName": name}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {"rbd": {},
            "persistentVolumeReclaimPolicy": "Delete"}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": name},
            "spec": {"template": {"spec": {"os": {"name": "windows"},
                "containers": [{"image": "x/azuredisk-csi:v1.2"}],
                "volumes": [{"name": "p", "hostPath": {"path": format!(r"\\.\pipe\csi-proxy-{name}")}}]}}}}),
    ]
}

#[test]
fn names_are_shown_and_obeyed_by_nobody() {
    for name in NAMES {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": hostile_objects(name)});
        let folder = folder(&[("all.json", &list.to_string())]);
        let run = |line: &str, more: &[&str]| {
            let words = line.split(' ').chain(["-f", "all.json"]);
            let ended = end(program(folder.path()).args(words).args(more));
            for stream in [&ended.stdout, &ended.stderr] {
                let found = stream.chars().find(|char| FORBIDDEN.contains(*char));
                assert_eq!(found, None, "{line} {name:?}: {stream:?}");
            }
            let mut lines = ended.stdout.lines();
            assert!(!lines.any(|it| it.starts_with("UPGRADEABLE")), "{line}");
            ended
        };
        run("why", &[name]);
        run("why", &["pod", name, "-n", name]);
        for output in ["table", "json", "yaml", "html"] {
            let ended = run(&format!("check -o {output}"), &[]);
            ended.assert_status(3);
            match output {
                "json" | "yaml" => {
                    let report: Value = serde_yaml::from_str(&ended.stdout).unwrap();
                    assert_eq!(report["nodes"][0]["name"], name, "{output}");
                    assert_eq!(report["volumes"][0]["workload"]["namespace"], name);
                }
                "html" => {
                    assert!(!ended.stdout.contains("<script>alert"), "{name:?}");
                    assert!(!ended.stdout.contains("<img src=x"), "{name:?}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn names_in_messages_of_errors_are_written_out() {
    for name in NAMES {
        // A wrong field, a wrong value of a field, a value that its tag forbids, a repeated key.
        let quoted = json!(name).to_string();
        for (kind, fields) in [
            ("Pod", format!("\"metadata\": {{\"name\": [{quoted}]}}")),
            (
                "Node",
                format!("\"metadata\": {{\"name\": \"x\", \"labels\": {{{quoted}: 1}}}}"),
            ),
            (
                "Pod",
                format!("\"metadata\": {{\"name\": \"x\"}}, \"spec\": {quoted}"),
            ),
        ] {
            let text = format!("{{\"apiVersion\": \"v1\", \"kind\": \"{kind}\", {fields}}}");
            check_file("a.json", text).assert_unknown(name);
        }
        let twice = format!("{{{quoted}: 1, {quoted}: 2}}");
        check_file("a.json", twice).assert_refused(name);
    }
}

#[test]
fn a_name_of_any_length_and_an_empty_one() {
    let long = "n".repeat(100_000);
    let ended = judged(&hostile_objects(&long)[..5]);
    ended.assert_status(3);
    let report = ended.json();
    let message = report["verdict"]["message"].as_str().unwrap();
    assert_eq!(message.chars().count(), 32_768);
    judged(&hostile_objects("")).assert_unknown("no name");
}
