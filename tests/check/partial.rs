//! Input that is not all of a cluster: what is missing must not look like what is not there.

use std::fmt::Write as _;

use crate::run::{BLOCKING_POD, WINDOWS_NODE, check_file, objects};

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
        assert_eq!(ended.status, Some(3), "{}", ended.stderr);
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
    assert_eq!(ended.status, Some(3));
}

/// What a pod refers to is in the cluster, or was: an input that lacks it is a part.
#[test]
#[ignore = "claims whose volumes are not in the input count for nothing, and the verdict is True out of a part"]
fn what_is_referred_to_and_not_given_is_no_reason_to_go_on() {
    for kinds in [
        &["CSINode", "PersistentVolume"][..],
        &["CSINode", "PersistentVolumeClaim"],
        &["CSINode", "PersistentVolume", "StorageClass"],
    ] {
        let ended = check_file("all.yaml", without("ready-1.31", kinds));
        assert_ne!(ended.status, Some(0), "{kinds:?}: {}", ended.stdout);
    }
}

#[test]
#[ignore = "a pod that asks for Windows on a node that is not in the input counts for nothing"]
fn a_node_that_is_bound_to_and_not_given_is_no_reason_to_go_on() {
    let linux = "
apiVersion: v1
kind: Node
metadata: {name: linux, labels: {kubernetes.io/os: linux}}
---
";
    let pod = BLOCKING_POD.replace("spec:", "spec:\n  os: {name: windows}");
    let ended = check_file("all.yaml", format!("{linux}{pod}"));
    assert_ne!(ended.status, Some(0), "{}", ended.stdout);
}

#[test]
#[ignore = "an input of nodes alone is judged, and the verdict is True out of a part"]
fn nodes_alone_are_no_cluster() {
    let ended = check_file("nodes.yaml", WINDOWS_NODE);
    assert_ne!(ended.status, Some(0), "{}", ended.stdout);
}

#[test]
#[ignore = "an object with a used kind and no apiVersion is passed over without an error"]
fn an_object_that_does_not_say_its_version_is_an_error() {
    let pod = BLOCKING_POD.replace("apiVersion: v1\n", "");
    check_file("all.yaml", format!("{WINDOWS_NODE}{pod}")).assert_refused("no apiVersion");
}

#[test]
#[ignore = "what is no object is passed over without an error, and the verdict is True out of the rest"]
fn what_is_there_in_place_of_objects_is_an_error() {
    for (what, text) in [
        (
            "items as a mapping",
            "apiVersion: v1\nkind: PodList\nitems: {a: {}}\n",
        ),
        ("a list without items", "apiVersion: v1\nkind: PodList\n"),
        (
            "items that are no objects",
            "apiVersion: v1\nkind: PodList\nitems: [7, pod, null]\n",
        ),
        (
            "the first page of a list",
            "apiVersion: v1\nkind: PodList\nmetadata: {continue: abc, remainingItemCount: 500}\nitems: []\n",
        ),
        (
            "a kind that is no text",
            "apiVersion: v1\nkind: [Pod]\nmetadata: {name: x}\n",
        ),
        (
            "a version that is no text",
            "apiVersion: 1\nkind: Pod\nmetadata: {name: x}\n",
        ),
        (
            "what kubectl says",
            "Error from server (Forbidden): pods is forbidden\n",
        ),
        (
            "what an API server says",
            "apiVersion: v1\nkind: Status\nstatus: Failure\nreason: Forbidden\nmessage: pods is forbidden\n",
        ),
    ] {
        check_file("all.yaml", format!("{WINDOWS_NODE}{text}")).assert_refused(what);
    }
}
