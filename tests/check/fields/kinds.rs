//! What can be wrong with each used kind.

use serde_json::{Value, json};

use super::parts::{Wrong, of_claim_spec, of_pod_spec, of_template};

/// An apiVersion, a kind, whether it is of a namespace, and what can be wrong.
type Kind = (&'static str, &'static str, bool, Vec<Wrong>);

/// Each used kind, and what can be wrong with it beyond its metadata.
pub fn kinds() -> Vec<Kind> {
    [workloads(), storage(), nodes(), own()].concat()
}

fn workloads() -> Vec<Kind> {
    let mut pod = of_pod_spec();
    pod.extend([
        ("status", json!("Running"), "status"),
        ("status.phase", json!(1), "status.phase"),
        ("status.conditions", json!({}), "status.conditions"),
        (
            "status.conditions",
            json!([{"type": "Ready", "status": true}]),
            "status.conditions[0].status",
        ),
        (
            "status.containerStatuses",
            json!([{"state": 1}]),
            "status.containerStatuses[0].state",
        ),
        (
            "status.initContainerStatuses",
            json!([{"state": {"waiting": {"reason": 1}}}]),
            "status.initContainerStatuses[0].state.waiting.reason",
        ),
    ]);
    let mut set = of_template();
    set.extend([
        (
            "spec.volumeClaimTemplates",
            json!({}),
            "spec.volumeClaimTemplates",
        ),
        (
            "spec.volumeClaimTemplates",
            json!([{"metadata": {"name": 1}}]),
            "spec.volumeClaimTemplates[0].metadata.name",
        ),
        (
            "spec.volumeClaimTemplates",
            json!([{"spec": {"storageClassName": 1}}]),
            "spec.volumeClaimTemplates[0].spec.storageClassName",
        ),
    ]);
    let mut job = of_template();
    job.extend([
        ("status", json!(1), "status"),
        (
            "status.conditions",
            json!([{"type": 1}]),
            "status.conditions[0].type",
        ),
    ]);
    vec![
        ("v1", "Pod", true, pod),
        ("apps/v1", "StatefulSet", true, set),
        ("apps/v1", "Deployment", true, of_template()),
        ("extensions/v1beta1", "Deployment", true, of_template()),
        ("apps/v1", "DaemonSet", true, of_template()),
        ("apps/v1", "ReplicaSet", true, of_template()),
        ("v1", "ReplicationController", true, of_template()),
        ("batch/v1", "Job", true, job),
        (
            "batch/v1",
            "CronJob",
            true,
            vec![
                ("spec.jobTemplate", json!([]), "spec.jobTemplate"),
                ("spec.jobTemplate.spec", json!(1), "spec.jobTemplate.spec"),
                (
                    "spec.jobTemplate.spec.template.spec.os",
                    json!(1),
                    "spec.jobTemplate.spec.template.spec.os",
                ),
            ],
        ),
    ]
}

fn storage() -> Vec<Kind> {
    vec![
        ("v1", "PersistentVolumeClaim", true, of_claim_spec()),
        (
            "v1",
            "PersistentVolume",
            false,
            vec![
                ("spec", json!(1), "spec"),
                ("spec.csi", json!("csi.example"), "spec.csi:"),
                ("spec.csi", json!({"driver": null}), "spec.csi.driver"),
                ("spec.vsphereVolume", json!("[ds] a.vmdk"), "vsphereVolume"),
                (
                    "spec.persistentVolumeReclaimPolicy",
                    json!(1),
                    "spec.persistentVolumeReclaimPolicy",
                ),
            ],
        ),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            false,
            vec![("provisioner", json!(1), "provisioner")],
        ),
        ("storage.k8s.io/v1", "CSIDriver", false, vec![]),
    ]
}

fn nodes() -> Vec<Kind> {
    vec![
        (
            "storage.k8s.io/v1",
            "CSINode",
            false,
            vec![
                ("spec", json!("x"), "spec"),
                ("spec.drivers", json!({}), "spec.drivers"),
                (
                    "spec.drivers",
                    json!(["disk.csi.azure.com"]),
                    "spec.drivers[0]",
                ),
                ("spec.drivers", json!([{"nodeID": "n"}]), "spec.drivers[0]"),
                ("spec.drivers", json!([{"name": 1}]), "spec.drivers[0].name"),
            ],
        ),
        (
            "v1",
            "Node",
            false,
            vec![
                ("spec", json!([1]), "spec"),
                ("spec.taints", json!("os=Windows:NoSchedule"), "spec.taints"),
                ("spec.taints", json!([{"key": 1}]), "spec.taints[0].key"),
                ("status", json!(1), "status"),
                ("status.nodeInfo", json!([]), "status.nodeInfo"),
                (
                    "status.nodeInfo.operatingSystem",
                    json!(1),
                    "status.nodeInfo.operatingSystem",
                ),
                (
                    "status.nodeInfo.kubeletVersion",
                    json!(1.3),
                    "status.nodeInfo.kubeletVersion",
                ),
                ("status.addresses", json!({}), "status.addresses"),
            ],
        ),
        (
            "node.k8s.io/v1",
            "RuntimeClass",
            false,
            vec![
                ("scheduling", json!("x"), "scheduling"),
                (
                    "scheduling.nodeSelector",
                    json!({"kubernetes.io/os": 1}),
                    "scheduling.nodeSelector.kubernetes.io/os",
                ),
            ],
        ),
    ]
}

fn own() -> Vec<Kind> {
    vec![
        (
            "windowsstorage.dev/v1alpha1",
            "WindowsStorage",
            false,
            vec![
                ("spec", Value::Null, "spec"),
                ("spec.upgradeGate", json!("ignore"), "spec.upgradeGate"),
                ("spec.upgradeGate", json!(true), "spec.upgradeGate"),
                (
                    "spec.probeIntervalSeconds",
                    json!("30s"),
                    "spec.probeIntervalSeconds",
                ),
                ("spec.csiProxy", json!([1]), "spec.csiProxy"),
            ],
        ),
        (
            "windowsstorage.dev/v1alpha1",
            "WindowsNodeStorage",
            false,
            vec![
                ("status", json!("x"), "status"),
                (
                    "status.csiProxy",
                    json!({"missingPipes": "x"}),
                    "status.csiProxy.missingPipes",
                ),
            ],
        ),
    ]
}
