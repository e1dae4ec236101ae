//! What can be wrong in the parts that many kinds have.

use serde_json::{Value, json};

/// A field in a path, a value that it cannot have, and the field that the message names.
pub type Wrong = (&'static str, Value, &'static str);

/// Of all kinds.
pub fn everywhere() -> Vec<Wrong> {
    vec![
        ("metadata", json!("web"), "metadata"),
        ("metadata", Value::Null, "metadata"),
        ("metadata.name", json!(7), "metadata.name"),
        ("metadata.name", json!(""), "metadata.name"),
        ("metadata.name", Value::Null, "metadata.name"),
        ("metadata.labels", json!(["a"]), "metadata.labels"),
        (
            "metadata.labels",
            json!({"kubernetes.io/os": true}),
            "metadata.labels.kubernetes.io/os",
        ),
        (
            "metadata.annotations",
            json!({"a": {}}),
            "metadata.annotations.a",
        ),
        (
            "metadata.resourceVersion",
            json!(12),
            "metadata.resourceVersion",
        ),
        ("metadata.uid", json!([]), "metadata.uid"),
        (
            "metadata.deletionTimestamp",
            json!("yesterday"),
            "metadata.deletionTimestamp",
        ),
        (
            "metadata.creationTimestamp",
            json!(0),
            "metadata.creationTimestamp",
        ),
        (
            "metadata.ownerReferences",
            json!({}),
            "metadata.ownerReferences",
        ),
    ]
}

/// Of kinds in namespaces.
pub fn namespaced() -> Vec<Wrong> {
    vec![
        ("metadata.namespace", json!(7), "metadata.namespace"),
        (
            "metadata.ownerReferences",
            json!([{"controller": "yes", "uid": "u"}]),
            "metadata.ownerReferences[0]",
        ),
        (
            "metadata.ownerReferences",
            json!([{"controller": true, "uid": 9}]),
            "metadata.ownerReferences[0]",
        ),
    ]
}

/// Of a pod.
pub fn of_pod_spec() -> Vec<Wrong> {
    [of_placement(), of_volumes(), of_containers()].concat()
}

fn of_placement() -> Vec<Wrong> {
    vec![
        ("spec", json!([]), "spec"),
        ("spec.nodeName", json!(7), "spec.nodeName"),
        ("spec.os", json!("windows"), "spec.os"),
        ("spec.os", json!({"name": 11}), "spec.os.name"),
        (
            "spec.nodeSelector",
            json!("kubernetes.io/os=windows"),
            "spec.nodeSelector",
        ),
        (
            "spec.nodeSelector",
            json!({"a": true}),
            "spec.nodeSelector.a",
        ),
        ("spec.runtimeClassName", json!({}), "spec.runtimeClassName"),
        ("spec.affinity", json!([]), "spec.affinity"),
        (
            "spec.affinity",
            json!({"nodeAffinity": 1}),
            "spec.affinity.nodeAffinity",
        ),
        (
            "spec.affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": {}}}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
        ),
        (
            "spec.affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                [{"matchExpressions": [{"key": "k", "operator": "In", "values": "windows"}]}]}}}),
            "nodeSelectorTerms[0].matchExpressions[0].values",
        ),
    ]
}

fn of_volumes() -> Vec<Wrong> {
    vec![
        ("spec.volumes", json!({"name": "data"}), "spec.volumes"),
        ("spec.volumes", json!(["data"]), "spec.volumes[0]"),
        (
            "spec.volumes",
            json!([{"azureDisk": {}}]),
            "spec.volumes[0]",
        ),
        ("spec.volumes", json!([{"name": 1}]), "spec.volumes[0].name"),
        (
            "spec.volumes",
            json!([{"name": "d", "persistentVolumeClaim": "data"}]),
            "spec.volumes[0].persistentVolumeClaim",
        ),
        (
            "spec.volumes",
            json!([{"name": "d", "persistentVolumeClaim": {}}]),
            "claimName",
        ),
        (
            "spec.volumes",
            json!([{"name": "d", "ephemeral": {"volumeClaimTemplate": 1}}]),
            "spec.volumes[0].ephemeral.volumeClaimTemplate",
        ),
        (
            "spec.volumes",
            json!([{"name": "d", "csi": {"driver": 1}}]),
            "spec.volumes[0].csi.driver",
        ),
        ("spec.volumes", json!([{"name": "d", "csi": {}}]), "driver"),
        (
            "spec.volumes",
            json!([{"name": "d", "azureDisk": "x"}]),
            "azureDisk",
        ),
        ("spec.volumes", json!([{"name": "d", "rbd": []}]), "rbd"),
        (
            "spec.volumes",
            json!([{"name": "d", "hostPath": {"path": 1}}]),
            "spec.volumes[0].hostPath.path",
        ),
    ]
}

fn of_containers() -> Vec<Wrong> {
    vec![
        ("spec.containers", json!("web"), "spec.containers"),
        (
            "spec.containers",
            json!([{"image": 1}]),
            "spec.containers[0].image",
        ),
        (
            "spec.containers",
            json!([{"args": "--v=5"}]),
            "spec.containers[0].args",
        ),
        (
            "spec.containers",
            json!([{"args": [5]}]),
            "spec.containers[0].args[0]",
        ),
        (
            "spec.containers",
            json!([{"command": {}}]),
            "spec.containers[0].command",
        ),
        (
            "spec.containers",
            json!([{"env": {"A": "b"}}]),
            "spec.containers[0].env",
        ),
        (
            "spec.containers",
            json!([{"env": [{"name": "A", "value": 59}]}]),
            "spec.containers[0].env[0].value",
        ),
        ("spec.initContainers", json!(true), "spec.initContainers"),
        ("spec.tolerations", json!({}), "spec.tolerations"),
        (
            "spec.tolerations",
            json!([{"key": 1}]),
            "spec.tolerations[0].key",
        ),
    ]
}

/// Of kinds with a pod template.
pub fn of_template() -> Vec<Wrong> {
    vec![
        ("spec", json!(1), "spec"),
        ("spec.template", json!([]), "spec.template"),
        ("spec.template.spec", json!("x"), "spec.template.spec"),
        (
            "spec.template.spec.nodeSelector",
            json!([]),
            "spec.template.spec.nodeSelector",
        ),
        (
            "spec.template.spec.volumes",
            json!([{"name": "d", "cinder": 1}]),
            "spec.template.spec.volumes[0]",
        ),
    ]
}

/// Of a claim.
pub fn of_claim_spec() -> Vec<Wrong> {
    vec![
        ("spec", json!([]), "spec"),
        ("spec.volumeName", json!(1), "spec.volumeName"),
        (
            "spec.storageClassName",
            json!(false),
            "spec.storageClassName",
        ),
    ]
}
