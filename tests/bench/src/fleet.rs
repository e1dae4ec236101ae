//! Measures a fleet of fresh, distant Windows hosts in ten pools, half of which have dead hosts: installed, then updated,
//! each pool with its own limit.
//!
//! The API server is real; the hosts are [`simulated_host`]: real SSH, with a simulated agent that only
//! reports what the real one would. They run in this process, on the same cores as the operator, and every byte to or
//! from them is delayed by half a round trip. Their programs are a few hundred kilobytes of noise: with the real ones, the
//! measurement would show little but the two ends of SSH sharing one machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use simulated_host::{Greeting, LostLine, SimulatedFleet, SimulatedHost};
use testbed::control_plane::ControlPlane;
use testbed::objects;
use testbed::sandbox::Sandbox;

use crate::report::{Row, rows};
use crate::{operator_binary, small_payload};

const HOSTS: usize = 2_000;
const POOLS: usize = 10;
/// In every second pool, one host in this many is dead: 5 % of all hosts.
const DEAD_OF: usize = 10;
/// Nodes of a pool that may be without csi-proxy at a time.
const AT_ONE_TIME: usize = 4;
const ONE_WAY: Duration = Duration::from_micros(12_500);
/// In bytes. With programs this small, the work on a host is mostly waiting, as on a real one.
const CSI_PROXY_SIZE: usize = 512 * 1024;
const AGENT_SIZE: usize = 128 * 1024;
/// Longer than any step takes; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(1200);
/// How often progress is checked, and so the resolution of the figures.
const POLL: Duration = Duration::from_millis(500);

/// Returns whether host `number` is dead. It is in pool `number % POOLS`.
fn is_dead(number: usize) -> bool {
    number.is_multiple_of(2) && (number / POOLS).is_multiple_of(DEAD_OF)
}

fn pool(number: usize) -> String {
    format!("pool-{number}")
}

/// Measures hosts with a round trip of 25 ms.
pub fn measure() -> Result<Vec<Row>> {
    let sandbox = Sandbox::start()?;
    let control_plane = &sandbox.control_plane;
    let fleet = SimulatedFleet::new()?;
    control_plane.apply(&objects::ssh_secret(&fleet.private_key()?))?;
    want(control_plane, &fleet, None)?;
    let hosts = (0..HOSTS).map(|number| -> Result<SimulatedHost> {
        let host = fleet.add_host(&format!("win-{number:04}"))?;
        host.set_faults(|faults| faults.distance = ONE_WAY);
        add_node(control_plane, &host, number)?;
        Ok(host)
    });
    let hosts = hosts.collect::<Result<Vec<_>>>()?;
    let _lost = kill(&hosts)?;
    let live = (0..hosts.len()).filter(|number| !is_dead(*number)).count();

    let programs = small_payload(control_plane.dir(), CSI_PROXY_SIZE, AGENT_SIZE)?;
    let log = control_plane.dir().join("operator.log");
    let operator = sandbox.operator(&operator_binary()?, &programs)?;
    let started = Instant::now();
    let _running = operator.start(Some(&log), &[], true)?;
    until_all_are_ready(control_plane, live).with_context(|| last_lines(&log))?;
    let installed = started.elapsed().as_secs_f64();

    let begun = Instant::now();
    want(control_plane, &fleet, Some("-v=3"))?;
    let done = follow(control_plane, &hosts, begun).with_context(|| last_lines(&log))?;
    let slowest = |of_dead: bool| {
        let of = done.iter().filter(|(pool, _)| (*pool % 2 == 0) == of_dead);
        of.map(|(_, seconds)| *seconds).fold(0.0, f64::max)
    };
    Ok(rows! {
        format!("start to {live} live hosts of {} ready in the API", hosts.len()) => installed, "s";
        "rollout to the last pool without a dead host" => slowest(false), "s";
        "rollout to the last pool with dead hosts" => slowest(true), "s";
    })
}

/// Applies the settings. The rollout is of a new csi-proxy flag, so the operator itself keeps running unchanged.
fn want(control_plane: &ControlPlane, fleet: &SimulatedFleet, flag: Option<&str>) -> Result<()> {
    let pools = (0..POOLS).map(|number| {
        json!({
            "name": pool(number),
            "nodeSelector": {"pool": pool(number)},
            "rollout": {"maxUnavailable": AT_ONE_TIME},
        })
    });
    let settings = json!({
        "apiVersion": "windowsstorage.dev/v1alpha1",
        "kind": "WindowsStorage",
        "metadata": {"name": "cluster"},
        "spec": {
            "ssh": {"user": fleet.user(), "port": fleet.port()},
            "csiProxy": {"extraArgs": flag.into_iter().collect::<Vec<_>>()},
            "nodePools": pools.collect::<Vec<_>>(),
        },
    });
    control_plane.apply(&settings.to_string())
}

