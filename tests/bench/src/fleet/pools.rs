//! 2,000 hosts in ten pools, half of which have dead hosts: installed, then updated, each pool with its own limit.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::objects;
use testbed::sandbox::Sandbox;
use testbed::simulated_host::{SimulatedFleet, SimulatedHost};

use super::cluster::add_nodes;
use super::statuses::Statuses;
use super::{AGENT_SIZE, CSI_PROXY_SIZE, ONE_WAY, PATIENCE, Run, kill};
use crate::figures::{count, megabytes, quantile};
use crate::process::{Sample, Sampler, last_lines};
use crate::report::{Row, rows};
use crate::{Options, operator_binary, small_payload};

const HOSTS: usize = 2_000;
const POOLS: usize = 10;
/// In every second pool, one host in this many is dead: 5 % of all hosts.
const DEAD_OF: usize = 10;
/// Nodes of a pool that may be without csi-proxy at a time.
const AT_ONE_TIME: usize = 4;
const POLL: Duration = Duration::from_millis(500);

/// Returns the name of a pool.
fn pool(number: usize) -> String {
    format!("pool-{number}")
}

/// Returns whether host `number` is dead. It is in pool `number % POOLS`.
fn is_dead(number: usize) -> bool {
    number.is_multiple_of(2) && (number / POOLS).is_multiple_of(DEAD_OF)
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
    control_plane.apply(&settings.to_string()).map(drop)
}

/// Measures the installation and the rollout.
pub fn measure(_: Options) -> Result<Vec<Row>> {
    let sandbox = Sandbox::start()?;
    let control_plane = &sandbox.control_plane;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let fleet = SimulatedFleet::new()?;
    let programs = small_payload(control_plane.dir(), CSI_PROXY_SIZE, AGENT_SIZE)?;
    control_plane.apply(&objects::ssh_secret(&fleet.private_key()?))?;
    want(control_plane, &fleet, None)?;
    let hosts = (0..HOSTS).map(|number| -> Result<SimulatedHost> {
        let host = fleet.add_host(&format!("win-{number:04}"))?;
        host.set_faults(|faults| faults.distance = ONE_WAY);
        Ok(host)
    });
    let hosts = hosts.collect::<Result<Vec<_>>>()?;
    let (dead, live): (Vec<_>, Vec<_>) = hosts
        .iter()
        .enumerate()
        .partition(|(number, _)| is_dead(*number));
    let dead: Vec<&SimulatedHost> = dead.into_iter().map(|(_, host)| host).collect();
    let live: Vec<&SimulatedHost> = live.into_iter().map(|(_, host)| host).collect();
    let _lost = kill(&dead, &runtime)?;
    add_nodes(control_plane, &hosts)?;
    for number in 0..POOLS {
        let of_pool = hosts.iter().skip(number).step_by(POOLS);
        let label = format!("pool={}", pool(number));
        let mut arguments = vec!["label", "node"];
        arguments.extend(of_pool.map(SimulatedHost::name));
        arguments.push(&label);
        control_plane.kubectl(&arguments)?;
    }

    let log = control_plane.dir().join("operator.log");
    let statuses = Statuses::follow(control_plane, &live)?;
    let started = Instant::now();
    let operator = sandbox.operator(&operator_binary()?, &programs)?;
    let running = operator.start(Some(&log), &[], true)?;
    let installed = Run::until_all_are_ready(&running, &live, &statuses, started)
        .with_context(|| last_lines(&log))?;

    let memory = Sampler::start(running.id(), POLL);
    let begun = Instant::now();
    want(control_plane, &fleet, Some("-v=3"))?;
    let done = follow(control_plane, begun).with_context(|| last_lines(&log))?;
    let samples = memory.finish()?;
    let most = fleet.gauges().connections.most();
    drop(running);
    Ok(rows(live.len(), &installed, &done, &samples, most))
}

/// Returns how long each pool took until all of its live hosts were updated.
fn follow(control_plane: &ControlPlane, begun: Instant) -> Result<BTreeMap<usize, f64>> {
    let live = |pool: usize| {
        (0..HOSTS / POOLS)
            .filter(|number| !is_dead(number * POOLS + pool))
            .count()
    };
    let mut done = BTreeMap::new();
    let mut revision = None;
    while done.len() < POOLS {
        let status = control_plane.kubectl(&[
            "get",
            "windowsstorage",
            "cluster",
            "-o",
            "jsonpath={.status.rollout}",
        ])?;
        let status: Value = serde_json::from_str(&status)?;
        let last = status["history"].as_array().and_then(|all| all.last());
        let last = last.map(|last| last["revision"].clone());
        // Ignores what the status said before the operator noticed the new flag.
        let first = revision.get_or_insert_with(|| last.clone());
        if *first != last {
            for number in 0..POOLS {
                let pools = status["pools"].as_array().into_iter().flatten();
                let of_pool = pools.filter(|it| it["name"] == pool(number).as_str());
                let updated = of_pool
                    .filter_map(|it| it["updatedNodes"].as_u64())
                    .sum::<u64>();
                if usize::try_from(updated)? == live(number) {
                    done.entry(number)
                        .or_insert_with(|| begun.elapsed().as_secs_f64());
                }
            }
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "only {done:?} are updated: {status}"
        );
        thread::sleep(POLL);
    }
    Ok(done)
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts and sizes are far below 2⁵²"
)]
fn rows(
    live: usize,
    installed: &Run,
    done: &BTreeMap<usize, f64>,
    samples: &[Sample],
    connections: usize,
) -> Vec<Row> {
    let slowest = |of_dead: bool| {
        let of = done.iter().filter(|(pool, _)| (*pool % 2 == 0) == of_dead);
        let times: Vec<f64> = of.map(|(_, seconds)| *seconds).collect();
        quantile(&times, 1.0)
    };
    let at = |part: usize| samples.get((samples.len() - 1) * part / 2);
    let [middle, end] = [1, 2].map(|part| at(part).map_or(0.0, |it| megabytes(it.anonymous)));
    let peak = samples
        .iter()
        .map(|it| it.anonymous)
        .max()
        .unwrap_or_default();
    rows! {
        format!("{HOSTS} hosts in {POOLS} pools, 25 ms: start to {live} live hosts ready in the API") => installed.written.as_secs_f64(), "s";
        "rollout to the last pool without a dead host" => slowest(false), "s";
        "rollout to the last pool with dead hosts" => slowest(true), "s";
        "the former beside the latter" => slowest(false) / slowest(true), "×", at_most 1.2;
        "SSH connections at one time, at most" => connections as f64, "", at_most 128.0;
        "the operator's sockets and files, at most" => count(samples.iter().map(|it| it.files).max().unwrap_or_default()), "";
        "anonymous memory at its peak, in the rollout" => megabytes(peak), "MB", at_most 100.0;
        "memory at the end beside the middle" => end / middle, "×", at_most 1.1;
    }
}
