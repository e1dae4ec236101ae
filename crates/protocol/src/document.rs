//! The services document: the format of the Windows Machine Config Operator's `windows-services` ConfigMap.
//!
//! Source: WMCO, `pkg/servicescm`.

use serde::{Deserialize, Serialize};

/// One service of the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// The service's name in the Service Control Manager.
    pub name: String,
    /// The whole command line, despite the field's name.
    pub path: String,
    /// Variables in `path` whose values come from the Node object.
    #[serde(default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_variables_in_command: Vec<NodeVariable>,
    /// Scripts whose standard output replaces a variable in `path`.
    #[serde(default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub powershell_pre_scripts: Vec<PreScript>,
    /// Names of services that must run first.
    #[serde(default, deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// Whether the node needs the service before joining the cluster.
    pub bootstrap: bool,
    /// Start order, lowest first.
    pub priority: u32,
}

/// A variable in a command, and the path of its value in the Node object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVariable {
    /// The text in the command that is replaced.
    pub name: String,
    /// A JSON path in kubectl's notation.
    #[serde(rename = "nodeObjectJsonPath")]
    pub node_object_json_path: String,
}

/// A script that computes a variable of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreScript {
    /// The text in the command that is replaced; empty when the script sets no variable.
    #[serde(rename = "variableName")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variable_name: String,
    /// The script's path.
    pub path: String,
    /// Arguments filled in from the Node object. WMCO writes this key with a capital, and may write `null`.
    #[serde(rename = "NodeArgs", skip_serializing_if = "Vec::is_empty")]
    #[serde(default, deserialize_with = "null_as_default")]
    pub node_args: Vec<NodeVariable>,
    /// In a request: the arguments with their values filled in. WMCO's document has no such key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
