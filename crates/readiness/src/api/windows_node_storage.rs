//! `WindowsNodeStorage`: the state of one Windows node's storage.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Empty: this resource has a status only.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "windowsstorage.dev",
    version = "v1alpha1",
    kind = "WindowsNodeStorage",
    plural = "windowsnodestorages",
    shortname = "winnodestor",
    category = "windows-storage",
    status = "WindowsNodeStorageStatus",
    no_spec,
    doc = "WindowsNodeStorage reports the state of storage on the Windows node of the same name. The operator writes it; the Node owns it.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"CSI-Proxy","type":"string","jsonPath":".status.csiProxy.version"}"#,
    printcolumn = r#"{"name":"Service","type":"string","jsonPath":".status.csiProxy.serviceState"}"#,
    printcolumn = r#"{"name":"CSINode","type":"string","jsonPath":".status.conditions[?(@.type==\"CSINodePresent\")].status"}"#,
    printcolumn = r#"{"name":"Drivers","type":"string","jsonPath":".status.conditions[?(@.type==\"DriversRegistered\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Managed-By","type":"string","jsonPath":".status.managedBy","priority":1}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct WindowsNodeStorageSpec {}

/// Value of `status.management` for nodes that another owner manages.
pub const EXTERNAL: &str = "External";

/// The state of storage on one Windows node.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowsNodeStorageStatus {
    /// Who manages csi-proxy on the node. `Managed`: this operator. `External`: another owner. `Releasing`: External, but the agent of this
    /// operator is still to be removed. `Removing`: csi-proxy and the agent are being removed. `Removed`: nothing of this operator is left on
    /// the node. `NotNeeded`: the same, because nothing uses csi-proxy there.
    #[schemars(extend("enum" = ["Managed", "External", "Releasing", "Removing", "Removed", "NotNeeded"]))]
    pub management: String,
    /// The owner of csi-proxy on an external node and the signal that decided, such as EKS by label eks.amazonaws.com/nodegroup.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub managed_by: String,
    /// The node's pool in `spec.nodePools` of WindowsStorage.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_pool: String,
    /// csi-proxy as last seen over SSH. Absent if the operator has never logged in to the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_proxy: Option<CsiProxyStatus>,
    /// The update that failed on this node. The operator retries it only after `spec.rollout.resume` of WindowsStorage changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_update: Option<FailedUpdate>,
    /// The CSI drivers that are registered on the node.
    pub drivers: Vec<String>,
    /// The first hundred CSI drivers that workloads need and that are not registered on the node; the condition `DriversRegistered`
    /// counts all of them.
    pub missing_drivers: Vec<String>,
    /// Ready summarizes `CSIProxyReady`, `CSINodePresent` and `DriversRegistered`. `CSIProxyUsed` says whether something uses the pipes,
    /// `SSHKeyAccepted` with which key the operator logged in last.
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// csi-proxy as last seen on a node.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiProxyStatus {
    /// The version, if the operator knows the binary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The SHA-256 of the binary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The state of the Windows service.
    #[schemars(extend("enum" = ["Missing", "Stopped", "StartPending", "StopPending", "Running", "Paused", "Unknown"]))]
    pub service_state: String,
    /// The named pipes on which csi-proxy does not answer.
    pub missing_pipes: Vec<String>,
    /// How often the agent has restarted the service since the agent itself started.
    pub restarts: u32,
}

/// An update of csi-proxy that failed on a node and was rolled back.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedUpdate {
    /// A hash of the programs and services to be installed.
    pub revision: String,
    /// The value of `spec.rollout.resume` of WindowsStorage at that time.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub resume: String,
    /// Why it failed.
    pub message: String,
}

impl CsiProxyStatus {
    /// Whether it runs and answers on all of its pipes.
    pub fn is_running(&self) -> bool {
        self.service_state == "Running" && self.missing_pipes.is_empty()
    }
}

// The patterns of metav1.Condition, in k8s.io/apimachinery/pkg/apis/meta/v1/types.go.
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// The markers of `metav1.Condition`, and a list that server-side apply merges by type.
pub(super) fn conditions_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316, "pattern": CONDITION_TYPE},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": CONDITION_REASON},
                "message": {"type": "string", "maxLength": 32768}
            }
        }
    })
}
