//! Measures the time from the start of the process to the first correct verdict on a large cluster, against kubectl
//! listing the same objects.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::control_plane::ControlPlane;
use testbed::sandbox::OperatorCommand;

use crate::cluster::{self, LARGE};
use crate::figures::median;
use crate::gate::GateWatch;
use crate::report::{Row, rows};
use crate::{Options, operator_binary, payload};

/// The kinds that the operator reads.
const KINDS: &str = "nodes,csinodes,csidrivers,pods,cronjobs,daemonsets,deployments,jobs,replicasets,replicationcontrollers,statefulsets,persistentvolumeclaims,persistentvolumes,storageclasses,runtimeclasses,windowsstorages,windowsnodestorages";
/// The reason that upgrades of this cluster are held, and so that of a correct verdict.
const REASON: &str = "DriversMissing";
const PATIENCE: Duration = Duration::from_secs(300);

/// Measures the operator and kubectl in turn. The verdict counts once it is in the `OperatorCondition`.
pub fn measure(options: Options) -> Result<Vec<Row>> {
    // kubectl takes half a minute of a core.
    let rounds = if options.full { 7 } else { 3 };
    let control_plane = cluster::start(&LARGE)?;
    let (verdict, names) = against_kubectl(&control_plane, rounds)?;
    let whole = list(&control_plane, "json")?;
    Ok(rows! {
        "process start to the first correct OperatorCondition" => verdict, "s";
        "kubectl get … -A -o name" => names, "s";
        "kubectl get … -A -o json, once" => whole, "s";
        "verdict to kubectl get -o name" => verdict / names, "×", at_most 2.0;
        "verdict to kubectl get -o json" => verdict / whole, "×";
    })
}

/// Returns the seconds to the first correct verdict and those of kubectl for the names of the same objects, as medians.
fn against_kubectl(control_plane: &ControlPlane, rounds: usize) -> Result<(f64, f64)> {
    let (mut names, mut verdicts) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        verdicts.push(first_verdict(control_plane)?);
        names.push(list(control_plane, "name")?);
    }
    Ok((median(&verdicts), median(&names)))
}

fn list(control_plane: &ControlPlane, output: &str) -> Result<f64> {
    let started = Instant::now();
    let status = control_plane
        .kubectl_command()
        .args(["get", KINDS, "--all-namespaces", "--chunk-size=500"])
        .args(["--output", output])
        .stdout(Stdio::null())
        .status()
        .context("starting kubectl")?;
    ensure!(status.success(), "kubectl get ended with {status}");
    Ok(started.elapsed().as_secs_f64())
}

/// Returns the seconds from the operator's start to its first correct verdict in the `OperatorCondition`.
pub fn first_verdict(control_plane: &ControlPlane) -> Result<f64> {
    let operator = OperatorCommand::new(control_plane, &operator_binary()?, &payload()?)?;
    let log = control_plane.dir().join("operator.log");
    cluster::runtime()?.block_on(async {
        let client = cluster::client(control_plane.kubeconfig()).await?;
        let mut gate = GateWatch::of_cleared(&client).await?;
        let started = Instant::now();
        let running = operator.start(Some(&log), &[], true)?;
        let seen = gate.until(PATIENCE, |condition| condition.reason == REASON);
        let seen = seen.await?;
        running.kill()?;
        Ok((seen - started).as_secs_f64())
    })
}
