//! Measures what a growing cluster costs the operator: time per event, and memory.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use testbed::control_plane::ControlPlane;
use testbed::sandbox::install;

use crate::Options;
use crate::churn::{self, Churn};
use crate::cluster::{self, Loader, Os, Part, Size};
use crate::figures::megabytes;
use crate::memory::settled_operator;
use crate::process::{Sample, cpu_seconds};
use crate::report::{Row, rows};

/// Pod changes per second while time is measured.
const CHURN: u32 = 200;
/// Windows pods per step at the end.
const WINDOWS_STEP: usize = 1_000;
/// A small cluster.
pub const BASE: Size = Size {
    windows: Part {
        nodes: 50,
        stateful_pods: 200,
        stateless_pods: 200,
    },
    linux: Part {
        nodes: 150,
        stateful_pods: 100,
        stateless_pods: 300,
    },
    without_driver: 1,
};

/// Grows one cluster by Linux pods, a fifth of them with claims, and finally by Windows pods with claims. Each size is
/// measured with a new process, so that temporary memory of an earlier size does not count.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let (sizes, length): (&[usize], _) = if options.full {
        (&[1_000, 5_000, 10_000, 20_000, 50_000], 60)
    } else {
        (&[1_000, 10_000, 50_000], 20)
    };
    let length = Duration::from_secs(length);
    let control_plane = ControlPlane::start()?;
    install(&control_plane)?;
    cluster::runtime()?.block_on(async {
        let client = cluster::client(control_plane.kubeconfig()).await?;
        let mut loader = Loader::new(&control_plane).await?;
        loader.shared().await?;
        loader.cluster(&BASE).await?;
        let mut rows = Vec::new();
        let mut figures = Vec::new();
        let mut pods = BASE.pods();
        let mut linux = [BASE.linux.stateful_pods, BASE.linux.stateless_pods];
        for &size in sizes {
            let more = (size - pods) / 100 * 100;
            let to = [linux[0] + more / 5, linux[1] + more / 5 * 4];
            let nodes = BASE.linux.nodes;
            loader.stateful(Os::Linux, linux[0]..to[0], nodes).await?;
            loader.stateless(Os::Linux, linux[1]..to[1], nodes).await?;
            (linux, pods) = (to, pods + more);
            let figure = Figure::of(&control_plane, &client, Some(length)).await?;
            rows.extend(rows! {
                format!("{size} pods: time on a core for 1,000 changes of pods") => figure.per_thousand, "ms";
                format!("{size} pods: memory allocated") => figure.allocated, "MB";
            });
            figures.push((size, figure));
        }
        let mut windows = Vec::new();
        let mut from = BASE.windows.stateful_pods;
        for _ in 0..2 {
            let nodes = BASE.windows.nodes;
            loader
                .stateful(Os::Windows, from..from + WINDOWS_STEP, nodes)
                .await?;
            from += WINDOWS_STEP;
            windows.push(Figure::of(&control_plane, &client, None).await?);
        }
        rows.extend(compare(&figures, &windows)?);
        Ok(rows)
    })
}

/// Waits until a process is idle. The node statuses do not show this: they come from the process before, and do not
/// tell whether this one has read the cluster.
pub async fn at_rest(pid: u32) -> Result<()> {
    /// In CPU seconds.
    const LITTLE: f64 = 0.05;
    let mut before = cpu_seconds(pid)?;
    let mut quiet = 0;
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = cpu_seconds(pid)?;
        quiet = if now - before < LITTLE { quiet + 1 } else { 0 };
        before = now;
        // Two quiet seconds may pass before the first response.
        if quiet == 5 {
            return Ok(());
        }
    }
    anyhow::bail!("the operator does not come to rest")
}

struct Figure {
    /// Anonymous memory in 10⁶ bytes. Mapped file pages do not count: they do not depend on the cluster.
    allocated: f64,
    /// CPU milliseconds per 1,000 changes of pods.
    per_thousand: f64,
}

impl Figure {
    async fn of(
        control_plane: &ControlPlane,
        client: &Client,
        length: Option<Duration>,
    ) -> Result<Self> {
        let operator = settled_operator(control_plane, BASE.windows.nodes)?;
        at_rest(operator.id()).await?;
        let allocated = megabytes(Sample::take(operator.id())?.anonymous);
        let mut per_thousand = 0.0;
        if let Some(length) = length {
            let pods = churn::pods(client).await?;
            let churn = Churn::start(client, &pods, CHURN)?;
            let (before, written) = (cpu_seconds(operator.id())?, churn.written());
            tokio::time::sleep(length).await;
            let time = cpu_seconds(operator.id())? - before;
            let changes = u32::try_from(churn.written() - written)?;
            churn.rate()?;
            per_thousand = time * 1e3 / f64::from(changes) * 1_000.0;
        }
        operator.kill()?;
        Ok(Self {
            allocated,
            per_thousand,
        })
    }
}

fn compare(linux: &[(usize, Figure)], windows: &[Figure]) -> Result<Vec<Row>> {
    let (first, last) = (linux.first(), linux.last());
    let ((few, small), (many, large)) = (
        first.context("no size was measured")?,
        last.context("no size was measured")?,
    );
    let pods = f64::from(u32::try_from(many - few)?);
    let step = f64::from(u32::try_from(WINDOWS_STEP)?);
    // From MB per pod to bytes per pod.
    let per_linux_pod = (large.allocated - small.allocated) / pods * 1e6;
    let [one, two] = [
        (windows[0].allocated - large.allocated) / step * 1e6,
        (windows[1].allocated - windows[0].allocated) / step * 1e6,
    ];
    let events = large.per_thousand / small.per_thousand;
    Ok(rows! {
        format!("time for an event at {many} pods to that at {few}") => events, "×", at_most 1.5;
        "memory for each Linux pod more, with its owner and a fifth of a claim" => per_linux_pod, "B", at_most 1_000.0;
        format!("memory for each of {WINDOWS_STEP} Windows pods more, with claim and volume") => one, "B";
        "memory for each of as many again" => two, "B";
        "that to the first" => two / one, "×", at_most 1.3;
    })
}
