//! `WindowsStorage`: what the administrator wants, and the operator's verdict.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::node_pool::NodePool;

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

/// How another csi-proxy reaches nodes on which one works. Nodes without a working one get it at once.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutSpec {
    /// How many nodes may be without csi-proxy at one time for the sake of an update: a number, or a percentage of the
    /// managed nodes, rounded up.
    #[serde(deserialize_with = "max_unavailable_or_default")]
    #[schemars(schema_with = "max_unavailable_schema")]
    pub max_unavailable: IntOrString,
    /// After the update was undone on so many nodes no further node is updated.
    #[schemars(range(min = 1, max = 1000))]
    pub max_failures: u32,
    /// No node is updated while this is true.
    pub paused: bool,
    /// Any text. Another text than before lets an update that has stopped go on, and tries it once more on the nodes on which it was
    /// undone.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub resume: String,
}

impl Default for RolloutSpec {
    fn default() -> Self {
        Self {
            max_unavailable: default_max_unavailable(),
            max_failures: 1,
            paused: false,
            resume: String::new(),
        }
    }
}

impl RolloutSpec {
    /// The number of nodes that `maxUnavailable` allows out of so many; at least one.
    #[must_use]
    pub fn max_unavailable_of(&self, nodes: usize) -> usize {
        let number = match &self.max_unavailable {
            IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
            IntOrString::String(text) => {
                percentage(text).map_or(0, |percent| nodes.saturating_mul(percent).div_ceil(100))
            }
        };
        number.max(1)
    }
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

fn default_max_unavailable() -> IntOrString {
    IntOrString::Int(1)
}

/// The API server takes a null, which means the same as nothing.
fn max_unavailable_or_default<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<IntOrString, D::Error> {
    let value = checked_max_unavailable(deserializer)?;
    Ok(value.unwrap_or_else(default_max_unavailable))
}

/// API servers before 1.25 do not check the rule of the schema.
pub(super) fn checked_max_unavailable<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IntOrString>, D::Error> {
    let value = Option::<IntOrString>::deserialize(deserializer)?;
    let is_usable = match &value {
        None => true,
        Some(IntOrString::Int(number)) => (1..=100_000).contains(number),
        Some(IntOrString::String(text)) => percentage(text).is_some(),
    };
    if is_usable {
        return Ok(value);
    }
    let problem = format!("rollout.maxUnavailable {MAX_UNAVAILABLE}");
    Err(serde::de::Error::custom(problem))
}

const MAX_UNAVAILABLE: &str = "must be a number from 1 to 100000, or a percentage from 1% to 100%";

fn percentage(text: &str) -> Option<usize> {
    let digits = text.strip_suffix('%')?;
    let number = digits.parse().ok()?;
    let is_plain = digits.starts_with(|digit: char| ('1'..='9').contains(&digit));
    (is_plain && number <= 100).then_some(number)
}

/// Whole numbers from 1 and percentages from 1% to 100%.
fn max_unavailable_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "default": 1,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? self >= 1 && self <= 100000 : self.matches('^([1-9][0-9]?|100)%$')",
            "message": MAX_UNAVAILABLE
        }]
    })
}

/// What the operator found.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowsStorageStatus {
    /// Numbers for a quick look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The first ten volumes that hold upgrades; `counts` has how many there are.
    pub blocking_volumes: Vec<String>,
    /// How far csi-proxy is on the nodes that this operator looks after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// `Upgradeable`, `OperatorConditionWritten` (where there is an OperatorCondition to write), `CredentialsValid`,
    /// `NodePoolsValid` (where there are pools), `InstancesValid`, `HostKeysValid`, `ServicesValid`, `RolloutProgressing`, `NodesReady`.
    #[schemars(schema_with = "super::windows_node_storage::conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// How far csi-proxy is on the nodes that this operator looks after.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// The version of csi-proxy that nodes shall have.
    pub version: String,
    /// Nodes that this operator looks after.
    pub nodes: u32,
    /// Those that are as they shall be.
    pub updated_nodes: u32,
    /// Those on which csi-proxy works and waits for its update, or is being updated.
    pub waiting_nodes: u32,
    /// Those on which the update was undone.
    pub failed_nodes: u32,
    /// The same by pool, for those that `spec.nodePools` names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<PoolRolloutStatus>,
    /// The nodes that are being changed, by name, and those that were lost in the middle. An operator that starts reads
    /// them here: no other node is changed in their place before they have been looked at.
    pub in_progress: Vec<String>,
}

/// How far csi-proxy is on the nodes of a pool that this operator looks after.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct PoolRolloutStatus {
    /// The pool's name.
    pub name: String,
    /// Nodes that this operator looks after.
    pub nodes: u32,
    /// Those that are as they shall be.
    pub updated_nodes: u32,
    /// Those on which csi-proxy works and waits for its update, or is being updated.
    pub waiting_nodes: u32,
    /// Those on which the update was undone.
    pub failed_nodes: u32,
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
    fn a_percentage_is_of_all_nodes_and_never_none() {
        let of = |max_unavailable, nodes| {
            let spec = RolloutSpec {
                max_unavailable,
                ..RolloutSpec::default()
            };
            spec.max_unavailable_of(nodes)
        };
        let percent = |text: &str| IntOrString::String(text.to_owned());
        assert_eq!(of(IntOrString::Int(3), 2), 3);
        assert_eq!(of(IntOrString::Int(0), 2), 1);
        assert_eq!(of(percent("10%"), 41), 5);
        assert_eq!(of(percent("10%"), 0), 1);
        assert_eq!(of(percent("nonsense"), 100), 1);
    }

    #[test]
    fn what_the_schema_refuses_is_refused_where_it_is_not_checked() {
        for (value, is_usable) in [
            ("1", true),
            ("100000", true),
            (r#""1%""#, true),
            (r#""100%""#, true),
            ("0", false),
            ("-1", false),
            ("100001", false),
            (r#""0%""#, false),
            (r#""01%""#, false),
            (r#""+1%""#, false),
            (r#""101%""#, false),
            (r#""10""#, false),
            (r#""most""#, false),
        ] {
            let spec = format!(r#"{{"maxUnavailable":{value}}}"#);
            let read = serde_json::from_str::<RolloutSpec>(&spec);
            assert_eq!(read.is_ok(), is_usable, "{value}: {read:?}");
        }
    }

    #[test]
    fn a_null_means_the_default() {
        let spec: RolloutSpec = serde_json::from_str(r#"{"maxUnavailable":null}"#).unwrap();
        assert_eq!(spec, RolloutSpec::default());
    }

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
