//! `WindowsNodeStorage`: the state of one Windows node as the operator observed it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nothing: this resource has a status only.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "windowsstorage.dev",
    version = "v1alpha1",
    kind = "WindowsNodeStorage",
    plural = "windowsnodestorages",
    shortname = "wns",
    status = "WindowsNodeStorageStatus",
    derive = "PartialEq",
    doc = "What the operator found on one Windows node. Written by the operator, owned by the Node of the same name.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"CSI-Proxy","type":"string","jsonPath":".status.csiProxy.version"}"#,
    printcolumn = r#"{"name":"Service","type":"string","jsonPath":".status.csiProxy.serviceState"}"#,
    printcolumn = r#"{"name":"CSINode","type":"boolean","jsonPath":".status.csiNode"}"#,
    printcolumn = r#"{"name":"Missing-Drivers","type":"string","jsonPath":".status.missingDrivers"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct WindowsNodeStorageSpec {}

/// What the operator found on one Windows node.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowsNodeStorageStatus {
    /// Managed: this operator looks after csi-proxy. External: another owner does. Releasing: External, with this operator's
    /// agent still to be removed. Removing: csi-proxy and the agent are to be removed. Removed: they are, and nothing of this
    /// operator is on the node. `NotNeeded`: the same, because nothing uses csi-proxy there.
    #[schemars(extend("enum" = ["Managed", "External", "Releasing", "Removing", "Removed", "NotNeeded"]))]
    pub management: String,
    /// Who looks after csi-proxy on the node, and what shows it, such as `EKS by label eks.amazonaws.com/nodegroup`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub managed_by: String,
    /// The pool of `spec.nodePools` of WindowsStorage that the node belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_pool: String,
    /// The SSH key that the host took last: the first digits of the SHA-256 of its text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ssh_key: String,
    /// csi-proxy as last seen over SSH; absent where the operator has not been on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_proxy: Option<CsiProxyStatus>,
    /// The update that did not work on this node and is not tried again by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_update: Option<FailedUpdate>,
    /// Instances of csi-proxy on the node that are not this operator's, as last seen over SSH.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_instances: Vec<String>,
    /// Whether the node has its CSINode object.
    pub csi_node: bool,
    /// CSI drivers that are registered on the node.
    pub drivers: Vec<String>,
    /// CSI drivers that workloads need and that are not registered on the node.
    pub missing_drivers: Vec<String>,
    /// When the operator was last on the node, as of the last change of this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_contact_time: Option<Time>,
    /// `CSIProxyReady`, `CSIProxyUsed`, `CSINodePresent`, `DriversRegistered`, `Ready`.
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// csi-proxy as last seen on the node.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiProxyStatus {
    /// Its version, where its binary is one that the operator knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of its binary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The service's state.
    #[schemars(extend("enum" = ["Missing", "Stopped", "StartPending", "StopPending", "Running", "Paused", "Unknown"]))]
    pub service_state: String,
    /// Named pipes that are there, whoever serves them and whether or not that server answers.
    pub open_pipes: u32,
    /// Of those, the ones on which csi-proxy itself answers. Absent until the node was seen by this version of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answering_pipes: Option<u32>,
    /// Named pipes that should be open and are not.
    pub missing_pipes: Vec<String>,
    /// How often the agent had to start the service again since the agent's own start.
    pub restarts: u32,
    /// Milliseconds between the old pipes closing and the new ones opening, the last time that csi-proxy was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_interruption_milliseconds: Option<u64>,
}

/// An update of csi-proxy that did not work on a node and was undone.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedUpdate {
    /// What was to be brought: a hash over the programs and the services.
    pub revision: String,
    /// `spec.rollout.resume` of WindowsStorage at that time.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub resume: String,
    /// What happened.
    pub message: String,
}

impl CsiProxyStatus {
    /// Whether it runs and answers on all of its pipes.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.service_state == "Running"
            && self.missing_pipes.is_empty()
            && self.open_pipes > 0
            && self
                .answering_pipes
                .is_none_or(|answering| answering == self.open_pipes)
    }
}

/// Conditions merge by type for whoever applies them from outside.
pub(super) fn conditions_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768}
            }
        }
    })
}
