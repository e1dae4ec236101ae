//! `make demo`: shows a held upgrade and its fix, and checks every step.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::node_agent::{csi_proxy_answers, csi_proxy_process};
use testbed::objects;
use testbed::sandbox::{OperatorCommand, Sandbox};
use testbed::windows_host::WindowsHost;

use crate::{operator_binary, payload};

const DRIVER: &str = "disk.csi.azure.com";
const CSI_PROXY: &str = "k/csi-proxy.exe";
/// Slow enough that a kill interrupts the copy, fast enough to wait for.
const SLOW: u64 = 3_000_000;

struct Story {
    started: Instant,
    step: u32,
}

impl Story {
    fn tell(&mut self, what: &str) {
        self.step += 1;
        println!(
            "[{:>5.1} s] {}. {what}",
            self.started.elapsed().as_secs_f64(),
            self.step
        );
    }

    fn note(&self, what: &str) {
        println!(
            "[{:>5.1} s]    {what}",
            self.started.elapsed().as_secs_f64()
        );
    }
}

/// Runs the demo.
pub fn run() -> Result<()> {
    let mut story = Story {
        started: Instant::now(),
        step: 0,
    };
    let (binary, payload) = (operator_binary()?, payload()?);

    story.tell("start a real control plane with OLM and two Windows hosts; a pod on win-1 uses an in-tree Azure Disk volume");
    let sandbox = Sandbox::start()?;
    let _olm = sandbox.add_olm()?;
    let command = sandbox.operator(&binary, &payload)?;
    let log = sandbox.control_plane.dir().join("operator.log");
    let told = tell(&mut story, &sandbox, &command, (&log, &payload));
    if told.is_err() {
        eprintln!("== the operator's log\n{}", tail(&log));
    }
    told?;
    story.tell("done: every step was checked");
    Ok(())
}

fn tell(
    story: &mut Story,
    sandbox: &Sandbox,
    command: &OperatorCommand,
    (log, payload): (&Path, &Path),
) -> Result<()> {
    let win_1 = sandbox.add_windows_node("win-1")?;
    let _win_2 = sandbox.add_windows_node("win-2")?;
    sandbox.give_access()?;
    sandbox
        .control_plane
        .apply(&objects::azure_disk_workload("win-1"))?;
    let operator = command.start(Some(log), &[], true)?;
    nodes_become_ready(story, sandbox, &win_1)?;
    the_gate_holds_and_opens(story, sandbox)?;
    a_stopped_service_comes_back(story, &win_1)?;

    story.tell(
        "a third node joins over a slow line, and the operator is killed in the middle of the copy",
    );
    let win_3 = sandbox.add_windows_node("win-3")?;
    win_3.limit_rate(Some(SLOW));
    wait_until("csi-proxy is on its way to win-3", || {
        Ok(partial_bytes(&win_3)? > 1_000_000)
    })?;
    operator.kill()?;
    ensure!(
        !win_3.drive_c().join(CSI_PROXY).exists(),
        "half a csi-proxy.exe stands where a whole one belongs"
    );
    story.note(&format!(
        "killed with {} bytes on win-3, none of them in use",
        partial_bytes(&win_3)?
    ));
    win_3.limit_rate(None);

    story.tell("the operator starts again and brings the whole file; nothing half done is in use");
    let operator = command.start(Some(log), &[], true)?;
    nothing_is_half_done(story, sandbox, &win_3, payload)?;
    let status = operator.terminate()?;
    ensure!(
        status.success(),
        "the operator did not stop in order: {status}"
    );
    Ok(())
}

fn nodes_become_ready(story: &mut Story, sandbox: &Sandbox, win_1: &WindowsHost) -> Result<()> {
    story.tell("the operator brings csi-proxy to both nodes and verifies its named pipes");
    for node in ["win-1", "win-2"] {
        sandbox.wait_for(
            &format!("windowsnodestorage/{node}"),
            "condition=CSIProxyReady",
            120,
        )?;
        story.note(&format!("{node}: csi-proxy runs and answers on all pipes"));
    }
    csi_proxy_answers(win_1)?;
    story.note(
        "win-1: a call through csi-proxy's own client, as a driver would make it, is answered",
    );
    Ok(())
}

