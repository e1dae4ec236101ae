//! Objects with unknown fields, fields of the wrong type, and hostile values.

use serde_json::{Value, json};
use testbed::objects::WORKLOADS;

use super::{NODES, Scene};

/// Clears the screen, starts a new line, and contains a script.
const HOSTILE: &str = "\u{1b}[2J\r\nverdict: True\u{202e}<script>alert(1)</script>";

impl Scene {
    fn apply(&self, object: &Value) {
        self.control_plane().apply(&object.to_string()).unwrap();
    }
}

#[test]
fn hostile_values_reach_neither_the_gate_nor_a_log_as_they_are() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    let openings = scene.openings();
    let long = ["a", "b", "c", "d"]
        .map(|letter| letter.repeat(63))
        .join(".");
    let long = &long[..253];
    assert_eq!(long.len(), 253);
    // About the maximum that the API server accepts.
    let heavy = "x".repeat(250_000);
    let pod = |name: &str, volume: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": WORKLOADS, "annotations": {"heavy": heavy, "hostile": HOSTILE}},
            "spec": {
                "nodeName": NODES[0], "os": {"name": "windows"},
                "containers": [{"name": "main", "image": "example.com/nothing"}],
                "volumes": [volume],
            },
        })
    };
    let ceph = json!({"monitors": [HOSTILE], "image": HOSTILE, "pool": HOSTILE});
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "hostile"}});
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": long, "labels": {"kubernetes.io/os": "windows"}, "annotations": {"a": HOSTILE}},
        }),
        pod(long, json!({"name": "data", "rbd": ceph})),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "hostile", "namespace": WORKLOADS,
                "annotations": {"volume.kubernetes.io/storage-provisioner": HOSTILE, "volume.beta.kubernetes.io/storage-class": HOSTILE},
            },
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }),
        pod("hostile", claim),
    ];
    for object in &objects {
        scene.apply(object);
    }
    scene.expect_gate("False", "NoCSIMigration", &["kubernetes.io/rbd"]);
    scene.expect(
        &format!("windowsnodestorage/{long}"),
        "CSINodePresent",
        "False",
        "CSINodeMissing",
    );
    let harness = &*scene;
    let shown = [
        harness.kubectl("get windowsstorages,windowsnodestorages -o json"),
        harness.kubectl("get events -A -o json"),
        json!(harness.gate()).to_string(),
    ];
    for text in shown {
        let objects: Value = serde_json::from_str(&text).unwrap();
        assert_tame(&objects);
    }
    assert_calm_text(&harness.log());
    for object in objects.iter().rev() {
        // Nothing else finishes the deletion of pods and claims.
        let line = "delete --ignore-not-found --force --grace-period=0 --wait=false -f -";
        let arguments: Vec<&str> = line.split(' ').collect();
        let control_plane = scene.control_plane();
        control_plane
            .kubectl_with_input(&arguments, &object.to_string())
            .unwrap();
    }
    assert_eq!(scene.openings(), openings);
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}

/// Asserts that a text contains nothing that controls a terminal, and no injected line.
fn assert_calm_text(told: &str) {
    let unruly = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!told.contains(unruly), "{told:?}");
    assert!(
        !told.lines().any(|line| line.starts_with("verdict: True")),
        "{told}"
    );
}

/// Asserts that no string in a value contains characters that control a terminal.
fn assert_tame(value: &Value) {
    match value {
        Value::String(text) => {
            let is_tame = |c: char| !c.is_control() && c != '\u{202e}';
            assert!(text.chars().all(is_tame), "{text:?}");
        }
        Value::Array(values) => values.iter().for_each(assert_tame),
        Value::Object(fields) => fields.values().for_each(assert_tame),
        _ => {}
    }
}
