//! Checks csi-proxy on a Windows host as a driver and the operator's agent would.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::parts::part;
use crate::windows_host::WindowsHost;

/// Longer than the client waits for an answer.
const CLIENT_LIMIT: Duration = Duration::from_secs(20);

/// Asks csi-proxy through its pipe, with its own Go client, whether a path exists, as a driver does.
fn path_exists(host: &WindowsHost, path: &str) -> Result<bool> {
    let client = host.drive_c().join("csi-client.exe");
    if !client.exists() {
        fs::copy(part("csi-client")?, &client)?;
    }
    let command = format!(r"C:\csi-client.exe path-exists {path}");
    // Under Wine, a Go program occasionally hangs. csi-proxy is not the cause: the client itself times out a call after
    // 10 s and reports an error.
    let mut outcome = host.run_within(&command, CLIENT_LIMIT);
    for _ in 0..2 {
        if outcome.is_ok() {
            break;
        }
        outcome = host.run_within(&command, CLIENT_LIMIT);
    }
    let output = outcome?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    match (output.status.success(), stdout.trim()) {
        (true, "true") => Ok(true),
        (true, "false") => Ok(false),
        _ => bail!(
            "csi-proxy on {}: {} {stdout} {}",
            host.name(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// Checks that csi-proxy distinguishes an existing folder from a missing one. Both are in the kubelet's folder, the
/// only one that drivers may access.
pub fn csi_proxy_answers(host: &WindowsHost) -> Result<()> {
    fs::create_dir_all(host.drive_c().join("var/lib/kubelet/there"))?;
    ensure!(
        path_exists(host, r"C:\var\lib\kubelet\there")?,
        "csi-proxy does not see what is there"
    );
    ensure!(
        !path_exists(host, r"C:\var\lib\kubelet\nothing")?,
        "csi-proxy sees what is not there"
    );
    Ok(())
}

/// Returns the process ID of the service csi-proxy if the service manager reports it as running.
pub fn csi_proxy_process(host: &WindowsHost) -> Result<Option<u64>> {
    let output = host.run(r"C:\k\windows-storage-agent.exe status")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let line = stdout.lines().last().context("the agent printed nothing")?;
    let status: Value =
        serde_json::from_str(line).with_context(|| format!("the agent said {line:?}"))?;
    // The agent of the version before lists services.
    let services = status["services"].as_array().into_iter().flatten();
    let services = services.filter(|service| service["name"] == "csi-proxy");
    let mut running = services
        .chain([&status["csiProxy"]])
        .filter(|service| service["state"] == "Running");
    Ok(running.find_map(|service| service["processId"].as_u64()))
}
