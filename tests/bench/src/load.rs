//! Measures the operator on a large cluster: its memory, the time to its first verdict, what it uses at rest, and how soon
//! it opens the gate while pods change. For comparison, it also measures the API server's own share of that: a write until
//! a watch shows it, a read, and a write until a watch shows that.

mod churn;

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::objects::NAMESPACE;
use testbed::sandbox::{Operator, OperatorCommand};
use tokio::task::block_in_place;

use crate::cluster::{self, DRIVER, HUGE, LARGE, Os, Size};
use crate::figures::{count, megabytes, milliseconds, quantile};
use crate::gate::{GateWatch, Watch};
use crate::process::{Sample, Sampler, cpu_seconds, eventually};
use crate::report::{Row, rows};
use crate::{Options, operator_binary, payload};
use churn::Churn;

/// Pod changes per second.
const CHURN: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(300);
/// A process that has written nothing for this long has finished its initial work.
const QUIET: Duration = Duration::from_secs(2);
/// After this long without an event, a watch's data is stale, and the operator has to check that the watch is alive.
const SILENT: Duration = Duration::from_secs(6);
/// Short enough to catch a peak as brief as decoding one page of a list.
const INTERVAL: Duration = Duration::from_millis(20);
/// Collection of the objects with which the API server's own time is measured.
const ORDINARY: &str = "/api/v1/namespaces/default/configmaps";

/// Measures a large cluster. The gate is opened as often as half an hour allows if measured in full.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let openings = if options.full { 200 } else { 12 };
    on(&LARGE, openings, [30.0, 60.0], options)
}

/// Measures a cluster larger than most.
pub fn measure_huge(options: Options) -> Result<Vec<Row>> {
    on(&HUGE, 12, [100.0, 100.0], options)
}

fn on(size: &Size, openings: usize, bars: [f64; 2], options: Options) -> Result<Vec<Row>> {
    let rest = Duration::from_secs(if options.full { 240 } else { 60 });
    let control_plane = cluster::start(size)?;
    // This operator writes the status of every node, so that the next one finds them up to date.
    let operator = start_operator(&control_plane)?;
    let sampler = Sampler::start(operator.id(), INTERVAL);
    until_settled(&control_plane, size.windows.nodes)?;
    sleep(rest);
    let memory = Memory::of(&sampler.finish()?);
    operator.kill()?;
    let mut rows = rows! {
        "anonymous, steady" => memory.steady, "MB", at_most bars[0];
        "anonymous, peak" => memory.peak, "MB", at_most bars[1];
        "resident, steady" => memory.resident, "MB";
    };
    cluster::runtime()?.block_on(async {
        let client = cluster::client(control_plane.kubeconfig()).await?;
        let mut bed = Bed::new(client, size).await?;
        let started = Instant::now();
        let operator = start_operator(&control_plane)?;
        let held = bed
            .gate
            .until(PATIENCE, |gate| gate["reason"] == "DriversMissing");
        let verdict = (held.await? - started).as_secs_f64();
        block_in_place(|| until_quiet(&control_plane, QUIET))?;
        rows.extend(rows! { "process start to the first correct OperatorCondition" => verdict, "s"; });
        rows.extend(block_in_place(|| at_rest(&control_plane, &operator, rest))?);

        let before = Sample::take(operator.id())?.anonymous;
        let churn = Churn::start(&bed.client, CHURN).await?;
        churn.reach(CHURN).await?;
        let mut times = Times::default();
        for _ in 0..openings {
            bed.open_and_close(&mut times).await?;
        }
        let changes = churn.rate()?;
        let after = Sample::take(operator.id())?.anonymous;
        operator.kill()?;
        rows.extend(rows! {
            "pod changes" => changes, "/s";
            "memory after them beside that before" => count(after) / count(before), "×", at_most 1.1;
        });
        rows.extend(times.rows());
        Ok(rows)
    })
}

/// Memory in 10⁶ bytes. Anonymous memory counts: whether file pages stay resident is up to the kernel.
struct Memory {
    steady: f64,
    peak: f64,
    resident: f64,
}

impl Memory {
    /// The steady value is the median of the last third, so that memory that is returned late counts as returned.
    fn of(samples: &[Sample]) -> Self {
        let of = |field: fn(&Sample) -> u64| -> Vec<f64> {
            samples.iter().map(|it| megabytes(field(it))).collect()
        };
        let last = samples.len() * 2 / 3;
        let (anonymous, resident) = (of(|it| it.anonymous), of(|it| it.resident));
        Self {
            steady: quantile(&anonymous[last..], 0.5),
            peak: quantile(&anonymous, 1.0),
            resident: quantile(&resident[last..], 0.5),
        }
    }
}

/// Measures what the operator uses while nothing changes.
fn at_rest(
    control_plane: &ControlPlane,
    operator: &Operator,
    length: Duration,
) -> Result<Vec<Row>> {
    let (wrote, cpu) = (writes(control_plane)?, cpu_seconds(operator.id())?);
    sleep(length);
    let cpu = cpu_seconds(operator.id())? - cpu;
    let wrote = writes(control_plane)? - wrote;
    Ok(rows! {
        "at rest: share of a core" => cpu / length.as_secs_f64() * 100.0, "%", at_most 0.5;
        "at rest: writes but of the lease" => count(wrote), "", at_most 0.0;
    })
}

fn start_operator(control_plane: &ControlPlane) -> Result<Operator> {
    let command = OperatorCommand::new(control_plane, &operator_binary()?, &payload()?)?;
    let log = control_plane.dir().join("operator.log");
    command.start(Some(&log), &[], true)
}

