//! How much memory the operator needs for a large cluster, beside a cache of controller-runtime and kube-state-metrics.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use testbed::control_plane::ControlPlane;
use testbed::parts::part;
use testbed::sandbox::{Operator, OperatorCommand};

use crate::cluster::{self, LARGE};
use crate::figures::{median, megabytes};
use crate::process::{self, Memory, Program, eventually};
use crate::report::Row;
use crate::{Options, operator_binary, payload};

/// The resources that kube-state-metrics is to look at.
const RESOURCES: &str =
    "--resources=nodes,pods,persistentvolumeclaims,persistentvolumes,storageclasses";

/// The operator, the cache as it is and without managedFields, and kube-state-metrics, one after the other on one API
/// server.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    // The collector of a Go program returns memory within minutes: twice the two minutes after which it runs anyway.
    let rest = Duration::from_secs(if options.full { 240 } else { 60 });
    let control_plane = cluster::start(&LARGE)?;
    let operator = of_operator(&control_plane, rest)?;
    let cache = of_cache(&control_plane, &[], rest)?;
    let stripped = of_cache(&control_plane, &["-strip"], rest)?;
    let metrics = of_kube_state_metrics(&control_plane, rest)?;
    let own = operator.resident_megabytes();
    Ok(vec![
        Row::new("operator, resident, steady", own, "MB").at_most(30.0),
        Row::new(
            "operator, resident, peak",
            megabytes(operator.last.peak),
            "MB",
        )
        .at_most(50.0),
        Row::new(
            "operator, of that allocated, steady",
            megabytes(operator.last.anonymous),
            "MB",
        ),
        Row::new(
            "cache of controller-runtime, resident",
            cache.resident_megabytes(),
            "MB",
        ),
        Row::new(
            "cache of controller-runtime, peak",
            megabytes(cache.last.peak),
            "MB",
        ),
        Row::new(
            "cache without managedFields, resident",
            stripped.resident_megabytes(),
            "MB",
        ),
        Row::new(
            "kube-state-metrics, resident",
            metrics.resident_megabytes(),
            "MB",
        ),
        Row::new(
            "kube-state-metrics, peak",
            megabytes(metrics.last.peak),
            "MB",
        ),
        Row::new(
            "operator to cache of controller-runtime",
            own / cache.resident_megabytes(),
            "×",
        )
        .at_most(1.0 / 8.0),
        Row::new(
            "operator to cache without managedFields",
            own / stripped.resident_megabytes(),
            "×",
        )
        .at_most(1.0 / 8.0),
        Row::new(
            "operator to kube-state-metrics",
            own / metrics.resident_megabytes(),
            "×",
        )
        .at_most(1.0 / 15.0),
    ])
}

/// What was seen while a process had nothing new to do.
struct Rest {
    resident: Vec<f64>,
    last: Memory,
}

impl Rest {
    /// The second half: what a program returns late counts as returned.
    fn of(process: u32, length: Duration) -> Result<Self> {
        let started = Instant::now();
        let mut resident = Vec::new();
        while started.elapsed() < length {
            sleep(Duration::from_secs(1));
            let seen = process::memory(process)?;
            if started.elapsed() > length / 2 {
                resident.push(megabytes(seen.resident));
            }
        }
        Ok(Self {
            resident,
            last: process::memory(process)?,
        })
    }

    fn resident_megabytes(&self) -> f64 {
        median(&self.resident)
    }
}

/// Starts the operator and waits until it has said all that it has to say of the cluster.
pub fn settled_operator(control_plane: &ControlPlane, windows_nodes: usize) -> Result<Operator> {
    let command = OperatorCommand::new(control_plane, &operator_binary()?, &payload()?)?;
    let log = control_plane.dir().join("operator.log");
    let operator = command.start(Some(&log), &[], true)?;
    eventually("every Windows node has its status", || {
        let written = control_plane.kubectl(&[
            "get",
            "windowsnodestorages",
            "-o",
            r#"jsonpath={range .items[?(@.status.conditions)]}{"x"}{end}"#,
        ])?;
        Ok(written.len() >= windows_nodes)
    })?;
    Ok(operator)
}

fn of_operator(control_plane: &ControlPlane, rest: Duration) -> Result<Rest> {
    let operator = settled_operator(control_plane, LARGE.windows.nodes)?;
    let rest = Rest::of(operator.id(), rest)?;
    operator.kill()?;
    Ok(rest)
}

fn of_cache(control_plane: &ControlPlane, arguments: &[&str], rest: Duration) -> Result<Rest> {
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
    let mut said = String::new();
    BufReader::new(reader).read_line(&mut said)?;
    anyhow::ensure!(
        said == "synced\n",
        "the cache of controller-runtime ended early: {said:?}"
    );
    let rest = Rest::of(cache.id(), rest)?;
    cache.stop()?;
    Ok(rest)
}

fn of_kube_state_metrics(control_plane: &ControlPlane, rest: Duration) -> Result<Rest> {
    let log = File::create(control_plane.dir().join("kube-state-metrics.log"))?;
    let [port, telemetry] = free_ports()?;
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
    // It watches what it has listed. Its metrics themselves are not asked for before the end: answering costs memory.
    let watches = r#"kube_state_metrics_watch_total{resource="*v1."#;
    eventually("kube-state-metrics has read all", || {
        Ok(count_lines(telemetry, watches).unwrap_or(0) >= 5)
    })?;
    let rest = Rest::of(metrics.id(), rest)?;
    let pods = count_lines(port, "kube_pod_info{")?;
    anyhow::ensure!(pods == LARGE.pods(), "kube-state-metrics knows {pods} pods");
    metrics.stop()?;
    Ok(rest)
}

fn free_ports() -> Result<[u16; 2]> {
    let listeners = [
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
    ];
    Ok([
        listeners[0].local_addr()?.port(),
        listeners[1].local_addr()?.port(),
    ])
}

fn count_lines(port: u16, start: &str) -> Result<usize> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .context("reading metrics")?;
    Ok(answer
        .lines()
        .filter(|line| line.starts_with(start))
        .count())
}
