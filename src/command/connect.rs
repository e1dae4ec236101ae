//! Connects to the cluster. Errors are reported without anything that may be a secret: a kubeconfig contains tokens and
//! passwords, and the program that it names prints them.

use std::error::Error;
use std::time::Duration;

use anyhow::{Context, anyhow};
use backon::{ExponentialBuilder, Retryable};
use http::Uri;
use jiff::Timestamp;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::time::sleep;
use windows_storage_operator::assess::report::About;
use windows_storage_operator::client::deadline::{self, CallError};
use windows_storage_operator::client::{self, Revisions, Trust};
use windows_storage_operator::http::Metrics;
use windows_storage_operator::lease::Fence;
use windows_storage_operator::report::about;
use windows_storage_operator::visible::visible;

use crate::cli::ClusterArgs;

/// A connection without any data for this long is dead: watches are renewed, and show that they are alive, sooner.
const SILENCE: Duration = Duration::from_secs(300);

/// How often a server that is too busy to answer is asked for its version again, a second later and longer each time; jitter adds
/// up to as much.
const RETRIES: usize = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// How often files with certificates are compared with their earlier content.
const COMPARED: Duration = Duration::from_secs(10);

/// Returns a client of the cluster, and the version of its API server.
pub async fn connect(arguments: &ClusterArgs) -> anyhow::Result<(Client, String)> {
    let config = configuration(arguments).await?;
    connect_by(
        config,
        Metrics::default(),
        Fence::open(),
        Revisions::default(),
    )
    .await
}

/// Returns what a report is about that is made of the cluster now.
pub async fn place(arguments: &ClusterArgs) -> anyhow::Result<About> {
    let config = configuration(arguments).await?;
    let kubeconfig = || match &arguments.kubeconfig {
        Some(path) => Kubeconfig::read_from(path).ok(),
        None => Kubeconfig::read().ok(),
    };
    let context = arguments.context.clone();
    Ok(About {
        server: Some(without_password(&config.cluster_url)),
        context: context.or_else(|| kubeconfig()?.current_context),
        ..about(Timestamp::now())
    })
}

/// Like [`connect`], but counts the client's requests, which change something only while the fence is open, and notes how far
/// its lists have come.
pub async fn connect_by(
    mut config: kube::Config,
    metrics: Metrics,
    fence: Fence,
    revisions: Revisions,
) -> anyhow::Result<(Client, String)> {
    config.read_timeout = Some(SILENCE);
    let address = without_password(&config.cluster_url);
    let client = client::client(config, metrics, fence, revisions).map_err(|error| {
        let problem = deadline::plain(&error);
        anyhow!("cannot set up the connection to {address}: {problem}")
    })?;
    let read = || {
        let reading = client.apiserver_version();
        deadline::call("read the API server's version", reading)
    };
    let pauses = ExponentialBuilder::new()
        .with_jitter()
        .with_max_delay(LONGEST_PAUSE)
        .with_max_times(RETRIES);
    let answer = read.retry(pauses).when(CallError::is_busy).await;
    let version = answer.with_context(|| format!("cannot reach the cluster at {address}"))?;
    Ok((client, version.git_version))
}

/// Waits until the files contain other authorities to trust, or another client certificate. Files that are being written
/// cannot be used, and change nothing.
pub async fn trust_changes(arguments: &ClusterArgs, trust: &Trust) {
    loop {
        sleep(COMPARED).await;
        match configuration(arguments).await {
            Ok(config) if trust.is_replaced_by(&config) => return,
            Ok(_) => {}
            Err(error) => tracing::debug!("what was read at the start stays: {error:#}"),
        }
    }
}

/// Returns the configuration of the selected cluster.
pub async fn configuration(arguments: &ClusterArgs) -> anyhow::Result<kube::Config> {
    let mut config = read_configuration(arguments).await?;
    if let Some(user) = &arguments.act_as {
        config.auth_info.impersonate = Some(user.clone());
    }
    if let Some(limit) = arguments.request_timeout {
        deadline::set_request_timeout(limit);
    }
    Ok(config)
}

async fn read_configuration(arguments: &ClusterArgs) -> anyhow::Result<kube::Config> {
    let ClusterArgs {
        kubeconfig,
        context,
        act_as: _,
        request_timeout: _,
    } = arguments;
    if kubeconfig.is_none() && context.is_none() {
        return kube::Config::infer().await.map_err(|error| {
            let cause = error.source().and_then(|cause| cause.downcast_ref());
            let problem = cause.map(explain).unwrap_or_default();
            match cause {
                None | Some(KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath) => anyhow!(
                    "found neither a kubeconfig ({problem}) nor a service account; give --kubeconfig"
                ),
                Some(_) => anyhow!("the kubeconfig cannot be used: {problem}"),
            }
        });
    }
    let options = KubeConfigOptions {
        context: context.clone(),
        ..KubeConfigOptions::default()
    };
    let read = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let used = match read {
        Ok(read) => kube::Config::from_custom_kubeconfig(read, &options).await,
        Err(error) => Err(error),
    };
    used.map_err(|error| {
        let path = kubeconfig.as_ref().map(|path| path.to_string_lossy());
        let path = path.map_or_else(String::new, |path| format!(" {}", visible(&path)));
        anyhow!("the kubeconfig{path} cannot be used: {}", explain(&error))
    })
}

/// Describes what is wrong with a kubeconfig, without its content.
fn explain(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(_) => {
            "it is no YAML, or has fields of another type than a kubeconfig; kubectl config view says where"
                .to_owned()
        }
        KubeconfigError::LoadClientKey(_) => "its client key cannot be read".to_owned(),
        KubeconfigError::LoadContext(name) => {
            format!("it has no context {}; see kubectl config get-contexts", visible(name))
        }
        other => visible(&other.to_string()),
    }
}

/// Returns the address without a user and password in it.
fn without_password(address: &Uri) -> String {
    let scheme = address.scheme_str().unwrap_or("https");
    let place = address.authority().map_or("", |place| place.as_str());
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let path = address.path().trim_end_matches('/');
    format!("{scheme}://{place}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (address, shown) in [
            (
                "https://admin:hunter2@example.com:6443/",
                "https://example.com:6443",
            ),
            (
                "https://example.com/k8s/clusters/c-1",
                "https://example.com/k8s/clusters/c-1",
            ),
        ] {
            assert_eq!(without_password(&address.parse().unwrap()), shown);
        }
    }
}
