//! The version of the API server, which changes when the cluster is upgraded.

use std::convert::Infallible;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::assess::versions::parse;
use crate::client::{backoff, deadline};

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
                    let takes = replaces(&answer.git_version, known);
                    if takes {
                        *known = answer.git_version;
                    }
                    takes
                });
            }
            Err(error) => tracing::debug!("{error}"),
        }
        sleep(backoff::jittered(PAUSE)).await;
    }
}

fn replaces(answer: &str, known: &str) -> bool {
    answer != known && parse(known) <= parse(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_does_not_take_the_version_back() {
        for (known, answer, expected) in [
            ("v1.29.3", "v1.30.1", true),
            ("v1.30.1", "v1.30.1+k3s1", true),
            ("unknown", "v1.29.3", true),
            ("v1.30.1", "v1.30.1", false),
            ("v1.30.1", "v1.29.3", false),
            ("v1.30.1", "unknown", false),
        ] {
            assert_eq!(replaces(answer, known), expected, "{known} {answer}");
        }
    }
}
