//! Generates nodes and `CSINode` objects.

use serde_json::{Value, json};

use super::{DRIVER, OTHER_DRIVER, Os, WHEN, digest, hash, node_name};

/// Returns a Node without its status. WMCO manages its csi-proxy, so the operator does not connect to it.
pub fn node(os: Os, number: usize) -> Value {
    let name = node_name(os, number);
    let pool = format!("{}pool1", os.short());
    let mut annotations = json!({
        "csi.volume.kubernetes.io/nodeid": format!("{{\"disk.csi.azure.com\":\"{name}\",\"file.csi.azure.com\":\"{name}\"}}"),
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    });
    if os == Os::Windows {
        annotations["windowsmachineconfig.openshift.io/version"] = json!("10.18.0-5f2c1a9");
        annotations["windowsmachineconfig.openshift.io/desired-version"] = json!("10.18.0-5f2c1a9");
        annotations["windowsmachineconfig.openshift.io/pub-key-hash"] = json!(hash(number, 32));
    }
    let taints = match os {
        Os::Windows => json!([{"key": "os", "value": "Windows", "effect": "NoSchedule"}]),
        Os::Linux => json!([]),
    };
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": {
            "agentpool": pool, "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/instance-type": "Standard_D8s_v5",
            "beta.kubernetes.io/os": os.as_str(), "failure-domain.beta.kubernetes.io/region": "westeurope",
            "failure-domain.beta.kubernetes.io/zone": format!("westeurope-{}", number % 3), "kubernetes.azure.com/agentpool": pool,
            "kubernetes.azure.com/cluster": "MC_production_shop_westeurope", "kubernetes.azure.com/mode": "user",
            "kubernetes.azure.com/node-image-version": "AKSWindows-2022-containerd-20348.2762.241009",
            "kubernetes.azure.com/role": "agent", "kubernetes.azure.com/storageprofile": "managed",
            "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, "kubernetes.io/os": os.as_str(),
            "node.kubernetes.io/instance-type": "Standard_D8s_v5", "topology.disk.csi.azure.com/zone": format!("westeurope-{}", number % 3),
            "topology.kubernetes.io/region": "westeurope", "topology.kubernetes.io/zone": format!("westeurope-{}", number % 3)}},
        "spec": {"podCIDR": format!("10.{}.{}.0/24", 64 + number / 256 % 64, number % 256),
            "podCIDRs": [format!("10.{}.{}.0/24", 64 + number / 256 % 64, number % 256)],
            "providerID": format!("azure:///subscriptions/{}/resourceGroups/shop/providers/Microsoft.Compute/virtualMachineScaleSets/{pool}/virtualMachines/{number}", hash(3, 32)),
            "taints": taints}})
}

/// Returns the status that a kubelet writes for its node.
pub fn node_status(os: Os, number: usize) -> Value {
    let condition = |name: &str, status: &str, reason: &str, message: &str| {
        json!({"type": name, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": WHEN, "lastTransitionTime": WHEN})
    };
    let images: Vec<Value> = (0..20)
        .map(|image| {
            let name = format!("mcr.microsoft.com/oss/kubernetes/component-{image:02}");
            json!({"names": [format!("{name}@{}", digest(image)), format!("{name}:v1.{image}.3")], "sizeBytes": 81_234_567 + image})
        })
        .collect();
    let amounts = json!({"cpu": "7820m", "ephemeral-storage": "119703055367", "hugepages-2Mi": "0", "memory": "27584812Ki", "pods": "110"});
    json!({"status": {"addresses": [{"type": "InternalIP", "address": format!("10.240.{}.{}", number / 250, number % 250 + 4)},
            {"type": "Hostname", "address": node_name(os, number)}],
        "allocatable": amounts, "capacity": amounts, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")],
        "images": images,
        "nodeInfo": {"architecture": "amd64", "bootID": hash(number, 32), "containerRuntimeVersion": "containerd://1.7.20+azure",
            "kernelVersion": "10.0.20348.2762", "kubeProxyVersion": "v1.33.4", "kubeletVersion": "v1.33.4",
            "machineID": node_name(os, number), "operatingSystem": os.as_str(), "osImage": "Windows Server 2022 Datacenter",
            "systemUUID": hash(number + 1, 32)}}})
}

/// Returns a node's CSINode, with or without the driver that in-tree volumes need.
pub fn csi_node(os: Os, number: usize, node_uid: &str, has_driver: bool) -> Value {
    let name = node_name(os, number);
    let entry = |driver: &str| {
        json!({"name": driver, "nodeID": name, "topologyKeys": [format!("topology.{driver}/zone")],
            "allocatable": {"count": 16}})
    };
    let mut drivers = vec![entry(OTHER_DRIVER)];
    drivers.extend(has_driver.then(|| entry(DRIVER)));
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": name,
            "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}]},
        "spec": {"drivers": drivers}})
}
