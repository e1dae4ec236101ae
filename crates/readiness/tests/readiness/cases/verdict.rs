//! The table of verdicts, and their messages.

use super::{Case, azure_disk, csi_node, linux, pod, pod_on, risk_accepted, windows};
use serde_json::{Value, json};

const DISK: &str = "disk.csi.azure.com";

fn verdict(upgradeable: &str, reason: &str) -> Value {
    json!({"verdict": {"upgradeable": upgradeable, "reason": reason}})
}

pub fn cases() -> Vec<Case> {
    let rbd = json!({"name": "data", "rbd": {"monitors": ["m"], "image": "i"}});
    let missing = "pod shop/web-0: volume data (kubernetes.io/azure-disk) needs disk.csi.azure.com, missing on win-1";
    let dead = "pod shop/web-0: volume data (kubernetes.io/rbd) has no CSI driver that takes over";
    let disk_pod = || pod_on("win-1", "web-0", azure_disk());
    let rbd_pod = || pod_on("win-1", "web-0", rbd.clone());
    vec![
        case!("no node at all is no knowledge": [] => verdict("False", "ReadinessUnknown")),
        case!("no node at all stays unknown where the risk is accepted":
            [risk_accepted(), pod("web-0", super::asking(azure_disk()))]
            => verdict("False", "ReadinessUnknown")),
        case!("no Windows node": [linux("n-1"), disk_pod()] => verdict("True", "NoWindowsNodes")),
        case!("no in-tree volume, though there is no CSINode": [windows("win-1")]
            => verdict("True", "NoInTreeVolumes")),
        case!("a CSI volume is not in-tree":
            [windows("win-1"), pod_on("win-1", "web-0", json!({"name": "data", "csi": {"driver": DISK}}))]
            => json!({"verdict": {"upgradeable": "True", "reason": "NoInTreeVolumes"},
                "volumes": [{"csiDriver": DISK, "plugin": null, "inTree": false, "blocking": false,
                "missingOn": ["win-1"]}]})),
        case!("a type that no driver takes over comes before a missing CSINode":
            [windows("win-1"), rbd_pod()]
            => json!({"verdict": {"upgradeable": "False", "reason": "NoCSIMigration", "message": dead},
                "volumes": [{"plugin": "kubernetes.io/rbd", "csiDriver": null, "blocking": true,
                "missingOn": []}]})),
        case!("a CSINode is missing, though on a node that no pod is on":
            [windows("win-1"), windows("win-2"), csi_node("win-1", &[DISK]), disk_pod()]
            => json!({"verdict": {"upgradeable": "False", "reason": "CSINodeMissing",
                "messageEnd": missing.replace("win-1", "win-2")}, "nodes": [{"name": "win-1",
                "csiNode": true, "missingDrivers": []}, {"name": "win-2", "csiNode": false, "drivers": [],
                "missingDrivers": [DISK]}]})),
        case!("a CSINode without the entry proves nothing":
            [windows("win-1"), csi_node("win-1", &[]), disk_pod()]
            => json!({"verdict": {"upgradeable": "False", "reason": "DriversMissing", "message": missing}})),
        case!("all is there": [windows("win-1"), csi_node("win-1", &["b.example.com", DISK]), disk_pod()]
            => json!({"verdict": {"upgradeable": "True", "reason": "DriversRegistered"},
                "nodes": [{"drivers": ["b.example.com", DISK], "missingDrivers": []}],
                "volumes": [{"workload": {"kind": "Pod", "namespace": "shop", "name": "web-0"},
                "volume": "data", "source": "Inline", "persistentVolumeClaim": null,
                "persistentVolume": null, "storageClass": null, "plugin": "kubernetes.io/azure-disk",
                "csiDriver": DISK, "inTree": true, "blocking": false, "missingOn": []}]})),
        case!("a Linux node need not have the driver":
            [windows("win-1"), linux("n-1"), csi_node("win-1", &[DISK]), disk_pod()]
            => verdict("True", "DriversRegistered")),
        case!("the accepted risk of a missing driver is still named":
            [windows("win-1"), csi_node("win-1", &[]), disk_pod(), risk_accepted()]
            => json!({"verdict": {"upgradeable": "True", "reason": "Override", "messageEnd": missing},
                "volumes": [{"blocking": true}]})),
        case!("the accepted risk of a dead type": [windows("win-1"), rbd_pod(), risk_accepted()]
            => json!({"verdict": {"upgradeable": "True", "reason": "Override", "messageEnd": dead}})),
        case!("the accepted risk of a missing CSINode": [windows("win-1"), disk_pod(), risk_accepted()]
            => json!({"verdict": {"upgradeable": "True", "reason": "Override", "messageEnd": missing}})),
        case!("nothing at risk, nothing overridden":
            [windows("win-1"), csi_node("win-1", &[DISK]), disk_pod(), risk_accepted()]
            => verdict("True", "DriversRegistered")),
        twelve_nodes(),
        twelve_pods(),
    ]
}

fn twelve_nodes() -> Case {
    let mut objects = vec![pod_on("win-01", "web-0", azure_disk())];
    for number in 1..=12 {
        objects.push(windows(&format!("win-{number:02}")));
        objects.push(csi_node(&format!("win-{number:02}"), &[]));
    }
    let message = "pod shop/web-0: volume data (kubernetes.io/azure-disk) needs disk.csi.azure.com, missing on win-01, win-02, \
        win-03, win-04, win-05, win-06, win-07, win-08, win-09, win-10 and 2 more";
    case!("the message names ten nodes at most": objects
        => json!({"windowsNodes": 12, "verdict": {"reason": "DriversMissing", "message": message}}))
}

fn twelve_pods() -> Case {
    let mut objects = vec![windows("win-1"), csi_node("win-1", &[])];
    for number in (1..=12).rev() {
        objects.push(pod_on("win-1", &format!("web-{number:02}"), azure_disk()));
    }
    let sentences: Vec<_> = (1..=10)
        .map(|number| {
            format!(
                "pod shop/web-{number:02}: volume data (kubernetes.io/azure-disk) needs disk.csi.azure.com, missing on win-1"
            )
        })
        .collect();
    let message = format!("{}; and 2 more", sentences.join("; "));
    case!("the message names ten volumes at most": objects => json!({"verdict": {"message": message}}))
}