fn the_gate_holds_and_opens(story: &mut Story, sandbox: &Sandbox) -> Result<()> {
    story.tell("upgrades are held, and the message says why");
    sandbox.wait_for_gate("False", 120)?;
    expect_message(
        sandbox,
        &[
            "pod shop/web-0",
            "PersistentVolume pv-orders",
            DRIVER,
            "win-1, win-2",
        ],
    )?;
    story.note(&sandbox.gate_message()?);
    sandbox.wait_for(
        "windowsstorage/cluster",
        r#"jsonpath={.status.conditions[?(@.type=="OperatorConditionWritten")].reason}=Confirmed"#,
        30,
    )?;
    story.note("OLM has processed it");

    story.tell("the driver registers on win-1: still held, for win-2 alone");
    sandbox.register("win-1", &[DRIVER])?;
    sandbox.wait_for(
        "windowsnodestorage/win-1",
        "condition=DriversRegistered",
        30,
    )?;
    wait_until("the message names win-2 alone", || {
        Ok(sandbox.gate_message()?.ends_with("missing on win-2"))
    })?;
    sandbox.wait_for_gate("False", 120)?;
    story.note(&sandbox.gate_message()?);

    story.tell("it registers on win-2 as well: upgrades may go on");
    sandbox.register("win-2", &[DRIVER])?;
    sandbox.wait_for_gate("True", 120)?;
    story.note(&sandbox.gate_message()?);
    Ok(())
}

fn a_stopped_service_comes_back(story: &mut Story, win_1: &WindowsHost) -> Result<()> {
    story.tell("csi-proxy is stopped by hand on win-1: the agent starts it again");
    let before = csi_proxy_process(win_1)?;
    ensure!(before.is_some(), "csi-proxy does not run on win-1");
    // `net stop` may report that a pipe has ended. Only a new process counts as a restart.
    win_1.run("net stop csi-proxy")?;
    // The stopped process keeps its pipes for a moment, so the process ID is compared.
    wait_until("csi-proxy runs in a new process", || {
        let now = csi_proxy_process(win_1)?;
        Ok(now.is_some() && now != before)
    })?;
    wait_until("it answers", || Ok(csi_proxy_answers(win_1).is_ok()))?;
    story.note("win-1: csi-proxy is back in a new process and answers");
    Ok(())
}

fn nothing_is_half_done(
    story: &Story,
    sandbox: &Sandbox,
    win_3: &WindowsHost,
    payload: &Path,
) -> Result<()> {
    sandbox.wait_for("windowsnodestorage/win-3", "condition=CSIProxyReady", 120)?;
    ensure!(
        fs::read(win_3.drive_c().join(CSI_PROXY))? == fs::read(payload.join("csi-proxy.exe"))?,
        "win-3 has another csi-proxy.exe than the payload"
    );
    csi_proxy_answers(win_3)?;
    story.note("win-3: csi-proxy.exe is whole, and it answers; the agent removes the first copy when it is an hour old");
    sandbox.wait_for_gate("False", 120)?;
    expect_message(sandbox, &["missing on win-3"])?;
    story.note(&sandbox.gate_message()?);
    sandbox.register("win-3", &[DRIVER])?;
    // If upgrades are held when the operator starts, it waits for a minute: the blocker may only be away.
    sandbox.wait_for_gate("True", 120)?;
    println!(
        "\n{}",
        sandbox
            .control_plane
            .kubectl(&["get", "windowsnodestorages"])?
    );
    println!(
        "{}",
        sandbox.control_plane.kubectl(&["get", "windowsstorage"])?
    );
    Ok(())
}

fn expect_message(sandbox: &Sandbox, parts: &[&str]) -> Result<()> {
    wait_until(&format!("the message names {parts:?}"), || {
        let message = sandbox.gate_message()?;
        Ok(parts.iter().all(|part| message.contains(part)))
    })
}

/// Returns the total size of the copies of csi-proxy in the upload folder.
fn partial_bytes(host: &WindowsHost) -> Result<u64> {
    let folder = host.drive_c().join("k/windows-storage/incoming");
    let Ok(entries) = fs::read_dir(&folder) else {
        return Ok(0);
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry?;
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("csi-proxy-")
        {
            // The file may have been removed since it was listed.
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
    }
    Ok(bytes)
}

fn wait_until(what: &str, check: impl FnMut() -> Result<bool>) -> Result<()> {
    wait_for(Duration::from_secs(60), what, check)
}

fn wait_for(limit: Duration, what: &str, mut check: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        if check().with_context(|| format!("waiting until {what}"))? {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("waited {limit:?} without success until {what}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
