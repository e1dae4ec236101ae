//! What the cluster of a fleet holds: Nodes with their addresses, the wishes, and what is brought.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use openssl::rand::rand_bytes;
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::objects;
use testbed::simulated_host::{File, SimulatedFleet, SimulatedHost};

/// The operator's ServiceAccount.
pub const ACCOUNT: &str = "windows-storage-operator";
/// In bytes. With these the work on a host is mostly waiting, as it is on a real one.
const SMALL_CSI_PROXY: usize = 512 * 1024;
const SMALL_AGENT: usize = 128 * 1024;

/// A folder with programs that do not run and are small.
pub fn small_payload(folder: &Path) -> Result<PathBuf> {
    let folder = folder.join("small-payload");
    fs::create_dir_all(&folder)?;
    let mut manifest = json!({});
    for (program, version, size) in [
        ("csiProxy", "v1.3.0", SMALL_CSI_PROXY),
        ("agent", env!("CARGO_PKG_VERSION"), SMALL_AGENT),
    ] {
        // Noise, so that nothing gains by compression.
        let mut content = vec![0; size];
        rand_bytes(&mut content)?;
        fs::write(folder.join(program), &content)?;
        let hash = File::new(&content).sha256();
        manifest[program] = json!({"file": program, "version": version, "sha256": hash});
    }
    fs::write(folder.join("payload.json"), manifest.to_string())?;
    Ok(folder)
}

/// The way to the hosts; the interval is that of the defaults.
pub fn want(control_plane: &ControlPlane, fleet: &SimulatedFleet) -> Result<()> {
    let settings = json!({
        "apiVersion": "windowsstorage.dev/v1alpha1",
        "kind": "WindowsStorage",
        "metadata": {"name": "cluster"},
        "spec": {"ssh": {"user": fleet.user(), "port": fleet.port()}},
    });
    control_plane.apply(&settings.to_string()).map(drop)
}

/// Nodes with CSINodes first, then their addresses.
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
    let arguments = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--subresource=status",
        "-f",
        "-",
    ];
    control_plane
        .kubectl_with_input(&arguments, &statuses.to_string())
        .map(drop)
}
