//! The permission to read the inputs of the verdict is removed, temporarily or for good.

use std::fmt::Write;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{Calm, NODES, Scene};
use crate::cluster::harness::is_full;

const MANIFEST: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/rbac.yaml"));

/// The inputs of the verdict: resource and kind.
const KINDS: [(&str, &str); 15] = [
    ("cronjobs", "CronJob"),
    ("csinodes", "CSINode"),
    ("daemonsets", "DaemonSet"),
    ("deployments", "Deployment"),
    ("jobs", "Job"),
    ("namespaces", "Namespace"),
    ("nodes", "Node"),
    ("persistentvolumeclaims", "PersistentVolumeClaim"),
    ("persistentvolumes", "PersistentVolume"),
    ("pods", "Pod"),
    ("replicasets", "ReplicaSet"),
    ("replicationcontrollers", "ReplicationController"),
    ("runtimeclasses", "RuntimeClass"),
    ("statefulsets", "StatefulSet"),
    ("storageclasses", "StorageClass"),
];

/// Returns the operator's RBAC without the permission to read these resources.
fn without(resources: &[&str]) -> String {
    let mut manifest = String::new();
    for document in serde_yaml::Deserializer::from_str(MANIFEST) {
        let mut object = Value::deserialize(document).unwrap();
        if object["kind"] == "ClusterRole" {
            let rules = object["rules"].as_array_mut().unwrap();
            for rule in rules.iter_mut().filter(|rule| rule["verbs"][0] == "list") {
                let named = rule["resources"].as_array_mut().unwrap();
                named.retain(|name| !resources.contains(&name.as_str().unwrap()));
            }
            rules.retain(|rule| rule["resources"] != serde_json::json!([]));
        }
        writeln!(manifest, "---\n{object}").unwrap();
    }
    manifest
}

/// Waits until the gate names exactly these kinds as forbidden.
fn expect_unread(scene: &Scene, kinds: &[&str]) {
    scene.eventually(&format!("the gate misses {kinds:?}"), || {
        let (status, reason, message) = scene.gate();
        // All of them at once, with what to do.
        let named = message.split_once(" (reading is forbidden to system:serviceaccount:");
        let Some((named, _)) = named.filter(|(_, rest)| rest.contains("manifests again")) else {
            return false;
        };
        let named: Vec<&str> = named.split([' ', ',']).collect();
        let all = KINDS.iter().map(|(_, kind)| *kind);
        let named: Vec<&str> = all.filter(|kind| named.contains(kind)).collect();
        status == "False" && reason == "ReadinessUnknown" && named == kinds
    });
}

#[test]
fn every_kind_that_the_verdict_rests_on_is_missed_for_itself() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    let openings = scene.openings();
    let control_plane = scene.control_plane();
    // The drivers of nodes stay readable, to show that only the missing permissions hold the gate.
    let others = KINDS.iter().filter(|(resource, _)| *resource != "csinodes");
    let (resources, kinds): (Vec<&str>, Vec<&str>) = others.copied().unzip();
    let is_long = is_full();
    let last = if is_long { kinds.len() } else { 1 };
    for (resource, kind) in resources.iter().zip(&kinds).rev().take(last) {
        // An established watch continues regardless of permissions, so the restart ends it.
        control_plane.apply(&without(&resources)).unwrap();
        control_plane.restart_api_server().unwrap();
        scene.register(NODES[1], true);
        expect_unread(&scene, &kinds);
        control_plane.apply(&without(&[resource])).unwrap();
        expect_unread(&scene, &[kind]);
        assert_eq!(scene.openings(), openings, "{kind}");
        scene.register(NODES[1], false);
        scene.expect_missing(NODES[1]);
    }
    control_plane.apply(MANIFEST).unwrap();
    scene.expect_as_calm(&calm);
    if is_long {
        a_gate_that_is_open_is_closed_in_the_end(&scene, &calm);
    }
    assert_eq!(operator.ended().unwrap(), None);
}

/// An open gate closes after two minutes without permissions: a restart of the API server must not close it.
fn a_gate_that_is_open_is_closed_in_the_end(scene: &Scene, calm: &Calm) {
    let control_plane = scene.control_plane();
    control_plane.apply(&without(&["csinodes"])).unwrap();
    control_plane.restart_api_server().unwrap();
    scene.eventually("it says so where it is asked", || {
        scene.ready().contains("CSINode (reading is forbidden")
    });
    assert_eq!(scene.gate().0, "True");
    // Longer than the timeout of the harness.
    std::thread::sleep(Duration::from_secs(60));
    expect_unread(scene, &["CSINode"]);
    scene.register(NODES[1], false);
    control_plane.apply(MANIFEST).unwrap();
    scene.expect_as_calm(calm);
}
