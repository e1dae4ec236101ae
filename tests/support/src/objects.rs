//! Cluster objects as YAML: the content of a cluster with Windows nodes and an in-tree workload.

use std::fmt::Write;

/// The namespace of the workloads.
pub const WORKLOADS: &str = "shop";
/// The operator's own namespace.
pub const NAMESPACE: &str = "windows-storage-operator";
/// The `OperatorCondition` that OLM would create.
pub const OPERATOR_CONDITION: &str =
    concat!("windows-storage-operator.v", env!("CARGO_PKG_VERSION"));

/// Returns a Windows node. Its status comes separately, as a kubelet writes it.
pub fn windows_node(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels:\n    kubernetes.io/os: windows\n    kubernetes.io/arch: amd64\nspec:\n  taints:\n  - {{key: os, value: Windows, effect: NoSchedule}}\n"
    )
}

/// The Linux node on which the operator would run: no cluster is without one.
pub const LINUX_NODE: &str = "linux-1";

/// Returns that node.
pub fn linux_node() -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: {LINUX_NODE}\n  labels:\n    kubernetes.io/os: linux\n    kubernetes.io/arch: amd64\n"
    )
}

/// Returns the status patch that sets a node's address.
pub fn node_status(address: &str) -> String {
    format!(
        r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"{address}"}}],"nodeInfo":{{"operatingSystem":"windows","architecture":"amd64","bootID":"","containerRuntimeVersion":"","kernelVersion":"","kubeProxyVersion":"","kubeletVersion":"v1.33.0","machineID":"","osImage":"","systemUUID":""}}}}}}"#
    )
}

/// Returns a node's CSINode with these drivers.
pub fn csi_node(node: &str, drivers: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata:\n  name: {node}\nspec:\n  drivers:"
    );
    if drivers.is_empty() {
        text.push_str(" []");
    }
    for driver in drivers {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n  - {{name: {driver}, nodeID: {node}, topologyKeys: []}}"
        );
    }
    text.push('\n');
    text
}

/// Returns a namespace with a pod on `node` that uses a claim bound to an in-tree Azure Disk volume.
pub fn azure_disk_workload(node: &str) -> String {
    format!(
        r"apiVersion: v1
kind: Namespace
metadata:
  name: {WORKLOADS}
---
apiVersion: v1
kind: PersistentVolume
metadata:
  name: pv-orders
spec:
  capacity: {{storage: 5Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: azuredisk
  claimRef: {{apiVersion: v1, kind: PersistentVolumeClaim, namespace: {WORKLOADS}, name: orders}}
  azureDisk: {{kind: Managed, diskName: orders, diskURI: /subscriptions/0/resourceGroups/shop/providers/Microsoft.Compute/disks/orders, cachingMode: ReadWrite, fsType: ntfs, readOnly: false}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: orders
  namespace: {WORKLOADS}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: azuredisk
  volumeName: pv-orders
  resources: {{requests: {{storage: 5Gi}}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  namespace: {WORKLOADS}
spec:
  nodeName: {node}
  os: {{name: windows}}
  containers:
  - name: web
    image: mcr.microsoft.com/windows/servercore/iis
    volumeMounts: [{{name: data, mountPath: 'C:\data'}}]
  volumes:
  - name: data
    persistentVolumeClaim: {{claimName: orders}}
  tolerations: [{{operator: Exists}}]
"
    )
}

/// Returns the settings: the hosts' SSH port and user.
pub fn settings(port: u16, user: &str) -> String {
    format!(
        "apiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsStorage\nmetadata:\n  name: cluster\nspec:\n  ssh: {{user: {user}, port: {port}}}\n"
    )
}

/// Returns the Secret with the SSH key.
pub fn ssh_secret(private_key: &str) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: cloud-private-key\n  namespace: {NAMESPACE}\nstringData:\n  private-key.pem: |\n"
    );
    for line in private_key.lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {line}");
    }
    text
}

/// Returns the empty `OperatorCondition` that OLM creates together with a CSV, and its RBAC. OLM maintains the rights
/// of the accounts that are named in it.
pub fn operator_condition() -> String {
    format!(
        r"apiVersion: operators.coreos.com/v2
kind: OperatorCondition
metadata:
  name: {OPERATOR_CONDITION}
  namespace: {NAMESPACE}
spec:
  serviceAccounts: [windows-storage-operator]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {OPERATOR_CONDITION}
  namespace: {NAMESPACE}
rules:
- apiGroups: [operators.coreos.com]
  resources: [operatorconditions]
  resourceNames: [{OPERATOR_CONDITION}]
  verbs: [get, update, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {OPERATOR_CONDITION}
  namespace: {NAMESPACE}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {OPERATOR_CONDITION}}}
subjects:
- {{kind: ServiceAccount, name: windows-storage-operator, namespace: {NAMESPACE}}}
"
    )
}
