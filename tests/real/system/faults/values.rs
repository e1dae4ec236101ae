//! Objects with unknown fields, fields of the wrong type, and hostile values.

use serde_json::{Value, json};
use testbed::objects::{NAMESPACE, WORKLOADS};

use super::{NODES, Scene};

/// Clears the screen, starts a new line, and contains a script.
const HOSTILE: &str = "\u{1b}[2J\r\nverdict: True\u{202e}<script>alert(1)</script>";

impl Scene {
    fn apply(&self, object: &Value) {
        self.control_plane().apply(&object.to_string()).unwrap();
    }

    /// Allows any content in `WindowsStorage`, as another version of its CRD might.
    fn define_loosely(&self) {
        let loose = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        let patch = json!([{"op": "replace", "path": schema, "value": loose}]).to_string();
        let name = "windowsstorages.windowsstorage.dev";
        self.harness()
            .kubectl_with(&["patch", "crd", name, "--type=json", "-p", &patch]);
    }

    fn patch_settings(&self, patch: &Value) {
        let patch = patch.to_string();
        let object = "windowsstorage/cluster";
        self.harness()
            .kubectl_with(&["patch", object, "--type=merge", "-p", &patch]);
    }
}

#[test]
fn settings_of_a_wrong_type_open_nothing_and_unknown_ones_are_no_fault() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    let nodes = NODES.map(|node| scene.node(node));
    let openings = scene.openings();
    scene.define_loosely();
    let unknown = json!({"spec": {"tomorrow": {"a": [1, null]}, "ssh": {"jumpHost": HOSTILE}}});
    // A CRD takes effect a moment after it was written.
    scene.harness().eventually("what is unknown is kept", || {
        scene.patch_settings(&unknown);
        scene.harness().get("windowsstorage/cluster")["spec"]["tomorrow"].is_object()
    });
    scene.register(NODES[0], false);
    scene.expect_missing("win-000, win-001");
    scene.register(NODES[0], true);
    scene.expect_missing(NODES[1]);

    scene.patch_settings(&json!({"spec": {"upgradeGate": HOSTILE}}));
    scene
        .harness()
        .eventually("it says so where it is asked", || {
            scene.ready().contains("WindowsStorage")
        });
    scene.register(NODES[1], true);
    scene
        .harness()
        .expect_gate("False", "ReadinessUnknown", &["WindowsStorage"]);
    // All of these quote the value that is in place of a mode.
    assert_calm_text(&scene.ready());
    assert_calm_text(&scene.harness().log());
    assert_tame(&json!(scene.harness().gate()));
    scene.patch_settings(&json!({"spec": {"upgradeGate": 7, "probeIntervalSeconds": HOSTILE}}));
    assert_eq!(scene.openings(), openings);
    assert_eq!(NODES.map(|node| scene.node(node)), nodes);
    scene.register(NODES[1], false);
    let gone = json!({"upgradeGate": null, "probeIntervalSeconds": 10, "tomorrow": null, "ssh": {"jumpHost": null}});
    scene.patch_settings(&json!({"spec": gone}));
    scene.define("windowsstorages");
    scene.simulation.want(&json!({}));
    scene.expect_missing(NODES[1]);
    // Removes the defaults that were written for the removed fields.
    scene
        .harness()
        .eventually("the settings are as they were", || {
            scene.patch_settings(&json!({"spec": {"upgradeGate": "Enforce"}}));
            scene.end()["settings"] == calm.held["settings"]
        });
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}

#[test]
fn hostile_values_reach_neither_the_gate_nor_a_log_as_they_are() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    let openings = scene.openings();
    let long = [
        "a".repeat(63),
        "b".repeat(63),
        "c".repeat(63),
        "d".repeat(61),
    ]
    .join(".");
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
        pod(&long, json!({"name": "data", "rbd": ceph})),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "hostile", "namespace": WORKLOADS,
                "annotations": {"volume.kubernetes.io/storage-provisioner": HOSTILE, "volume.beta.kubernetes.io/storage-class": HOSTILE},
            },
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }),
        pod("hostile", claim),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "windows-instances", "namespace": NAMESPACE},
            "data": {"10.0.0.1": format!("username={HOSTILE}")},
        }),
    ];
    for object in &objects {
        scene.apply(object);
    }
    scene
        .harness()
        .expect_gate("False", "NoCSIMigration", &["kubernetes.io/rbd"]);
    scene.harness().expect(
        &format!("windowsnodestorage/{long}"),
        "CSINodePresent",
        "False",
        "CSINodeMissing",
    );
    scene.harness().expect(
        "windowsstorage/cluster",
        "InstancesValid",
        "False",
        "InvalidInstance",
    );
    let harness = scene.harness();
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
        let arguments = [
            "delete",
            "--ignore-not-found",
            "--force",
            "--grace-period=0",
            "--wait=false",
            "-f",
            "-",
        ];
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
