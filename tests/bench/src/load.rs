//! Measures the operator on a large cluster: its memory, and, while pods change, what it uses of a core and how soon it opens
//! and closes the gate. For comparison, it also measures the API server's own share of that: a write until a watch shows it, a
//! read, and a write until a watch shows that; and for opening, the three largest lists, which it rests on.

mod churn;

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::sandbox::{Operator, OperatorCommand};

use crate::cluster::{self, DRIVER, HUGE, LARGE, Os, Size};
use crate::figures::{median, megabytes, milliseconds, quantile};
use crate::gate::{GateWatch, Watch};
use crate::process::{Sampler, cpu_seconds, eventually};
use crate::report::{Row, rows};
use crate::{operator_binary, payload};
use churn::Churn;

/// Pod changes per second.
const CHURN: u32 = 200;
/// How long the operator's share of a core is measured under churn.
const CHURNING: Duration = Duration::from_secs(30);
/// How often the gate is opened and closed, each time by a new operator: one alone opens less and less often.
const OPENINGS: usize = 5;
/// Steady memory is measured at the end of this time.
const REST: Duration = Duration::from_secs(60);
/// Short enough to catch a peak as brief as decoding one page of a list.
const INTERVAL: Duration = Duration::from_millis(20);
/// Collection of the objects with which the API server's own time is measured.
const ORDINARY: &str = "/api/v1/namespaces/default/configmaps";

/// Measures a large cluster.
pub fn measure() -> Result<Vec<Row>> {
    let control_plane = cluster::start(&LARGE)?;
    let mut rows = memory(&control_plane, &LARGE, [40.0, 70.0])?;
    cluster::runtime()?.block_on(async {
        let client = cluster::client(control_plane.kubeconfig()).await?;
        let mut bed = Bed::new(client).await?;
        let operator = start_operator(&control_plane)?;
        let held = bed.gate.until(|gate| gate["reason"] == "DriversMissing");
        held.await?;

        let churn = Churn::start(&bed.client, CHURN).await?;
        churn.reach(CHURN).await?;
        let cpu = cpu_seconds(operator.id())?;
        tokio::time::sleep(CHURNING).await;
        let cpu = cpu_seconds(operator.id())? - cpu;
        rows.extend(rows! {
            "pod changes" => churn.rate()?, "/s";
            "share of a core meanwhile" => cpu / CHURNING.as_secs_f64() * 100.0, "%", at_most 20.0;
        });
        drop(churn);
        operator.kill()?;
        let mut times = Times::default();
        for _ in 0..OPENINGS {
            bed.gate = GateWatch::of_cleared(&bed.client).await?;
            let operator = start_operator(&control_plane)?;
            let held = bed.gate.until(|gate| gate["reason"] == "DriversMissing");
            held.await?;
            bed.open_and_close(&mut times).await?;
            operator.kill()?;
        }
        rows.extend(times.rows());
        Ok(rows)
    })
}

/// Measures the memory on a cluster larger than most.
pub fn measure_huge() -> Result<Vec<Row>> {
    memory(&cluster::start(&HUGE)?, &HUGE, [120.0, 120.0])
}

/// Measures an operator that reads the cluster and writes the status of every node.
fn memory(control_plane: &ControlPlane, size: &Size, bars: [f64; 2]) -> Result<Vec<Row>> {
    let operator = start_operator(control_plane)?;
    let sampler = Sampler::start(operator.id(), INTERVAL);
    until_settled(control_plane, size.windows.nodes)?;
    sleep(REST);
    let measured: Vec<f64> = sampler.finish()?.into_iter().map(megabytes).collect();
    operator.kill()?;
    // The median of the last third, so that memory that is returned late counts as returned.
    let last = &measured[measured.len() * 2 / 3..];
    Ok(rows! {
        "anonymous memory, steady" => median(last), "MB", at_most bars[0];
        "anonymous memory, peak" => quantile(&measured, 1.0), "MB", at_most bars[1];
    })
}

/// Starts the operator as its Deployment does.
fn start_operator(control_plane: &ControlPlane) -> Result<Operator> {
    let command = OperatorCommand::new(control_plane, &operator_binary()?, &payload()?)?;
    let log = control_plane.dir().join("operator.log");
    command.start(Some(&log), &[], true)
}

/// Waits until every Windows node has its status.
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

#[derive(Default)]
struct Times {
    opened: Vec<f64>,
    closed: Vec<f64>,
    /// API server only: a write, a watch that shows it, then a read and another write, and a watch that shows that.
    chain: Vec<f64>,
    /// API server only: lists of pods, claims and volumes at the same time.
    listed: Vec<f64>,
}

impl Times {
    fn rows(&self) -> Vec<Row> {
        let [chain, listed, opened, closed] =
            [&self.chain, &self.listed, &self.opened, &self.closed].map(|values| median(values));
        rows! {
            "API server, write to watch, read, write to watch" => chain, "ms";
            "lists of pods, claims and volumes" => listed, "ms";
            "CSINode written to gate opened, beyond both" => opened - chain - listed, "ms", at_most 1200.0;
            "CSINode written to gate closed, beyond that" => closed - chain, "ms", at_most 50.0;
        }
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
    async fn new(client: Client) -> Result<Self> {
        for name in ["first", "second"] {
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let json = "application/json";
            cluster::send(&client, Method::POST, ORDINARY, json, object).await?;
        }
        // The one node that lacks the driver.
        let node = cluster::node_name(Os::Windows, LARGE.windows.nodes - 1);
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
        times.listed.push(self.lists().await?);
        times.chain.push(self.ordinary().await?);
        let written = self.register(true).await?;
        let opened = self.gate.until(|gate| gate["status"] == "True");
        times.opened.push(since(written, opened.await?));
        times.chain.push(self.ordinary().await?);
        let written = self.register(false).await?;
        let closed = self.gate.until(|gate| gate["status"] == "False");
        times.closed.push(since(written, closed.await?));
        Ok(())
    }

    /// Lists the largest kinds as the operator does.
    async fn lists(&self) -> Result<f64> {
        let begun = Instant::now();
        let kinds = ["pods", "persistentvolumeclaims", "persistentvolumes"];
        try_join_all(kinds.map(|kind| self.list(kind))).await?;
        Ok(since(begun, Instant::now()))
    }

    async fn list(&self, kind: &str) -> Result<()> {
        let mut rest = String::new();
        loop {
            let path = format!("/api/v1/{kind}?limit=100&continue={rest}");
            let list = Request::get(path).body(Vec::new())?;
            let list: Value = self.client.request(list).await?;
            match list["metadata"]["continue"].as_str() {
                Some(more) if !more.is_empty() => more.clone_into(&mut rest),
                _ => return Ok(()),
            }
        }
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