/// Adds a host's Node in its pool, with its address, and its CSINode.
fn add_node(control_plane: &ControlPlane, host: &SimulatedHost, number: usize) -> Result<()> {
    let name = host.name();
    control_plane.apply(&objects::windows_node(name))?;
    control_plane.apply(&objects::csi_node(name, &[]))?;
    let path = format!("/api/v1/nodes/{name}");
    let label = json!({"metadata": {"labels": {"pool": pool(number % POOLS)}}});
    control_plane.patch(&path, &label)?;
    let status = serde_json::from_str(&objects::node_status(&host.address().to_string()))?;
    control_plane.patch(&format!("{path}/status"), &status)?;
    Ok(())
}

/// Makes a third of the dead hosts refuse connections, a third accept them and stay silent, and the rest never answer.
fn kill(hosts: &[SimulatedHost]) -> Result<Vec<LostLine>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let dead = hosts
        .iter()
        .enumerate()
        .filter(|(number, _)| is_dead(*number));
    let mut lost = Vec::new();
    for (number, (_, host)) in dead.enumerate() {
        match number % 3 {
            0 => runtime.block_on(host.power_off())?,
            1 => host.set_faults(|faults| faults.greeting = Greeting::Silent),
            _ => lost.push(runtime.block_on(host.lose_line())?),
        }
    }
    Ok(lost)
}

/// Waits until the API reports csi-proxy as ready on so many nodes.
fn until_all_are_ready(control_plane: &ControlPlane, live: usize) -> Result<()> {
    let started = Instant::now();
    loop {
        let statuses = "/apis/windowsstorage.dev/v1alpha1/windowsnodestorages";
        let statuses = control_plane.read(statuses)?.unwrap_or_default();
        let conditions = statuses["items"].as_array().into_iter().flatten();
        let conditions = conditions.filter_map(|item| item["status"]["conditions"].as_array());
        let is_ready = |it: &&Value| it["type"] == "CSIProxyReady" && it["status"] == "True";
        let ready = conditions.flatten().filter(is_ready).count();
        if ready == live {
            return Ok(());
        }
        let is_late = started.elapsed() > PATIENCE;
        ensure!(!is_late, "{ready} of {live} hosts are ready");
        sleep(POLL);
    }
}

/// Returns how long each pool took until all of its live hosts were updated.
fn follow(
    control_plane: &ControlPlane,
    hosts: &[SimulatedHost],
    begun: Instant,
) -> Result<BTreeMap<usize, f64>> {
    let live = |pool: usize| {
        let of_pool = (pool..hosts.len()).step_by(POOLS);
        of_pool.filter(|number| !is_dead(*number)).count()
    };
    let mut done = BTreeMap::new();
    while done.len() < POOLS {
        let path = "/apis/windowsstorage.dev/v1alpha1/windowsstorages/cluster";
        let settings = control_plane.read(path)?.unwrap_or_default();
        let status = &settings["status"]["rollout"];
        let conditions = settings["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let said = conditions.find(|it| it["type"] == "RolloutProgressing");
        let generation = &settings["metadata"]["generation"];
        // Ignores what the status said before the operator noticed the new flag.
        if said.is_some_and(|said| said["observedGeneration"] == *generation) {
            for number in 0..POOLS {
                let pools = status["pools"].as_array().into_iter().flatten();
                let of_pool = pools.filter(|it| it["name"] == pool(number).as_str());
                let updated = of_pool.filter_map(|it| it["updatedNodes"].as_u64());
                if updated.sum::<u64>() == live(number) as u64 {
                    done.entry(number)
                        .or_insert_with(|| begun.elapsed().as_secs_f64());
                }
            }
        }
        let is_late = begun.elapsed() > PATIENCE;
        ensure!(!is_late, "only {done:?} are updated: {status}");
        sleep(POLL);
    }
    Ok(done)
}

/// Returns the last lines of a log.
fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(30)..];
    format!("the log ends with:\n{}", last.join("\n"))
}
