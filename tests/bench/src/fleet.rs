//! Measures a fleet of fresh, distant Windows hosts, some of them dead: how close the operator comes to the total work
//! divided by its concurrency, and what it uses meanwhile.
//!
//! The API server is real; the hosts are [`testbed::simulated_host`]: real SSH, with a simulated agent that only
//! reports what the real one would. They run in this process, on the same cores as the operator, and every byte to or
//! from them is delayed by half a round trip. Unless measured in full, their programs are a few hundred kilobytes of
//! noise: with the real ones, the measurement would show little but the two ends of SSH sharing one machine.

mod cluster;
pub mod pools;
mod statuses;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::control_plane::{ControlPlane, Request};
use testbed::objects;
use testbed::sandbox::{Operator, Sandbox};
use testbed::simulated_host::{Greeting, LostLine, SimulatedFleet, SimulatedHost};

use crate::figures::{count, median, megabytes};
use crate::process::{Sample, cpu_seconds, last_lines, machine_cpu_seconds};
use crate::report::{Row, rows};
use crate::{Options, operator_binary, payload, small_payload};
use statuses::Statuses;

const HOSTS: usize = 500;
/// One host in this many is dead: 5 %.
const DEAD_OF: usize = 20;
/// Nodes that the operator works on at a time: its `CONCURRENT_WORK`.
const AT_WORK: f64 = 32.0;
const ONE_WAY: Duration = Duration::from_micros(12_500);
/// Hosts that are measured one at a time, before the others are added.
const ALONE: usize = 5;
/// How often progress is checked, and so the resolution of the figure.
const TICK: Duration = Duration::from_millis(50);
/// In bytes. With programs this small, the work on a host is mostly waiting, as on a real one.
const CSI_PROXY_SIZE: usize = 512 * 1024;
const AGENT_SIZE: usize = 128 * 1024;
/// Longer than any step takes; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(1200);
const CSI_PROXY: &str = "csi-proxy";

/// Measures 500 hosts with a round trip of 25 ms, 5 % of them dead.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let sandbox = Sandbox::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let fleet = SimulatedFleet::new()?;
    let programs = if options.full {
        payload()?
    } else {
        small_payload(sandbox.control_plane.dir(), CSI_PROXY_SIZE, AGENT_SIZE)?
    };
    sandbox
        .control_plane
        .apply(&objects::ssh_secret(&fleet.private_key()?))?;
    cluster::want(&sandbox.control_plane, &fleet)?;
    let operator = sandbox.operator(&operator_binary()?, &programs)?;
    let log = sandbox.control_plane.dir().join("operator.log");
    let host = |number: usize| -> Result<SimulatedHost> {
        let host = fleet.add_host(&format!("win-{number:03}"))?;
        host.set_faults(|faults| faults.distance = ONE_WAY);
        Ok(host)
    };

    let running = operator.start(Some(&log), &[], true)?;
    let mut alone = Vec::new();
    for number in 0..ALONE {
        let single = host(HOSTS + number)?;
        alone.push(Alone::measure(&sandbox.control_plane, &running, &single)?);
        // Deleting the Node also removes its host from the work.
        sandbox
            .control_plane
            .kubectl(&["delete", "node", single.name()])?;
    }
    let alone = Alone::median(&alone);
    running.terminate()?;

    let hosts = (0..HOSTS).map(host).collect::<Result<Vec<_>>>()?;
    let (dead, live): (Vec<_>, Vec<_>) = hosts
        .iter()
        .enumerate()
        .partition(|(number, _)| number % DEAD_OF == DEAD_OF / 2);
    let dead: Vec<&SimulatedHost> = dead.into_iter().map(|(_, host)| host).collect();
    let live: Vec<&SimulatedHost> = live.into_iter().map(|(_, host)| host).collect();
    let _lost = kill(&dead, &runtime)?;
    cluster::add_nodes(&sandbox.control_plane, &hosts)?;
    for gauge in [&fleet.gauges().connections, &fleet.gauges().logins] {
        gauge.forget_most();
    }
    let before = sandbox
        .control_plane
        .requests_of(objects::NAMESPACE, cluster::ACCOUNT)?;
    let statuses = Statuses::follow(&sandbox.control_plane, &live)?;
    let started = Instant::now();
    let running = operator.start(Some(&log), &[], true)?;
    let run = Run::until_all_are_ready(&running, &live, &statuses, started)
        .with_context(|| last_lines(&log))?;
    let requests = sandbox
        .control_plane
        .requests_of(objects::NAMESPACE, cluster::ACCOUNT)?;
    let most = (
        fleet.gauges().connections.most(),
        fleet.gauges().logins.most(),
    );
    drop(running);
    Ok(rows(
        &alone,
        &run,
        live.len(),
        most,
        &requests[before.len()..],
    ))
}

