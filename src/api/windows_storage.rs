//! `WindowsStorage`: what the administrator wants, and the operator's verdict.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    doc = "How the operator looks after storage on the Windows nodes, and its verdict on upgrades. One object, named cluster; without it the defaults hold.",
    validation = Rule::new("self.metadata.name == 'cluster'").message("the only WindowsStorage object is named cluster"),
    printcolumn = r#"{"name":"Upgradeable","type":"string","jsonPath":".status.verdict.upgradeable"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.verdict.reason"}"#,
    printcolumn = r#"{"name":"Nodes","type":"integer","jsonPath":".status.counts.windowsNodes"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.counts.readyNodes"}"#,
    printcolumn = r#"{"name":"Blocking","type":"integer","jsonPath":".status.counts.blockingVolumes"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.verdict.message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WindowsStorageSpec {
    /// Who looks after csi-proxy and how it is run.
    #[serde(default)]
    pub csi_proxy: CsiProxySpec,
    /// How the operator logs in to nodes.
    #[serde(default)]
    pub ssh: SshSpec,
    /// Seconds between two looks at a node that is in order.
    #[serde(default = "default_probe_interval_seconds")]
    #[schemars(range(min = 10, max = 86400))]
    pub probe_interval_seconds: u32,
    /// Whether missing drivers hold upgrades. With Ignore the risk is still named, but upgrades may go on.
    #[serde(default)]
    pub upgrade_gate: UpgradeGate,
}

impl Default for WindowsStorageSpec {
    fn default() -> Self {
        Self {
            csi_proxy: CsiProxySpec::default(),
            ssh: SshSpec::default(),
            probe_interval_seconds: default_probe_interval_seconds(),
            upgrade_gate: UpgradeGate::default(),
        }
    }
}

/// Who looks after csi-proxy and how it is run.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsiProxySpec {
    /// Who looks after csi-proxy on the nodes.
    #[serde(default)]
    pub management: Management,
    /// On which Windows nodes csi-proxy has to run for the node to count as ready.
    #[serde(default)]
    pub needed: CsiProxyNeed,
    /// Further flags for csi-proxy, each one flag such as -kubelet-path=D:\kubelet. No spaces and no quotes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(
            length(max = 512),
            regex(pattern = r#"^--?[A-Za-z][A-Za-z0-9_-]*(=[^\s"]*)?$"#)
        )
    )]
    pub extra_args: Vec<String>,
}

/// Who looks after csi-proxy on the nodes.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Management {
    /// External on nodes that the Windows Machine Config Operator looks after, Managed on all others.
    #[default]
    Auto,
    /// This operator installs and runs csi-proxy on every Windows node.
    Managed,
    /// Somebody else does; nodes are watched and never touched.
    External,
}

/// On which Windows nodes csi-proxy has to run for the node to count as ready.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CsiProxyNeed {
    /// Where a pod mounts one of its pipes. Drivers in HostProcess containers do without it.
    #[default]
    WhereMounted,
    /// On every Windows node.
    Always,
}

/// How the operator logs in to nodes.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshSpec {
    /// The user for nodes that the ConfigMap windows-instances does not name. Must be an administrator of the node.
    #[serde(default = "default_user")]
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[^\s/:;,]+$"))]
    pub user: String,
    /// The SSH server's port.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
}

impl Default for SshSpec {
    fn default() -> Self {
        Self {
            user: default_user(),
            port: default_port(),
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

fn default_user() -> String {
    "Administrator".to_owned()
}

fn default_port() -> u16 {
    22
}

fn default_probe_interval_seconds() -> u32 {
    300
}

/// What the operator found.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowsStorageStatus {
    /// Whether the cluster may be upgraded, and why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// Numbers for a quick look.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counts: Option<Counts>,
    /// `Upgradeable`, `CredentialsValid`, `InstancesValid`, `ServicesValid`, `NodesReady`.
    #[serde(default)]
    #[schemars(schema_with = "super::windows_node_storage::conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Whether the cluster may be upgraded, and why.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// True or False.
    pub upgradeable: String,
    /// A word for machines.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
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
