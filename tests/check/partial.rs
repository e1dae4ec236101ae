//! Input that is not all of a cluster: what is missing must not look like what is not there.

use std::fmt::Write as _;

use crate::run::{WINDOWS_NODE, check_file, objects};

/// The objects of a folder but those of some kinds.
fn without(folder: &str, kinds: &[&str]) -> String {
    let mut text = String::new();
    for object in objects(folder) {
        if !kinds.contains(&object["kind"].as_str().unwrap()) {
            let _ = writeln!(text, "---\n{object}");
        }
    }
    text
}

#[test]
fn without_nodes_nothing_is_known() {
    for folder in ["ready-1.31", "vsphere-1.26", "azure-1.27"] {
        let ended = check_file("all.yaml", without(folder, &["Node"]));
        ended.assert_status(3);
        assert_eq!(ended.reason(), "ReadinessUnknown");
        let report = ended.json();
        let message = report["verdict"]["message"].as_str().unwrap();
        assert!(message.contains("Node"), "{message}");
    }
}

#[test]
fn a_used_kind_that_is_not_there_at_all_is_noted() {
    for kind in [
        "CSINode",
        "Pod",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
    ] {
        let ended = check_file("all.yaml", without("vsphere-1.26", &[kind]));
        let note = format!("note: the input has no {kind}; ");
        assert!(ended.stderr.contains(&note), "{kind}: {}", ended.stderr);
    }
    let ended = check_file("all.yaml", without("vsphere-1.26", &[]));
    assert!(!ended.stderr.contains("note: "), "{}", ended.stderr);
}

#[test]
fn without_csinodes_no_driver_is_there() {
    let ended = check_file("all.yaml", without("ready-1.31", &["CSINode"]));
    assert_eq!(ended.reason(), "CSINodeMissing");
    ended.assert_status(3);
}

/// What a pod refers to is in the cluster, or was: that the input lacks all of a kind is said beside the verdict.
#[test]
fn kinds_of_which_nothing_was_given_are_named() {
    for kinds in [
        &["PersistentVolume"][..],
        &["PersistentVolumeClaim", "PersistentVolume"],
        &["CSINode", "StorageClass"],
    ] {
        let ended = check_file("all.yaml", without("ready-1.31", kinds));
        for kind in kinds {
            ended.assert_says(&format!("no {kind}"));
        }
        assert!(ended.stderr.contains("the verdict does not know of them"));
    }
    let ended = check_file("nodes.yaml", WINDOWS_NODE);
    ended.assert_says("no Pod, no Persistent");
}

/// A must-gather has all volumes, but not the namespaces of workloads.
#[test]
fn a_volume_that_is_bound_to_a_claim_which_was_not_given_is_no_reason_to_go_on() {
    let volume = |phase: &str| {
        format!(
            "{WINDOWS_NODE}
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: pv-1}}
spec:
  azureDisk: {{diskName: d, diskURI: u}}
  claimRef: {{namespace: shop, name: data}}
status: {{phase: {phase}}}
"
        )
    };
    let ended = check_file("all.yaml", volume("Bound"));
    ended.assert_status(3);
    assert_eq!(ended.reason(), "ReadinessUnknown");
    ended.assert_shows("namespace shop");
    // What was released is nobody's any more.
    let ended = check_file("all.yaml", volume("Released"));
    assert_eq!(ended.reason(), "NoInTreeVolumes");
}
