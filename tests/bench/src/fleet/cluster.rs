//! The objects of a fleet's cluster: Nodes with their addresses, the settings, and the SSH credentials.

use anyhow::Result;
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::objects;
use testbed::simulated_host::{SimulatedFleet, SimulatedHost};

/// The operator's ServiceAccount.
pub const ACCOUNT: &str = "windows-storage-operator";
/// Applies the settings with the SSH access to the hosts; the interval is the default.
pub fn want(control_plane: &ControlPlane, fleet: &SimulatedFleet) -> Result<()> {
    let ssh = json!({"user": fleet.user(), "port": fleet.port()});
    let settings = format!(
        "apiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsStorage\nmetadata: {{name: cluster}}\nspec: {{ssh: {ssh}}}\n"
    );
    control_plane.apply(&settings).map(drop)
}

/// Adds Nodes with their CSINodes, then their addresses.
pub fn add_nodes(control_plane: &ControlPlane, hosts: &[SimulatedHost]) -> Result<()> {
    let objects: Vec<String> = hosts
        .iter()
        .flat_map(|host| {
            [
                objects::windows_node(host.name()),
                objects::csi_node(host.name(), &[]),
            ]
        })
        .collect();
    control_plane.apply(&objects.join("---\n"))?;
    let items = hosts.iter().map(|host| -> Result<Value> {
        let mut status: Value =
            serde_json::from_str(&objects::node_status(&host.address().to_string()))?;
        status["apiVersion"] = "v1".into();
        status["kind"] = "Node".into();
        status["metadata"] = json!({"name": host.name()});
        Ok(status)
    });
    let items = items.collect::<Result<Vec<_>>>()?;
    let statuses = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let apply = "apply --server-side --force-conflicts --subresource=status -f -";
    let arguments: Vec<&str> = apply.split(' ').collect();
    control_plane
        .kubectl_with_input(&arguments, &statuses.to_string())
        .map(drop)
}
