//! `run`: the controller.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::run as controller;

use crate::cli::{LogFormat, RunArgs};
use crate::command::connect;

/// Runs the controller. The verdict decides on the exit status of a single pass only.
pub fn run(arguments: &RunArgs) -> anyhow::Result<Option<Upgradeable>> {
    log(arguments)?;
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
        let (client, version) = connect(&arguments.cluster).await?;
        tracing::debug!(version, "connected");
        let options = controller::Options {
            namespace: arguments.namespace.clone(),
            operator_condition: arguments
                .operator_condition
                .clone()
                .filter(|name| !name.is_empty()),
            payload_dir: arguments.payload_dir.clone(),
            serve_address: arguments.serve_address.address(),
            once: arguments.once,
        };
        let controller = Box::pin(controller::run(client, options, stopped()));
        Ok::<_, anyhow::Error>(controller.await?)
    });
    // Connections to nodes are cut; the agents finish what they are at by themselves.
    runtime.shutdown_background();
    Ok(outcome?.filter(|_| arguments.once))
}

fn log(arguments: &RunArgs) -> anyhow::Result<()> {
    let filtered = tracing_subscriber::registry().with(filter(&arguments.log_level)?);
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
    Ok(())
}

/// What is logged. `EnvFilter` can do more, and brings regular expressions for it.
fn filter(level: &str) -> anyhow::Result<Targets> {
    // An empty part would mean errors only.
    let parts = level.split(',').map(str::trim);
    let mut parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    // The client's own warnings repeat ours, and show an answer that does not parse as it is, a Secret's too.
    if !level.contains("kube") {
        parts.extend(["kube_client=error", "kube_runtime=error"]);
    }
    parts.join(",").parse().with_context(|| {
        format!(
            "--log-level {level:?} is not a level such as info, or a list such as info,kube=debug"
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn empty_parts_and_blanks_of_a_log_level_mean_nothing() {
        for level in ["info", "info,", " info , kube=debug", ",info"] {
            let filter = filter(level).unwrap();
            assert!(
                filter.would_enable("windows_storage_operator", &Level::INFO),
                "{level}"
            );
            assert!(
                !filter.would_enable("windows_storage_operator", &Level::DEBUG),
                "{level}"
            );
            let is_asked_for = level.contains("kube");
            assert_eq!(
                filter.would_enable("kube_client", &Level::WARN),
                is_asked_for,
                "{level}"
            );
            assert_eq!(
                filter.would_enable("kube", &Level::DEBUG),
                is_asked_for,
                "{level}"
            );
        }
        assert!(filter("kube=loud").is_err());
    }
}