/// Starts the operator and waits until it has written everything it has to report about the cluster.
pub fn settled_operator(control_plane: &ControlPlane, windows_nodes: usize) -> Result<Operator> {
    let operator = start_operator(control_plane)?;
    until_settled(control_plane, windows_nodes)?;
    Ok(operator)
}

fn until_settled(control_plane: &ControlPlane, windows_nodes: usize) -> Result<()> {
    eventually("every Windows node has its status", || {
        let written = control_plane.kubectl(&[
            "get",
            "windowsnodestorages",
            "-o",
            r#"jsonpath={range .items[?(@.status.conditions)]}{"x"}{end}"#,
        ])?;
        Ok(written.len() >= windows_nodes)
    })
}

/// Returns how many of the operator's requests so far write anything but its lease, which it renews while it leads.
fn writes(control_plane: &ControlPlane) -> Result<u64> {
    let requests = control_plane.requests_of(NAMESPACE, "windows-storage-operator")?;
    let writes = requests.iter().filter(|request| {
        !["get", "list", "watch"].contains(&&*request.verb) && request.resource != "leases"
    });
    Ok(writes.count() as u64)
}

/// Waits until the operator has written nothing for `pause`.
fn until_quiet(control_plane: &ControlPlane, pause: Duration) -> Result<()> {
    let mut before = writes(control_plane)?;
    eventually("the operator has nothing left to write", || {
        sleep(pause);
        let now = writes(control_plane)?;
        Ok(std::mem::replace(&mut before, now) == now)
    })
}

#[derive(Default)]
struct Times {
    opened: Vec<f64>,
    closed: Vec<f64>,
    /// API server only: a write, a watch that shows it, then a read and another write, and a watch that shows that.
    chain: Vec<f64>,
}

impl Times {
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, share, bar) in [("p50", 0.5, 100.0), ("p99", 0.99, 500.0)] {
            let [chain, opened, closed] =
                [&self.chain, &self.opened, &self.closed].map(|values| quantile(values, share));
            rows.extend(rows! {
                format!("API server, write to watch, read, write to watch, {name}") => chain, "ms";
                format!("CSINode written to gate opened, {name}") => opened, "ms";
                format!("gate opened, beyond what the API server takes itself, {name}") => opened - chain, "ms", at_most bar;
                format!("CSINode written to gate closed, {name}") => closed, "ms";
            });
        }
        rows
    }
}

struct Bed {
    client: Client,
    gate: GateWatch,
    /// Watches of two ordinary objects.
    first: Watch,
    second: Watch,
    /// The node's CSINode drivers, with and without the driver.
    csi_nodes: [Value; 2],
    path: String,
    writes: u64,
}

impl Bed {
    async fn new(client: Client, size: &Size) -> Result<Self> {
        for name in ["first", "second"] {
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let json = "application/json";
            cluster::send(&client, Method::POST, ORDINARY, json, object).await?;
        }
        // The one node that lacks the driver.
        let node = cluster::node_name(Os::Windows, size.windows.nodes - 1);
        let path = format!("/apis/storage.k8s.io/v1/csinodes/{node}");
        let request = Request::get(&path).body(Vec::new())?;
        let without: Value = client.request(request).await?;
        let without = without["spec"]["drivers"].clone();
        let mut with = without.clone();
        with.as_array_mut()
            .context("a CSINode without drivers")?
            .push(json!({"name": DRIVER, "nodeID": node, "topologyKeys": []}));
        Ok(Self {
            gate: GateWatch::of_cleared(&client).await?,
            first: Watch::of(&client, ORDINARY, "first").await?,
            second: Watch::of(&client, ORDINARY, "second").await?,
            csi_nodes: [with, without],
            client,
            path,
            writes: 0,
        })
    }

    /// Opens the gate and closes it again, and records both times.
    async fn open_and_close(&mut self, times: &mut Times) -> Result<()> {
        tokio::time::sleep(SILENT).await;
        times.chain.push(self.ordinary().await?);
        let written = self.register(true).await?;
        let opened = self.gate.until(PATIENCE, |gate| gate["status"] == "True");
        times.opened.push(since(written, opened.await?));
        times.chain.push(self.ordinary().await?);
        let written = self.register(false).await?;
        let closed = self.gate.until(PATIENCE, |gate| gate["status"] == "False");
        times.closed.push(since(written, closed.await?));
        Ok(())
    }

    /// Adds or removes the last CSINode entry. Returns when the API server acknowledged it.
    async fn register(&self, registered: bool) -> Result<Instant> {
        let drivers = &self.csi_nodes[usize::from(!registered)];
        self.merge(&self.path, &json!({"spec": {"drivers": drivers}}))
            .await
    }

    /// Measures the API server's own time with ordinary objects.
    async fn ordinary(&mut self) -> Result<f64> {
        self.writes += 1;
        let data = json!({"data": {"writes": self.writes.to_string()}});
        let written = self.merge(&format!("{ORDINARY}/first"), &data).await?;
        self.first.next().await?;
        let path = format!("{ORDINARY}/second");
        let read = Request::get(&path).body(Vec::new())?;
        self.client.request::<Value>(read).await?;
        self.merge(&path, &data).await?;
        let (seen, _) = self.second.next().await?;
        Ok(since(written, seen))
    }

    /// Changes an object. Returns when the API server acknowledged it.
    async fn merge(&self, path: &str, change: &Value) -> Result<Instant> {
        let merge = "application/merge-patch+json";
        cluster::send(&self.client, Method::PATCH, path, merge, change.clone()).await?;
        Ok(Instant::now())
    }
}

/// Returns the milliseconds between a write and its event, or 0 if the watch showed it before it was acknowledged.
fn since(written: Instant, seen: Instant) -> f64 {
    milliseconds(seen.saturating_duration_since(written))
}
