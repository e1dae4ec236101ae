//! `WindowsStorage`: what the administrator wants, and the operator's verdict.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::node_pool::NodePool;
use super::rollout::{RolloutSpec, RolloutStatus};

/// How the operator looks after storage on the Windows nodes. One object, named `cluster`; without it the defaults hold.
#[derive(CustomResource, JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "windowsstorage.dev",
    version = "v1alpha1",
    kind = "WindowsStorage",
    plural = "windowsstorages",
    shortname = "ws",
    status = "WindowsStorageStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "How the operator looks after storage on the Windows nodes, and its verdict on upgrades. One object, named cluster; without it the defaults hold.",
    validation = Rule::new("self.metadata.name == 'cluster'").message("the only WindowsStorage object is named cluster"),
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
    /// Who looks after csi-proxy and how it is run.
    pub csi_proxy: CsiProxySpec,
    /// How the operator logs in to nodes.
    pub ssh: SshSpec,
    /// How another csi-proxy reaches nodes on which one works.
    pub rollout: RolloutSpec,
    /// What is different on some nodes. Each node belongs to the first pool that fits, or to none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub node_pools: Vec<NodePool>,
    /// Seconds between two looks at a node that is in order.
    #[schemars(range(min = 10, max = 86400))]
    pub probe_interval_seconds: u32,
    /// Whether missing drivers hold upgrades. With Ignore the risk is still named, but upgrades may go on.
    pub upgrade_gate: UpgradeGate,
    /// How much the operator logs; it follows at once, without a restart.
    pub log_level: LogLevel,
}

impl Default for WindowsStorageSpec {
    fn default() -> Self {
        Self {
            csi_proxy: CsiProxySpec::default(),
            ssh: SshSpec::default(),
            rollout: RolloutSpec::default(),
            node_pools: Vec::new(),
            probe_interval_seconds: 300,
            upgrade_gate: UpgradeGate::default(),
            log_level: LogLevel::default(),
        }
    }
}

/// Who looks after csi-proxy and how it is run.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiProxySpec {
    /// Who looks after csi-proxy on the nodes.
    pub management: Management,
    /// On which of the nodes that this operator looks after it installs csi-proxy.
    pub install: Install,
    /// On which Windows nodes csi-proxy has to run for the node to count as ready.
    pub needed: CsiProxyNeed,
    /// Further flags for csi-proxy, each one flag such as -kubelet-path=D:\kubelet. No spaces and no quotes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(
            length(max = 512),
            regex(pattern = r"^--?[A-Za-z][A-Za-z0-9_-]*(=[!#-~]*)?$")
        )
    )]
    pub extra_args: Vec<String>,
    /// What to do on a managed node with a service csi-proxy that is not this operator's.
    pub foreign_service: ForeignService,
    /// The only version of csi-proxy that the operator may bring, such as v1.3.0. Under an operator that brings another one, nodes stay as
    /// they are: what runs goes on running, and a node without csi-proxy gets none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^v?[0-9]+\.[0-9]+\.[0-9]+$"))]
    pub version: Option<String>,
    /// Bring csi-proxy also where it is older than 1.1.3. Such versions let a pod run commands on the node (CVE-2023-3893).
    pub allow_vulnerable: bool,
}

/// What to do with a service csi-proxy that is not this operator's.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForeignService {
    /// It is named in the node's status and let alone; csi-proxy is not installed there.
    #[default]
    Leave,
    /// It becomes this operator's: same name, this operator's program and command. Where that does not work it is put back.
    Replace,
}

/// Who looks after csi-proxy on the nodes.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Management {
    /// External on nodes that the Windows Machine Config Operator, AKS, EKS, GKE, Rancher or a DaemonSet with csi-proxy looks
    /// after, Managed on all others.
    #[default]
    Auto,
    /// This operator installs and runs csi-proxy on every Windows node, but on those of the Windows Machine Config Operator and
    /// of AKS only where the Node is annotated windowsstorage.dev/management=Managed.
    Managed,
    /// Another owner does; nodes are watched and never touched.
    External,
    /// This operator removes csi-proxy and its agent from every node on which it has installed them, once nothing has used
    /// csi-proxy's pipes there for ten minutes.
    Removed,
}

