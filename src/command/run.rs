//! `run`: the controller.

use std::io::{self, IsTerminal};

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::lease::Fence;
use windows_storage_operator::logs::Levels;
use windows_storage_operator::run::{self as controller, RunError};
use windows_storage_operator::serve::Metrics;
use windows_storage_operator::traces::{Traces, is_logged};

use crate::cli::{LogFormat, RunArgs};
use crate::command::connect_operator;

/// Runs the controller. The verdict decides on the exit status of a single pass only.
pub fn run(arguments: &RunArgs) -> anyhow::Result<Option<Upgradeable>> {
    let candidacy = arguments.election.candidacy();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let traces = Traces::from_environment(runtime.handle())?;
    let levels = log(arguments, traces.as_ref())?;
    let outcome = runtime.block_on(async {
        // From the first moment on: as the first process of a container it would not be ended by the signal itself.
        let mut stop = std::pin::pin!(stopped());
        let metrics = Metrics::default();
        let fence = match candidacy {
            Some(_) => Fence::closed(),
            None => Fence::open(),
        };
        let cluster = &arguments.cluster;
        let (client, version) = tokio::select! {
            connected = connect_operator(cluster, metrics.clone(), fence.clone()) => connected?,
            () = &mut stop => {
                tracing::info!("asked to stop before anything was begun");
                return if arguments.once { Err(RunError::Interrupted.into()) } else { Ok(None) };
            }
        };
        tracing::debug!(version, "connected");
        let options = controller::Options {
            namespace: arguments.namespace.clone(),
            operator_condition: arguments
                .operator_condition
                .clone()
                .filter(|name| !name.is_empty()),
            payload_dir: arguments.payload_dir.clone(),
            serve_address: arguments.serve_address.address(),
            metrics_address: arguments.metrics_address.address(),
            metrics_cert_dir: arguments.metrics_cert_dir.clone(),
            metrics,
            levels,
            instance: std::env::var("POD_NAME").ok(),
            candidacy,
            fence,
            once: arguments.once,
        };
        let controller = Box::pin(controller::run(client, options, stop));
        Ok::<_, anyhow::Error>(controller.await?)
    });
    if let Some(traces) = traces {
        traces.flush();
    }
    // Connections to nodes are cut; the agents finish what they are at by themselves.
    runtime.shutdown_background();
    Ok(outcome?.filter(|_| arguments.once))
}

fn log(arguments: &RunArgs, traces: Option<&Traces>) -> anyhow::Result<Levels> {
    let level = &arguments.log_level;
    let (levels, filter) = Levels::parse(level, traces.is_some()).with_context(|| {
        format!(
            "--log-level {level:?} is not a level such as info, or a list such as info,hyper=debug"
        )
    })?;
    let filtered = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    let lines = match arguments.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    match traces {
        Some(traces) => {
            let lines = lines.with_filter(filter_fn(is_logged));
            filtered.with(lines).with(traces.layer()).init();
        }
        None => filtered.with(lines).init(),
    }
    Ok(levels)
}

/// Waits until somebody asks the process to end, also where that was before this is waited for.
fn stopped() -> impl Future<Output = ()> {
    let [terminated, interrupted] = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    async {
        tokio::select! {
            () = came(terminated) => {}
            () = came(interrupted) => {}
        }
    }
}

/// Where it cannot be told, the signal ends the process as it would any other.
async fn came(signal: io::Result<Signal>) {
    match signal {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}
