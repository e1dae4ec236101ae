//! The way to the cluster. What goes wrong on it is told without anything that may be a secret: a kubeconfig holds
//! tokens and passwords, and the program that it names prints them.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use windows_storage_operator::lease::Fence;
use windows_storage_operator::serve::Metrics;
use windows_storage_operator::visible::visible;
use windows_storage_operator::{backoff, client, deadline};

use crate::cli::ClusterArgs;

/// A connection on which nothing comes for so long is dead: watches are renewed, and say that they live, sooner.
const SILENCE: Duration = Duration::from_secs(300);

/// How often a server is asked for its version that is too busy to tell, and the pauses between.
const ATTEMPTS: u32 = 5;
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// A client of the cluster, and the version of its API server.
pub async fn connect(arguments: &ClusterArgs) -> anyhow::Result<(kube::Client, String)> {
    connect_operator(arguments, Metrics::default(), Fence::open()).await
}

/// The same for the operator: the client's requests are counted, and change something only while the fence is open.
pub async fn connect_operator(
    arguments: &ClusterArgs,
    metrics: Metrics,
    fence: Fence,
) -> anyhow::Result<(kube::Client, String)> {
    let mut config = configuration(arguments).await?;
    config.read_timeout = Some(SILENCE);
    let address = without_password(&config.cluster_url);
    let client = client::operator_client(config, metrics, fence).map_err(|error| {
        let problem = deadline::plain(&error);
        anyhow!("cannot set up the connection to {address}: {problem}")
    })?;
    let mut attempt = 1;
    let answer = loop {
        let what = "read the API server's version";
        match deadline::call(what, client.apiserver_version()).await {
            Err(error) if error.is_busy() && attempt < ATTEMPTS => {
                tokio::time::sleep(backoff::pause(attempt, PAUSES.0, PAUSES.1)).await;
                attempt += 1;
            }
            answer => break answer,
        }
    };
    let version = answer.with_context(|| format!("cannot reach the cluster at {address}"))?;
    Ok((client, version.git_version))
}

async fn configuration(arguments: &ClusterArgs) -> anyhow::Result<kube::Config> {
    let options = KubeConfigOptions {
        context: arguments.context.clone(),
        ..KubeConfigOptions::default()
    };
    let used = match &arguments.kubeconfig {
        Some(path) => from_kubeconfig(Kubeconfig::read_from(path), &options).await,
        None if arguments.context.is_some() => from_kubeconfig(Kubeconfig::read(), &options).await,
        None => {
            let inferred = kube::Config::infer()
                .await
                .map(|config| match Kubeconfig::read() {
                    Ok(kubeconfig) => with_authority_file(config, &kubeconfig, &options),
                    // The library has found a service account.
                    Err(_) => config,
                });
            return inferred.map_err(|error| {
                let kubeconfig = error.source().and_then(|cause| cause.downcast_ref());
                let problem = kubeconfig.map(explain).unwrap_or_default();
                match kubeconfig {
                    None | Some(KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath) => {
                        anyhow!(
                            "found neither a kubeconfig ({problem}) nor a service account; give --kubeconfig"
                        )
                    }
                    Some(_) => anyhow!("the kubeconfig cannot be used: {problem}"),
                }
            });
        }
    };
    used.map_err(|error| match &arguments.kubeconfig {
        Some(path) => anyhow!(
            "kubeconfig {} cannot be used: {}",
            visible(&path.to_string_lossy()),
            explain(&error)
        ),
        None => anyhow!("the kubeconfig cannot be used: {}", explain(&error)),
    })
}

async fn from_kubeconfig(
    kubeconfig: Result<Kubeconfig, KubeconfigError>,
    options: &KubeConfigOptions,
) -> Result<kube::Config, KubeconfigError> {
    let kubeconfig = kubeconfig?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig.clone(), options).await?;
    Ok(with_authority_file(config, &kubeconfig, options))
}

/// Names the file of authorities, which the library has read and forgotten: it is looked at again.
fn with_authority_file(
    mut config: kube::Config,
    kubeconfig: &Kubeconfig,
    options: &KubeConfigOptions,
) -> kube::Config {
    if config.root_cert_file.is_none() {
        config.root_cert_file = authority_file(kubeconfig, options.context.as_ref());
    }
    config
}

fn authority_file(kubeconfig: &Kubeconfig, context: Option<&String>) -> Option<PathBuf> {
    let context = context.or(kubeconfig.current_context.as_ref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts
        .find(|named| named.name == *context)?
        .context
        .as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| named.name == context.cluster)?;
    let cluster = cluster.cluster.as_ref()?;
    // What stands in the kubeconfig itself goes before a file.
    let is_inline = cluster.certificate_authority_data.is_some();
    let file = cluster.certificate_authority.as_ref();
    file.filter(|_| !is_inline).map(PathBuf::from)
}

/// What is wrong with a kubeconfig, without what it holds.
fn explain(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(cause, path) => {
            format!("{}: {cause}", visible(&path.to_string_lossy()))
        }
        KubeconfigError::Parse(_) => {
            "it is no YAML, or has fields of another type than a kubeconfig; kubectl config view says where"
                .to_owned()
        }
        KubeconfigError::ParseClusterUrl(_) => "its server is no address".to_owned(),
        KubeconfigError::ParseProxyUrl(_) => "its proxy-url is no address".to_owned(),
        KubeconfigError::LoadCertificateAuthority(_) => {
            "its certificate authority cannot be read".to_owned()
        }
        KubeconfigError::LoadClientCertificate(_) => {
            "its client certificate cannot be read".to_owned()
        }
        KubeconfigError::LoadClientKey(_) => "its client key cannot be read".to_owned(),
        KubeconfigError::ParseCertificates(_) => {
            "one of its certificates is no PEM certificate".to_owned()
        }
        KubeconfigError::LoadContext(name) => {
            format!("it has no context {}; see kubectl config get-contexts", visible(name))
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("it has no cluster {}, which the context names", visible(name))
        }
        KubeconfigError::CurrentContextNotSet => {
            "it has no current context; give --context".to_owned()
        }
        other => visible(&other.to_string()),
    }
}

/// The address without the user and password that may stand in it.
fn without_password(address: &Uri) -> String {
    let scheme = address.scheme_str().unwrap_or("https");
    let host = address.host().unwrap_or_default();
    let port = address
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{scheme}://{host}{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_authorities_is_that_of_the_context() {
        let text = r"
clusters:
- {name: a, cluster: {server: 'https://a', certificate-authority: /a.crt}}
- {name: b, cluster: {server: 'https://b', certificate-authority: /b.crt, certificate-authority-data: Qg==}}
- {name: c, cluster: {server: 'https://c'}}
contexts:
- {name: in-a, context: {cluster: a, user: none}}
- {name: in-b, context: {cluster: b, user: none}}
- {name: in-c, context: {cluster: c, user: none}}
current-context: in-a
";
        let kubeconfig = Kubeconfig::from_yaml(text).unwrap();
        let file = |context: Option<&str>| {
            authority_file(&kubeconfig, context.map(str::to_owned).as_ref())
        };
        assert_eq!(file(None), Some(PathBuf::from("/a.crt")));
        assert_eq!(file(Some("in-a")), Some(PathBuf::from("/a.crt")));
        for none in ["in-b", "in-c", "in-d"] {
            assert_eq!(file(Some(none)), None, "{none}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let address = "https://admin:hunter2@example.com:6443/path"
            .parse()
            .unwrap();
        assert_eq!(without_password(&address), "https://example.com:6443");
    }
}
