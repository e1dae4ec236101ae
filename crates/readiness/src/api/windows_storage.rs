//! `WindowsStorage`: the settings of the administrator, and the verdict of the operator.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::node_pool::NodePool;
use super::rollout::{RolloutSpec, RolloutStatus};
use super::values::{PrivateKeySecretRef, pinned_version_schema, user_schema};

/// The settings of the operator. Every field is optional.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "windowsstorage.dev",
    version = "v1alpha1",
    kind = "WindowsStorage",
    plural = "windowsstorages",
    shortname = "winstor",
    category = "windows-storage",
    status = "WindowsStorageStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "WindowsStorage configures the operator and reports its verdict on upgrades. There is one object, named cluster. Without it the operator uses the defaults and creates it.",
    validation = Rule::new("self.metadata.name == 'cluster'").message("the operator reads one WindowsStorage object only: name it cluster"),
    printcolumn = r#"{"name":"Upgradeable","type":"string","jsonPath":".status.conditions[?(@.type==\"Upgradeable\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Upgradeable\")].reason"}"#,
    printcolumn = r#"{"name":"Nodes","type":"integer","jsonPath":".status.counts.windowsNodes"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.counts.readyNodes"}"#,
    printcolumn = r#"{"name":"Blocking","type":"integer","jsonPath":".status.counts.blockingVolumes"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Upgradeable\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowsStorageSpec {
    /// Who manages csi-proxy on the nodes, and how it runs.
    pub csi_proxy: CsiProxySpec,
    /// How the operator logs in to the nodes.
    pub ssh: SshSpec,
    /// How the operator updates csi-proxy on nodes where it works already. A node without a working csi-proxy gets it at once.
    pub rollout: RolloutSpec,
    /// Settings for groups of nodes. A node belongs to the first pool whose `nodeSelector` matches it, or to none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub node_pools: Vec<NodePool>,
    /// Whether missing drivers hold upgrades. `Enforce`: they do. `Ignore`: they do not; the message still names the volumes at risk.
    pub upgrade_gate: UpgradeGate,
}

/// Who manages csi-proxy on the nodes, and how it runs.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiProxySpec {
    /// Who manages csi-proxy on the nodes. `Auto`: the operator, except on nodes of the Windows Machine Config Operator, AKS, EKS, GKE and
    /// Rancher, and on nodes with another csi-proxy. `Managed`: the operator, on every node; nodes of the Windows Machine Config Operator
    /// and AKS also need the annotation `windowsstorage.dev/management=Managed`. `External`: another owner; the operator never logs in.
    /// `Removed`: the operator removes csi-proxy and its agent from each of its nodes, once nothing has used the pipes there for ten minutes.
    pub management: Management,
    /// Where the operator installs csi-proxy. `Always`: on every managed node. `WhereNeeded`: on managed nodes that run a CSI driver that uses
    /// csi-proxy; the operator removes it once nothing has used the pipes for ten minutes.
    pub install: Install,
    /// Additional flags for csi-proxy, such as -kubelet-path=D:\kubelet. A flag is one that csi-proxy has, and contains neither spaces nor
    /// quotes; all flags together fit in 2048 characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(
            length(max = 512),
            regex(pattern = r"^--?[A-Za-z][A-Za-z0-9_-]*(=[!#-~]*)?$")
        )
    )]
    pub extra_args: Vec<String>,
    /// What to do with a service named csi-proxy on a managed node that the operator did not create. `Leave`: report it and install nothing.
    /// `Replace`: take it over; if the replacement fails, the operator restores it.
    pub foreign_service: ForeignService,
    /// Pins the version of csi-proxy, such as v1.3.0. An operator that ships another version changes no node: what runs keeps running, and
    /// a node without csi-proxy gets none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = pinned_version_schema)]
    pub version: Option<String>,
}

/// What to do with a service named csi-proxy that the operator did not create.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForeignService {
    /// Report it in the node's status, and install nothing.
    #[default]
    Leave,
    /// Take it over, with the operator's program and command. If that fails, restore it.
    Replace,
}

