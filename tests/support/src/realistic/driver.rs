//! Generates the node plugin of a CSI driver: one pod on every node.

use serde_json::{Value, json};

use super::pods::{Owner, bound, pod, pod_spec};
use super::{Os, hash, labels, node_name, push, selector};

/// Returns the DaemonSet of the driver's node plugin, which has a pod on every node.
pub fn driver_set(os: Os) -> Value {
    let name = driver_set_name(os);
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system", "labels": labels(name)},
        "spec": {"selector": selector(name), "template": {"metadata": {"labels": labels(name)}, "spec": driver_spec(os)}}})
}

/// Returns the DaemonSet's name.
pub fn driver_set_name(os: Os) -> &'static str {
    match os {
        Os::Windows => "csi-azuredisk-node-win",
        Os::Linux => "csi-azuredisk-node",
    }
}

fn driver_spec(os: Os) -> Value {
    let name = driver_set_name(os);
    let (mut folders, registration) = match os {
        Os::Windows => (
            vec![
                ("csi-proxy-fs-pipe-v1", r"\\.\pipe\csi-proxy-filesystem-v1"),
                ("csi-proxy-disk-pipe-v1", r"\\.\pipe\csi-proxy-disk-v1"),
                ("csi-proxy-volume-pipe-v1", r"\\.\pipe\csi-proxy-volume-v1"),
            ],
            r"C:\var\lib\kubelet\plugins\disk.csi.azure.com\csi.sock",
        ),
        Os::Linux => (
            vec![
                ("device-dir", "/dev"),
                ("sys-devices-dir", "/sys/bus/scsi/devices"),
            ],
            "/var/lib/kubelet/plugins/disk.csi.azure.com/csi.sock",
        ),
    };
    folders.push(("plugin-dir", "/var/lib/kubelet/plugins/disk.csi.azure.com"));
    folders.push(("registration-dir", "/var/lib/kubelet/plugins_registry"));
    let mut spec = pod_spec(os, name, &[("plugin-dir", "/csi")]);
    for (volume, path) in folders {
        push(
            &mut spec["volumes"],
            json!({"name": volume, "hostPath": {"path": path, "type": ""}}),
        );
    }
    push(
        &mut spec["containers"],
        json!({"name": "node-driver-registrar", "image": "mcr.microsoft.com/oss/kubernetes-csi/csi-node-driver-registrar:v2.11.1",
            "args": ["--csi-address=$(CSI_ENDPOINT)", "--kubelet-registration-path=$(DRIVER_REG_SOCK_PATH)", "--v=2"],
            "env": [{"name": "CSI_ENDPOINT", "value": "unix:///csi/csi.sock"}, {"name": "DRIVER_REG_SOCK_PATH", "value": registration}],
            "volumeMounts": [{"name": "plugin-dir", "mountPath": "/csi"}, {"name": "registration-dir", "mountPath": "/registration"}]}),
    );
    spec
}

/// Returns the driver's pod on one node.
pub fn driver_pod(os: Os, number: usize, uid: &str) -> Value {
    let set = driver_set_name(os);
    let owner = Owner {
        kind: "DaemonSet",
        name: set,
        uid,
    };
    let name = format!("{set}-{}", hash(number, 8));
    let spec = bound(driver_spec(os), &node_name(os, number));
    pod("kube-system", &name, set, &owner, &spec)
}
