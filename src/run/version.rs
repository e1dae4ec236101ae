//! The version of the API server, which changes when the cluster is upgraded.

use std::convert::Infallible;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::assess::versions::parse;
use crate::client::backoff;
use crate::client::deadline;

/// How often the version is read.
const PAUSE: Duration = Duration::from_secs(60);

/// Keeps the version up to date. If the API server does not answer, the last version stays. So does a newer one: while a
/// control plane is upgraded, servers of both versions answer.
pub async fn follow(client: &Client, version: &watch::Sender<String>) -> Infallible {
    loop {
        let asked = deadline::call("read the API server's version", client.apiserver_version());
        match asked.await {
            Ok(answer) => {
                version.send_if_modified(|known| {
                    let is_new =
                        *known != answer.git_version && parse(known) <= parse(&answer.git_version);
                    if is_new {
                        *known = answer.git_version;
                    }
                    is_new
                });
            }
            Err(error) => tracing::debug!("{error}"),
        }
        sleep(backoff::jittered(PAUSE)).await;
    }
}