/// Makes a third of the hosts refuse connections, a third accept them and stay silent, and the rest never answer.
fn kill(dead: &[&SimulatedHost], runtime: &tokio::runtime::Runtime) -> Result<Vec<LostLine>> {
    let mut lost = Vec::new();
    for (number, host) in dead.iter().enumerate() {
        match number % 3 {
            0 => runtime.block_on(host.power_off())?,
            1 => host.set_faults(|faults| faults.greeting = Greeting::Silent),
            _ => lost.push(runtime.block_on(host.lose_line())?),
        }
    }
    Ok(lost)
}

/// What one fresh host takes when it has the machine to itself.
struct Alone {
    /// From the connection to its end, in seconds.
    whole: f64,
    /// From the login to the end of the connection, in seconds: the part that the operator's concurrency limit covers.
    work: f64,
    /// CPU seconds of the operator and the host together.
    cpu: f64,
}

impl Alone {
    fn measure(
        control_plane: &ControlPlane,
        operator: &Operator,
        host: &SimulatedHost,
    ) -> Result<Self> {
        let cpu = || -> Result<f64> {
            Ok(cpu_seconds(operator.id())? + cpu_seconds(std::process::id())?)
        };
        let before = cpu()?;
        cluster::add_nodes(control_plane, std::slice::from_ref(host))?;
        let reached = |holds: &dyn Fn() -> bool| -> Result<Instant> {
            let started = Instant::now();
            while !holds() {
                ensure!(
                    started.elapsed() < PATIENCE,
                    "{} is at {:?}",
                    host.name(),
                    host.counters()
                );
                thread::sleep(Duration::from_millis(1));
            }
            Ok(Instant::now())
        };
        let connected = reached(&|| host.counters().connections > 0)?;
        let logged_in = reached(&|| host.counters().logins > 0)?;
        let ended = reached(&|| {
            host.command_of(CSI_PROXY).is_some() && host.counters().connections_now == 0
        })?;
        Ok(Self {
            whole: (ended - connected).as_secs_f64(),
            work: (ended - logged_in).as_secs_f64(),
            cpu: cpu()? - before,
        })
    }

    /// Returns the median of each figure.
    fn median(all: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(&all.iter().map(figure).collect::<Vec<_>>());
        Self {
            whole: of(|alone| alone.whole),
            work: of(|alone| alone.work),
            cpu: of(|alone| alone.cpu),
        }
    }
}

/// What was observed from the operator's start until the API reports all live hosts as ready.
struct Run {
    /// When the last host had everything installed.
    ready: Duration,
    /// When the last status reported it.
    written: Duration,
    samples: Vec<Sample>,
    /// CPU seconds until then.
    operator_cpu: f64,
    hosts_cpu: f64,
    machine_cpu: f64,
}

