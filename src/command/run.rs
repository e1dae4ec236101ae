//! `run`: the controller.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::runtime::Builder;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use windows_storage_operator::client::{Revisions, Trust};
use windows_storage_operator::http::Metrics;
use windows_storage_operator::lease::Fence;
use windows_storage_operator::run as controller;
use windows_storage_operator::run::logs::filter;

use crate::cli::{LogFormat, RunArgs};
use crate::command::connect::{configuration, connect_by, trust_changes};
use crate::command::signals::{Signal, signalled};

/// Runs the controller.
pub fn run(arguments: &RunArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    log(arguments)?;
    let outcome = runtime.block_on(serve(arguments));
    // Connections to nodes are closed; the agents finish their work by themselves.
    runtime.shutdown_background();
    outcome
}

async fn serve(arguments: &RunArgs) -> anyhow::Result<()> {
    // From the start: as the first process of a container, it is not ended by the signal itself.
    let mut stop = std::pin::pin!(signalled([Signal::Terminate, Signal::Interrupt]));
    let cluster = &arguments.cluster;
    let metrics = Metrics::default();
    let identity = arguments.election.identity();
    let fence = match identity {
        Some(_) => Fence::closed(),
        None => Fence::open(),
    };
    let config = configuration(cluster).await?;
    let trust = Trust::of(&config);
    let revisions = Revisions::default();
    let connecting = connect_by(config, metrics.clone(), fence.clone(), revisions.clone());
    let (client, version) = tokio::select! {
        connected = connecting => connected?,
        _ = &mut stop => {
            tracing::info!("stopped before any work began");
            return Ok(());
        }
    };
    tracing::debug!(version, "connected");
    let condition = arguments.operator_condition.clone();
    let options = controller::Options {
        namespace: arguments.namespace.clone(),
        operator_condition: condition.filter(|name| !name.is_empty()),
        kubernetes_version: version,
        probe_interval: Duration::from_secs(arguments.probe_interval),
        payload_dir: arguments.payload_dir.clone(),
        serve_address: arguments.serve_address,
        metrics_address: arguments.metrics_address,
        metrics_cert_dir: arguments.metrics_cert_dir.clone(),
        metrics,
        instance: std::env::var("POD_NAME").ok(),
        identity,
        fence,
        revisions,
    };
    let trust_has_changed = AtomicBool::new(false);
    let stop = async {
        tokio::select! {
            _ = stop => {}
            () = trust_changes(cluster, &trust) => trust_has_changed.store(true, Ordering::Relaxed),
        }
    };
    Box::pin(controller::run(client, options, stop)).await?;
    if trust_has_changed.into_inner() {
        bail!("the cluster's certificate files changed; exiting so that a new process loads them");
    }
    Ok(())
}

fn log(arguments: &RunArgs) -> anyhow::Result<()> {
    let level = &arguments.log_level;
    let filter = filter(level).with_context(|| {
        format!(
            "--log-level {level:?} is not a level such as info, or a list such as info,hyper=debug"
        )
    })?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    let lines = match arguments.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    Ok(())
}