/// Who manages csi-proxy on the nodes.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Management {
    /// External on nodes of the Windows Machine Config Operator, AKS, EKS, GKE and Rancher, and on nodes with another csi-proxy. Managed on all
    /// others.
    #[default]
    Auto,
    /// The operator, on every Windows node. Nodes of the Windows Machine Config Operator and AKS also need the annotation
    /// `windowsstorage.dev/management=Managed`.
    Managed,
    /// Another owner. The operator reads the API and never logs in.
    External,
    /// The operator removes csi-proxy and its agent from each of its nodes, once nothing has used the pipes there for ten minutes.
    Removed,
}

/// Where the operator installs csi-proxy.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Install {
    /// On every managed node.
    #[default]
    Always,
    /// On managed nodes that run the DaemonSet of a CSI driver that mounts the pipes of csi-proxy, or may use them from a HostProcess
    /// container. The operator removes it once nothing has used the pipes for ten minutes.
    WhereNeeded,
}

/// How the operator logs in to the nodes.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SshSpec {
    /// The user, a member of the node's group Administrators.
    #[schemars(transform = user_schema)]
    pub user: String,
    /// The port of the SSH server.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The private key, in a Secret of the operator's namespace: by default private-key.pem of cloud-private-key. Give the operator the right
    /// to `get` any other Secret.
    pub private_key_secret_ref: PrivateKeySecretRef,
    /// Which host keys the operator trusts besides those in the ConfigMap windows-storage-host-keys. `TrustOnFirstUse`: the first key that a
    /// node shows; the operator stores it there. `Strict`: none.
    pub host_keys: HostKeys,
}

/// Which host keys the operator trusts besides those in the ConfigMap windows-storage-host-keys.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostKeys {
    /// The first key that a node shows. The operator stores it in the ConfigMap.
    #[default]
    TrustOnFirstUse,
    /// None: the ConfigMap must have the key before the first contact.
    Strict,
}

impl Default for SshSpec {
    fn default() -> Self {
        Self {
            user: "Administrator".to_owned(),
            port: 22,
            private_key_secret_ref: PrivateKeySecretRef::default(),
            host_keys: HostKeys::default(),
        }
    }
}

/// Whether missing drivers hold upgrades.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeGate {
    /// Missing drivers hold upgrades.
    #[default]
    Enforce,
    /// The administrator accepts the risk: missing drivers hold nothing.
    Ignore,
}

/// The state of the cluster's Windows storage.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowsStorageStatus {
    /// The generation of the spec that everything in this status rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The Kubernetes version since which volumes hold upgrades. Cleared when upgrades are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since_version: Option<String>,
    /// Set if the cluster was upgraded to another minor version while volumes held upgrades. Cleared when upgrades are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgraded_while_held: Option<UpgradedWhileHeld>,
    /// A summary in numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The first ten volumes that hold upgrades; `counts.blockingVolumes` is their number.
    pub blocking_volumes: Vec<BlockingVolume>,
    /// The progress of the current version of csi-proxy on managed nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// `Upgradeable` is the verdict. `Ready` summarizes the others: `OperatorConditionWritten` (with OLM),
    /// `CredentialsValid`, `NodePoolsValid` (with pools), `InstancesValid`, `HostKeysValid`, `ServicesValid`, `RolloutProgressing`, `NodesReady`.
    #[schemars(schema_with = "super::windows_node_storage::conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// A volume that holds upgrades.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockingVolume {
    /// The namespace of the workload.
    pub namespace: String,
    /// The workload that uses the volume, such as StatefulSet/orders.
    pub workload: String,
    /// The PersistentVolume or the claim, such as PersistentVolume/orders-1, or the name of the volume in the pod.
    pub volume: String,
    /// The CSI driver that is missing; absent if none takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Whether it cannot be mounted already today, because Kubernetes redirects it or has no plugin for it any more;
    /// absent if the cluster's version is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirected: Option<bool>,
}

/// An upgrade of the cluster while upgrades were held.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradedWhileHeld {
    /// The Kubernetes version before it.
    pub from: String,
    /// The Kubernetes version after it.
    pub to: String,
}

/// A summary in numbers.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// The number of Windows nodes.
    pub windows_nodes: u32,
    /// The number of Windows nodes whose storage is ready.
    pub ready_nodes: u32,
    /// The number of volumes that hold upgrades.
    pub blocking_volumes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_means_the_same_as_an_empty_one() {
        let empty: WindowsStorageSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(WindowsStorageSpec::default(), empty);
        assert_eq!(
            (empty.ssh.user.as_str(), empty.ssh.port),
            ("Administrator", 22)
        );
    }
}