impl Run {
    fn until_all_are_ready(
        operator: &Operator,
        live: &[&SimulatedHost],
        statuses: &Statuses,
        started: Instant,
    ) -> Result<Self> {
        let own = cpu_seconds(std::process::id())?;
        let machine = machine_cpu_seconds()?;
        let mut samples = Vec::new();
        let mut waiting: Vec<&SimulatedHost> = live.to_vec();
        let mut ready = None;
        loop {
            samples.push(Sample::take(operator.id())?);
            waiting.retain(|host| host.command_of(CSI_PROXY).is_none());
            if waiting.is_empty() {
                ready.get_or_insert_with(|| started.elapsed());
            }
            if let (Some(ready), Some(all)) = (ready, statuses.all_at()) {
                return Ok(Self {
                    ready,
                    written: all.duration_since(started),
                    operator_cpu: cpu_seconds(operator.id())?,
                    hosts_cpu: cpu_seconds(std::process::id())? - own,
                    machine_cpu: machine_cpu_seconds()? - machine,
                    samples,
                });
            }
            ensure!(
                started.elapsed() < PATIENCE,
                "{} of {} hosts are not ready, {} statuses are not written",
                waiting.len(),
                live.len(),
                statuses.missing()
            );
            thread::sleep(TICK);
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts and sizes are far below 2⁵²"
)]
fn rows(
    alone: &Alone,
    run: &Run,
    live: usize,
    (connections, logins): (usize, usize),
    requests: &[Request],
) -> Vec<Row> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let waiting = alone.work * live as f64 / AT_WORK;
    let computing = run.machine_cpu / cores;
    let (ready, written) = (run.ready.as_secs_f64(), run.written.as_secs_f64());
    let times = |what: &dyn Fn(&&Request) -> bool| requests.iter().filter(what).count() as f64;
    let writes = |resource: &'static str| {
        times(&move |request| {
            request.resource == resource && ["create", "patch"].contains(&&*request.verb)
        })
    };
    let at = |part: usize| run.samples.get((run.samples.len() - 1) * part / 2);
    let [start, middle, end] =
        [0, 1, 2].map(|part| at(part).map_or(0.0, |sample| megabytes(sample.anonymous)));
    let most = |of: &dyn Fn(&Sample) -> u64| run.samples.iter().map(of).max().unwrap_or_default();
    let others = run.machine_cpu - run.operator_cpu - run.hosts_cpu;
    rows! {
        "one host alone, from the connection to its end" => alone.whole, "s";
        "one host alone, logged in" => alone.work, "s";
        "one host alone, cores of both ends" => alone.cpu, "s";
        format!("ideal, waiting: {live} × logged in / {AT_WORK}, those that are worked on at one time") => waiting, "s";
        "ideal, computing: all that this machine computed meanwhile / cores" => computing, "s";
        format!("start to {live} live hosts ready") => ready, "s";
        "start to their statuses in the API" => written, "s";
        "that as a multiple of the larger ideal" => written / waiting.max(computing), "×", at_most 1.5;
        "that as a multiple of waiting alone, whatever is computed" => written / waiting, "×";
        "the operator's time on cores" => run.operator_cpu, "s";
        "the hosts' time on cores" => run.hosts_cpu, "s";
        "everything else on this machine, the API server first" => others, "s";
        "cores busy meanwhile" => run.machine_cpu / (written * cores) * 100.0, "%";
        "hosts at work at one time, at most" => logins as f64, "";
        "SSH connections at one time, at most" => connections as f64, "", at_most 128.0;
        "the operator's sockets and files, at most" => count(most(&|sample| sample.files)), "";
        "the operator's threads, at most" => count(most(&|sample| sample.threads)), "";
        "anonymous memory at the start" => start, "MB";
        "anonymous memory in the middle" => middle, "MB";
        "anonymous memory at its peak" => megabytes(most(&|sample| sample.anonymous)), "MB";
        "anonymous memory at the end" => end, "MB";
        "memory at the end beside the middle" => end / middle, "×", at_most 1.1;
        "writes of host keys" => writes("configmaps"), "";
        "writes of node statuses" => writes("windowsnodestorages/status"), "";
        "events" => writes("events"), "";
        "writes that met a conflict" => times(&|request| request.code == 409), "";
    }
}
