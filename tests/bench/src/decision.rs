//! Measures the time from the write of the last missing CSINode entry to the `OperatorCondition`, while pods change.
//! For comparison, it also measures the API server's own share: a write until a watch shows it, a read, and a write
//! until a watch shows that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::sandbox::OperatorCommand;
use tokio::task::block_in_place;

use crate::churn::{self, Churn};
use crate::cluster::{self, DRIVER, LARGE, Os, Size};
use crate::figures::{milliseconds, quantile};
use crate::gate::{GateWatch, Watch};
use crate::memory::settled_operator;
use crate::report::{Row, rows};
use crate::requests::until_quiet;
use crate::{Options, operator_binary, payload};

/// Pod changes per second.
const CHURN: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(180);
/// A process that has written nothing for this long has finished its initial work.
const QUIET: Duration = Duration::from_secs(2);
/// After this long without an event, a watch's data is stale, and the operator has to check that the watch is alive.
const SILENT: Duration = Duration::from_secs(6);
/// Collection of the objects with which the API server's own time is measured.
const ORDINARY: &str = "/api/v1/namespaces/default/configmaps";

/// Repeatedly removes the driver from the last node that lacks it, and adds it again.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let repetitions = if options.full { 200 } else { 12 };
    on(&cluster::start(&LARGE)?, &LARGE, repetitions)
}

/// Runs the measurement on a cluster of this size, with this many repetitions.
pub fn on(control_plane: &ControlPlane, size: &Size, repetitions: usize) -> Result<Vec<Row>> {
    let command = OperatorCommand::new(control_plane, &operator_binary()?, &payload()?)?;
    let log = control_plane.dir().join("operator.log");
    cluster::runtime()?.block_on(async {
        let client = cluster::client(control_plane.kubeconfig()).await?;
        let mut bed = Bed::new(client, size).await?;
        // The first operator writes the status of every node, so that later ones find it up to date.
        let first = || settled_operator(control_plane, size.windows.nodes);
        block_in_place(first)?.kill()?;
        let mut times = Times::default();
        bed.gate = GateWatch::of_cleared(&bed.client).await?;
        let operator = command.start(Some(&log), &[], true)?;
        bed.gate
            .until(PATIENCE, |gate| gate.reason == "DriversMissing")
            .await?;
        block_in_place(|| until_quiet(control_plane, QUIET))?;
        // The operator's initial list is not part of the measurement, so changes start only after it.
        let churn = Churn::start(&bed.client, &bed.pods, CHURN)?;
        churn.reach(CHURN.into()).await?;
        while times.opened.len() < repetitions {
            bed.open_and_close(&mut times).await?;
        }
        times.rate = churn.rate()?;
        operator.kill()?;
        Ok(times.rows())
    })
}

#[derive(Default)]
struct Times {
    opened: Vec<f64>,
    closed: Vec<f64>,
    /// Pod changes per second.
    rate: f64,
    /// API server only: from a write until a watch shows it.
    seen: Vec<f64>,
    /// API server only: a write, a watch that shows it, then a read and another write, and a watch that shows that.
    chain: Vec<f64>,
}

impl Times {
    fn rows(&self) -> Vec<Row> {
        let mut rows = rows! { "pod changes" => self.rate, "/s"; };
        for (name, share, bar) in [("p50", 0.5, 100.0), ("p99", 0.99, 500.0)] {
            let [seen, chain, opened, closed] =
                [&self.seen, &self.chain, &self.opened, &self.closed]
                    .map(|values| quantile(values, share));
            rows.extend(rows! {
                format!("API server, write to watch, {name}") => seen, "ms";
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
    pods: Arc<[String]>,
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
            pods: churn::pods(&client).await?,
            client,
            path,
            writes: 0,
        })
    }

    /// Opens the gate and closes it again, and records both times.
    async fn open_and_close(&mut self, times: &mut Times) -> Result<()> {
        tokio::time::sleep(SILENT).await;
        self.ordinary(times).await?;
        let written = self.register(true).await?;
        let opened = self.gate.until(PATIENCE, |gate| gate.status == "True");
        times.opened.push(since(written, opened.await?));
        self.ordinary(times).await?;
        let written = self.register(false).await?;
        let closed = self.gate.until(PATIENCE, |gate| gate.status == "False");
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
    async fn ordinary(&mut self, times: &mut Times) -> Result<()> {
        self.writes += 1;
        let data = json!({"data": {"writes": self.writes.to_string()}});
        let written = self.merge(&format!("{ORDINARY}/first"), &data).await?;
        let (seen, _) = self.first.next().await?;
        times.seen.push(since(written, seen));
        let path = format!("{ORDINARY}/second");
        let read = Request::get(&path).body(Vec::new())?;
        self.client.request::<Value>(read).await?;
        self.merge(&path, &data).await?;
        let (seen, _) = self.second.next().await?;
        times.chain.push(since(written, seen));
        Ok(())
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
