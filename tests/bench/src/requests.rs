//! Counts the operator's requests to the API server.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use testbed::control_plane::ControlPlane;
use testbed::objects::NAMESPACE;

use crate::process::eventually;

const ACCOUNT: &str = "windows-storage-operator";
const READS: [&str; 3] = ["get", "list", "watch"];

/// Returns how many of the operator's requests so far write anything but its lease, which it renews while it leads.
pub fn writes(control_plane: &ControlPlane) -> Result<u64> {
    let requests = control_plane.requests_of(NAMESPACE, ACCOUNT)?;
    let writes = requests
        .iter()
        .filter(|request| !READS.contains(&request.verb.as_str()) && request.resource != "leases");
    Ok(writes.count() as u64)
}

/// Waits until the operator has written nothing for `pause`.
pub fn until_quiet(control_plane: &ControlPlane, pause: Duration) -> Result<()> {
    let mut before = writes(control_plane)?;
    eventually("the operator has nothing left to write", || {
        sleep(pause);
        let now = writes(control_plane)?;
        Ok(std::mem::replace(&mut before, now) == now)
    })
}
