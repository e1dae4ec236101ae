//! Measures the operator's memory on a large cluster, against a cache of controller-runtime and kube-state-metrics.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::control_plane::ControlPlane;
use testbed::parts::part;
use testbed::sandbox::{Operator, OperatorCommand};

use crate::cluster::{self, LARGE, Size};
use crate::figures::{median, megabytes, quantile};
use crate::process::{Program, Sample, Sampler, eventually};
use crate::report::{Row, rows};
use crate::{Options, operator_binary, payload};

/// The resources that kube-state-metrics watches.
const RESOURCES: &str =
    "--resources=nodes,pods,persistentvolumeclaims,persistentvolumes,storageclasses";

/// Measures the operator, the cache with and without managedFields, and kube-state-metrics, one after the other against
/// one API server.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    let rest = rest(options);
    let control_plane = cluster::start(&LARGE)?;
    let operator = usage_of_operator(&control_plane, &LARGE, options)?;
    let cache = of_cache(&control_plane, &[], rest)?;
    let stripped = of_cache(&control_plane, &["-strip"], rest)?;
    let metrics = of_kube_state_metrics(&control_plane, rest)?;
    let own = operator.steady;
    let mut rows = rows! {
        "operator, anonymous, steady" => own, "MB", at_most 30.0;
        "operator, anonymous, peak" => operator.peak, "MB", at_most 60.0;
        "operator, resident, steady" => operator.resident, "MB";
    };
    let peers = [
        ("cache of controller-runtime", cache, 1.0 / 8.0),
        ("cache without managedFields", stripped, 1.0 / 8.0),
        ("kube-state-metrics", metrics, 1.0 / 15.0),
    ];
    for (name, peer, bar) in peers {
        rows.extend(rows! {
            format!("{name}, anonymous, steady") => peer.steady, "MB";
            format!("{name}, anonymous, peak") => peer.peak, "MB";
            format!("operator to {name}") => own / peer.steady, "×", at_most bar;
        });
    }
    Ok(rows)
}

/// Returns how long a process rests while it is sampled. Go returns memory to the system late: a full measurement waits
/// twice the two minutes after which Go forces a garbage collection.
fn rest(options: Options) -> Duration {
    Duration::from_secs(if options.full { 240 } else { 60 })
}

/// Memory in 10⁶ bytes. Anonymous memory counts: whether file pages stay resident is up to the kernel.
pub struct Usage {
    pub steady: f64,
    pub peak: f64,
    resident: f64,
}

/// Short enough to catch a peak as brief as decoding one page of a list.
const INTERVAL: Duration = Duration::from_millis(20);

impl Usage {
    /// Samples a process at rest. The steady value is the median of about the last third of the rest, so that memory a
    /// program returns late counts as returned.
    fn at_rest(running: Sampler, rest: Duration) -> Result<Self> {
        sleep(rest);
        let samples = running.finish()?;
        let last = samples.len() - samples.len().min(usize::try_from(rest.as_millis() / 60)?);
        let of = |field: fn(&Sample) -> u64| -> Vec<f64> {
            samples
                .iter()
                .map(|sample| megabytes(field(sample)))
                .collect()
        };
        let (anonymous, resident) = (of(|sample| sample.anonymous), of(|sample| sample.resident));
        Ok(Self {
            steady: median(&anonymous[last..]),
            peak: quantile(&anonymous, 1.0),
            resident: median(&resident[last..]),
        })
    }
}

/// Starts the operator.
pub fn start_operator(control_plane: &ControlPlane) -> Result<Operator> {
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

/// Measures the operator's memory on this cluster.
pub fn usage_of_operator(
    control_plane: &ControlPlane,
    size: &Size,
    options: Options,
) -> Result<Usage> {
    let operator = start_operator(control_plane)?;
    let sampler = Sampler::start(operator.id(), INTERVAL);
    until_settled(control_plane, size.windows.nodes)?;
    let usage = Usage::at_rest(sampler, rest(options))?;
    operator.kill()?;
    Ok(usage)
}

fn of_cache(control_plane: &ControlPlane, arguments: &[&str], rest: Duration) -> Result<Usage> {
    let log = File::create(control_plane.dir().join("cache.log"))?;
    let (reader, writer) = std::io::pipe()?;
    let cache = Program::start(&part("controller-runtime-cache")?, |command| {
        command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(control_plane.kubeconfig())
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(log);
        Ok(())
    })?;
    let sampler = Sampler::start(cache.id(), INTERVAL);
    let mut said = String::new();
    BufReader::new(reader).read_line(&mut said)?;
    anyhow::ensure!(
        said == "synced\n",
        "the cache of controller-runtime ended early: {said:?}"
    );
    let usage = Usage::at_rest(sampler, rest)?;
    cache.stop()?;
    Ok(usage)
}

fn of_kube_state_metrics(control_plane: &ControlPlane, rest: Duration) -> Result<Usage> {
    let log = File::create(control_plane.dir().join("kube-state-metrics.log"))?;
    let (port, telemetry) = (free_port()?, free_port()?);
    let metrics = Program::start(&part("kube-state-metrics")?, |command| {
        command
            .arg(RESOURCES)
            .arg("--kubeconfig")
            .arg(control_plane.kubeconfig())
            .args(["--host=127.0.0.1", "--telemetry-host=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg(format!("--telemetry-port={telemetry}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(())
    })?;
    let sampler = Sampler::start(metrics.id(), INTERVAL);
    // kube-state-metrics watches a resource once it has listed it. Its own metrics are queried only at the end, because
    // answering costs memory.
    let watches = r#"kube_state_metrics_watch_total{resource="*v1."#;
    eventually("kube-state-metrics has read all", || {
        Ok(count_lines(telemetry, watches).unwrap_or(0) >= 5)
    })?;
    let usage = Usage::at_rest(sampler, rest)?;
    let pods = count_lines(port, "kube_pod_info{")?;
    anyhow::ensure!(pods == LARGE.pods(), "kube-state-metrics knows {pods} pods");
    metrics.stop()?;
    Ok(usage)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

fn count_lines(port: u16, start: &str) -> Result<usize> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .context("reading metrics")?;
    let lines = answer.lines();
    Ok(lines.filter(|line| line.starts_with(start)).count())
}
