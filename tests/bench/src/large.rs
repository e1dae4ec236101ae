//! Measures what large objects cost: 300 of 1.3 MB in each of three kinds, as anyone may add who may create workloads in one
//! namespace. etcd stores no larger ones.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;

use crate::cluster::{self, SMALL, send};
use crate::figures::megabytes;
use crate::load::{start_operator, until_settled};
use crate::operator_binary;
use crate::process::{cpu_seconds, peak_resident};
use crate::report::{Row, rows};

const KINDS: [(&str, &str); 3] = [
    ("DaemonSet", "daemonsets"),
    ("Deployment", "deployments"),
    ("StatefulSet", "statefulsets"),
];
/// Objects of each kind.
const COUNT: usize = 300;
const BYTES: usize = 1_300_000;
/// How much more memory they may take, in 10⁶ bytes.
const MORE: f64 = 200.0;
/// Requests in flight at a time.
const IN_FLIGHT: usize = 4;
/// How often `check` is sampled.
const INTERVAL: Duration = Duration::from_millis(2);

/// Measures the peak of `run` and of `check` without such objects and with them. While `run` runs, each of them changes once.
pub fn measure() -> Result<Vec<Row>> {
    let control_plane = cluster::start(&SMALL)?;
    let usual = Peaks::of(&control_plane, None)?;
    let runtime = cluster::runtime()?;
    let client = runtime.block_on(cluster::client(control_plane.kubeconfig()))?;
    runtime.block_on(each(&client, Method::POST))?;
    let large = Peaks::of(&control_plane, Some(&client))?;
    Ok(rows! {
        "run, resident, peak: without large objects" => usual.run, "MB";
        "run, resident, peak: with 900 of 1.3 MB" => large.run, "MB", at_most usual.run + MORE;
        "check, resident, peak: without large objects" => usual.check, "MB";
        "check, resident, peak: with 900 of 1.3 MB" => large.check, "MB", at_most usual.check + MORE;
    })
}

/// Peaks of memory in 10⁶ bytes.
struct Peaks {
    run: f64,
    check: f64,
}

impl Peaks {
    fn of(control_plane: &ControlPlane, changing: Option<&Client>) -> Result<Self> {
        let check = peak_of_check(control_plane)?;
        let operator = start_operator(control_plane)?;
        until_settled(control_plane, SMALL.windows.nodes)?;
        until_at_rest(operator.id())?;
        if let Some(client) = changing {
            cluster::runtime()?.block_on(each(client, Method::PATCH))?;
            until_at_rest(operator.id())?;
        }
        let run = megabytes(peak_resident(operator.id())?);
        operator.kill()?;
        Ok(Self { run, check })
    }
}

fn peak_of_check(control_plane: &ControlPlane) -> Result<f64> {
    let mut check = Command::new(operator_binary()?)
        .args(["check", "--output=json", "--kubeconfig"])
        .arg(control_plane.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let mut peak = 0;
    let ended = loop {
        // Of a process that has ended, the kernel shows no memory.
        peak = peak_resident(check.id()).unwrap_or_default().max(peak);
        if let Some(ended) = check.try_wait()? {
            break ended;
        }
        sleep(INTERVAL);
    };
    // Upgradeable, not upgradeable or unknown; 1 would be an error.
    ensure!(matches!(ended.code(), Some(0 | 3 | 4)), "check: {ended}");
    Ok(megabytes(peak))
}

/// Waits until a process is idle. The node statuses do not show this: they come from the process before, and do not
/// tell whether this one has read the cluster.
fn until_at_rest(pid: u32) -> Result<()> {
    /// In CPU seconds.
    const LITTLE: f64 = 0.05;
    let mut before = cpu_seconds(pid)?;
    let mut quiet = 0;
    for _ in 0..300 {
        sleep(Duration::from_secs(1));
        let now = cpu_seconds(pid)?;
        quiet = if now - before < LITTLE { quiet + 1 } else { 0 };
        before = now;
        // Two quiet seconds may pass before the first response.
        if quiet == 5 {
            return Ok(());
        }
    }
    bail!("the operator does not come to rest")
}

/// Creates or changes all large objects.
async fn each(client: &Client, method: Method) -> Result<()> {
    let all = KINDS
        .iter()
        .flat_map(|kind| (0..COUNT).map(move |number| (*kind, number)));
    stream::iter(all)
        .map(|((kind, resource), number)| {
            let method = method.clone();
            async move {
                let collection = format!("/apis/apps/v1/namespaces/default/{resource}");
                let (path, content_type, body) = if method == Method::POST {
                    (collection, "application/json", object(kind, number))
                } else {
                    let change = json!({"metadata": {"labels": {"changed": "once"}}});
                    let path = format!("{collection}/{}", name(number));
                    (path, "application/merge-patch+json", change)
                };
                send(client, method, &path, content_type, body).await
            }
        })
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await
}

fn name(number: usize) -> String {
    format!("large-{number:03}")
}

fn object(kind: &str, number: usize) -> Value {
    let labels = json!({"app": name(number)});
    let container = json!({"name": "a", "image": "example.com/a:1", "args": ["x".repeat(BYTES)]});
    let pod = json!({"nodeSelector": {"kubernetes.io/os": "none"}, "containers": [container]});
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name(number)},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}});
    if kind != "DaemonSet" {
        object["spec"]["replicas"] = json!(0);
    }
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!("a");
    }
    object
}
