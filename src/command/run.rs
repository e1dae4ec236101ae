//! `run`: the controller.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::lease::Fence;
use windows_storage_operator::logs::Levels;
use windows_storage_operator::run as controller;
use windows_storage_operator::serve::Metrics;

use crate::cli::{LogFormat, RunArgs};
use crate::command::connect_operator;

/// Runs the controller. The verdict decides on the exit status of a single pass only.
pub fn run(arguments: &RunArgs) -> anyhow::Result<Option<Upgradeable>> {
    let candidacy = arguments.election.candidacy();
    let levels = log(arguments)?;
    // A panic in any task must end the process: a watch or a worker that died would go unseen.
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default_hook(panic);
        std::process::exit(101);
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let metrics = Metrics::default();
        let fence = match candidacy {
            Some(_) => Fence::closed(),
            None => Fence::open(),
        };
        let cluster = &arguments.cluster;
        let (client, version) = connect_operator(cluster, metrics.clone(), fence.clone()).await?;
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
        let controller = Box::pin(controller::run(client, options, stopped()));
        Ok::<_, anyhow::Error>(controller.await?)
    });
    // Connections to nodes are cut; the agents finish what they are at by themselves.
    runtime.shutdown_background();
    Ok(outcome?.filter(|_| arguments.once))
}

fn log(arguments: &RunArgs) -> anyhow::Result<Levels> {
    let level = &arguments.log_level;
    let (levels, filter) = Levels::parse(level).with_context(|| {
        format!(
            "--log-level {level:?} is not a level such as info, or a list such as info,hyper=debug"
        )
    })?;
    let filtered = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    match arguments.log_format {
        LogFormat::Text => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal());
            filtered.with(lines).init();
        }
        LogFormat::Json => filtered.with(lines.json()).init(),
    }
    Ok(levels)
}

/// Waits until somebody asks the process to end.
pub async fn stopped() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
