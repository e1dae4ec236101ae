//! Measures what the operator uses while one Windows node is in order and nothing changes.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use testbed::control_plane::ControlPlane;
use testbed::objects;
use testbed::sandbox::{OperatorCommand, install};
use testbed::simulated_host::SimulatedFleet;

use crate::figures::{count, megabytes};
use crate::process::{Sample, cpu_seconds};
use crate::report::{Row, rows};
use crate::requests::{until_quiet, writes};
use crate::{Options, operator_binary, payload};

const NODE: &str = "win-1";
/// Ten times as often as the default, so that a short measurement contains several checks.
const INTERVAL: Duration = Duration::from_secs(30);

/// Measures with one simulated host, which the operator sets up and then only checks.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let length = Duration::from_secs(if options.full { 600 } else { 90 });
    let control_plane = ControlPlane::start()?;
    install(&control_plane)?;
    let fleet = SimulatedFleet::new()?;
    let host = fleet.add_host(NODE)?;
    control_plane.apply(&objects::windows_node(NODE))?;
    control_plane.apply(&objects::csi_node(NODE, &["disk.csi.azure.com"]))?;
    control_plane.apply(&objects::azure_disk_workload(NODE))?;
    let status = objects::node_status(&host.address().to_string());
    let patch = [
        "patch",
        "node",
        NODE,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    control_plane.kubectl(&patch)?;
    control_plane.apply(&objects::ssh_secret(&fleet.private_key()?))?;
    let (port, user) = (fleet.port(), fleet.user());
    let seconds = INTERVAL.as_secs();
    control_plane.apply(&format!(
        "apiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsStorage\nmetadata: {{name: cluster}}\nspec: {{probeIntervalSeconds: {seconds}, ssh: {{user: {user}, port: {port}}}}}\n"
    ))?;
    let command = OperatorCommand::new(&control_plane, &operator_binary()?, &payload()?)?;
    let log = control_plane.dir().join("operator.log");
    let operator = command.start(Some(&log), &[], true)?;
    for condition in ["--for=create", "--for=condition=Ready"] {
        let object = format!("windowsnodestorage/{NODE}");
        control_plane.kubectl(&["wait", &object, condition, "--timeout=120s"])?;
    }
    // The set-up is over when nothing was written for longer than the interval between two checks of the node.
    until_quiet(&control_plane, INTERVAL + Duration::from_secs(5))?;
    let before = writes(&control_plane)?;
    let cpu = cpu_seconds(operator.id())?;
    let (connections, logins) = (host.counters().connections, host.counters().logins);
    sleep(length);
    let cpu = cpu_seconds(operator.id())? - cpu;
    let connected_times = host.counters().connections - connections;
    let logged_in = host.counters().logins - logins;
    ensure!(
        logged_in == connected_times,
        "some connections were not let in"
    );
    let written = writes(&control_plane)? - before;
    let memory = Sample::take(operator.id())?;
    operator.kill()?;
    // Whether the first check falls into the measurement is chance, and a check itself takes a moment.
    let (length, interval) = (length.as_secs(), INTERVAL.as_secs());
    let expected = length / interval + 1;
    let connected = format!("connections to the host in {length} s, one every {interval} s wanted");
    Ok(rows! {
        "anonymous" => megabytes(memory.anonymous), "MB", at_most 10.0;
        "resident" => megabytes(memory.resident), "MB";
        "share of a core" => cpu / count(length) * 100.0, "%", at_most 0.5;
        format!("writes but of the lease in {length} s") => count(written), "", at_most 0.0;
        connected => count(connected_times), "", at_most count(expected);
    })
}