/// On which nodes csi-proxy is installed.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Install {
    /// On all of them.
    #[default]
    Always,
    /// Where a CSI driver's DaemonSet covers the node and mounts csi-proxy's pipes, or may reach them from a HostProcess
    /// container. It is removed again once nothing has used the pipes for ten minutes.
    WhereNeeded,
}

/// On which Windows nodes csi-proxy has to run for the node to count as ready.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CsiProxyNeed {
    /// Where a DaemonSet or a pod mounts its pipes, or is a driver in HostProcess containers that is not known to do without it.
    #[default]
    WhereMounted,
    /// On every Windows node.
    Always,
}

/// How the operator logs in to nodes.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SshSpec {
    /// The user for nodes that the ConfigMap windows-instances does not name. Must be an administrator of the node.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[^\s/:;,]+$"))]
    pub user: String,
    /// The SSH server's port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// What makes a host key trustworthy.
    pub host_keys: HostKeys,
}

/// What makes a host key trustworthy, beside a key that the ConfigMap windows-storage-host-keys already names.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostKeys {
    /// The key that a node shows at the first contact is stored and has to stay the same.
    #[default]
    TrustOnFirstUse,
    /// Nothing: keys have to be in the ConfigMap before the first contact.
    Strict,
}

impl Default for SshSpec {
    fn default() -> Self {
        Self {
            user: "Administrator".to_owned(),
            port: 22,
            host_keys: HostKeys::default(),
        }
    }
}

/// Whether missing drivers hold upgrades.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeGate {
    /// They do.
    #[default]
    Enforce,
    /// The administrator accepts the risk.
    Ignore,
}

/// How much the operator logs. The names are those of OpenShift's operators.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogLevel {
    /// What its command line says: every decision and every fault.
    #[default]
    Normal,
    /// Also what is looked at and found in order.
    Debug,
    /// All that the operator itself can log.
    Trace,
    /// The libraries that it is made of as well, but for the client of the API server, which would log secrets.
    TraceAll,
}

/// What the operator found.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowsStorageStatus {
    /// The Kubernetes version of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Set when the cluster was upgraded to another minor version although upgrades were held. It stays until they may go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgraded_while_held: Option<UpgradedWhileHeld>,
    /// Numbers for a quick look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The first ten volumes that hold upgrades; `counts` has how many there are.
    pub blocking_volumes: Vec<String>,
    /// How far csi-proxy is on the nodes that this operator looks after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// `Upgradeable`, `OperatorConditionWritten` (where there is an OperatorCondition to write), `CredentialsValid`,
    /// `NodePoolsValid` (where there are pools), `InstancesValid`, `HostKeysValid`, `ServicesValid`, `RolloutProgressing`, `NodesReady`; and what sums
    /// these up: `Available`, `Progressing`, `Degraded`.
    #[schemars(schema_with = "super::windows_node_storage::conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// An upgrade of the cluster although upgrades were held.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradedWhileHeld {
    /// The Kubernetes version before it.
    pub from: String,
    /// The Kubernetes version after it.
    pub to: String,
}

/// Numbers for a quick look.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Windows nodes.
    pub windows_nodes: u32,
    /// Windows nodes whose storage is ready.
    pub ready_nodes: u32,
    /// Volumes that hold upgrades.
    pub blocking_volumes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_means_the_same_as_an_empty_one() {
        let empty: WindowsStorageSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(WindowsStorageSpec::default(), empty);
        assert_eq!(empty.probe_interval_seconds, 300);
        assert_eq!(
            (empty.ssh.user.as_str(), empty.ssh.port),
            ("Administrator", 22)
        );
    }
}
