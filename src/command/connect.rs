//! The way to the cluster.

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::cli::ClusterArgs;

/// A client of the cluster, and the version of its API server.
pub async fn connect(arguments: &ClusterArgs) -> anyhow::Result<(kube::Client, String)> {
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
    Ok((client, version.git_version))
}
