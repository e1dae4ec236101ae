//! windows-storage-operator: storage on the Windows nodes of a Kubernetes cluster.

mod cli;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use cli::{Cli, Command, LogFormat, RunArgs};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tracing_subscriber::EnvFilter;
use windows_storage_operator::assess::report::Upgradeable;
use windows_storage_operator::{api, run};

/// Not upgradeable, by the command line's contract.
const NOT_UPGRADEABLE: u8 = 3;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(arguments) => start(&arguments),
        Command::Crds(arguments) => crds(&arguments).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn crds(arguments: &cli::CrdsArgs) -> anyhow::Result<()> {
    for (name, text) in api::custom_resource_definitions() {
        match &arguments.dest_dir {
            Some(folder) => {
                let path = folder.join(name);
                std::fs::write(&path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => print!("---\n{text}"),
        }
    }
    Ok(())
}

fn start(arguments: &RunArgs) -> anyhow::Result<ExitCode> {
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
        let client = connect(arguments).await?;
        let options = run::Options {
            namespace: arguments.namespace.clone(),
            operator_condition: arguments
                .operator_condition
                .clone()
                .filter(|name| !name.is_empty()),
            payload_dir: arguments.payload_dir.clone(),
            serve_address: arguments.serve_address.address(),
            once: arguments.once,
        };
        Ok::<_, anyhow::Error>(run::run(client, options, stopped()).await?)
    });
    // Connections to nodes are cut; the agents finish what they are at by themselves.
    runtime.shutdown_background();
    match outcome? {
        Some(Upgradeable::False) if arguments.once => Ok(ExitCode::from(NOT_UPGRADEABLE)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn log(arguments: &RunArgs) -> anyhow::Result<()> {
    // The client's own warnings repeat ours, and show an answer that does not parse as it is, a Secret's too.
    let level = if arguments.log_level.contains("kube") {
        arguments.log_level.clone()
    } else {
        format!(
            "{},kube_client=error,kube_runtime=error",
            arguments.log_level
        )
    };
    let filter = EnvFilter::try_new(&level).with_context(|| {
        format!(
            "--log-level {:?} is not a level such as info, or a list such as info,kube=debug",
            arguments.log_level
        )
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    match arguments.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

async fn connect(arguments: &RunArgs) -> anyhow::Result<kube::Client> {
    let options = KubeConfigOptions {
        context: arguments.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match &arguments.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .context("the kubeconfig cannot be used")?
        }
        None if arguments.context.is_some() => kube::Config::from_kubeconfig(&options)
            .await
            .context("the kubeconfig cannot be used")?,
        None => kube::Config::infer()
            .await
            .context("found neither a kubeconfig nor a service account; give --kubeconfig")?,
    };
    let address = config.cluster_url.clone();
    let client =
        kube::Client::try_from(config).context("cannot set up the connection to the API server")?;
    let version = windows_storage_operator::deadline::call(
        "read the API server's version",
        client.apiserver_version(),
    )
    .await
    .with_context(|| format!("cannot reach the cluster at {address}"))?;
    tracing::debug!(version = version.git_version, %address, "connected");
    Ok(client)
}

async fn stopped() {
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
