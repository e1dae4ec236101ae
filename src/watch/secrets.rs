//! Reads the Secrets with SSH keys by their names, over and over. A watch would need the right to all Secrets of the
//! namespace, or a feed for each name.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::client::deadline::{self, CallError};
use crate::client::forbidden;
use crate::index::Secret;
use crate::watch::News;

/// How often they are read.
const EVERY: Duration = Duration::from_secs(5);

/// Reads the Secrets with these names for the owner of the index, over and over.
pub(super) async fn follow(
    api: Api<core::Secret>,
    mut names: watch::Receiver<BTreeSet<String>>,
    news: mpsc::Sender<News>,
) -> Infallible {
    let mut before = BTreeMap::new();
    loop {
        let wanted = names.borrow_and_update().clone();
        let reading = wanted.iter().map(async |name| {
            let secret = read(&api, name).await.unwrap_or_else(|error| {
                if error.is_forbidden() {
                    Secret::Forbidden(forbidden::account(&error.answer()))
                } else {
                    Secret::Unread(plain(&error))
                }
            });
            (name.clone(), secret)
        });
        let now: BTreeMap<_, _> = join_all(reading).await.into_iter().collect();
        for (name, secret) in &now {
            if let Secret::Forbidden(_) | Secret::Unread(_) = secret
                && before.get(name) != Some(secret)
            {
                // Shows no data.
                tracing::warn!("Secret {name} cannot be read: {secret:?}");
            }
        }
        if news.send(News::Secrets(now.clone())).await.is_err() {
            // The owner is gone, and this will be dropped.
            std::future::pending::<()>().await;
        }
        before = now;
        let _ = timeout(EVERY, names.changed()).await;
    }
}

/// Reads the Secret with this name.
pub async fn read(api: &Api<core::Secret>, name: &str) -> Result<Secret, CallError> {
    let secret = deadline::call("read Secret", api.get_opt(name)).await?;
    Ok(secret.map_or(Secret::Missing, Secret::from))
}

/// Returns what is wrong without the server's words: a broken server, or a proxy before it, may repeat the Secret.
fn plain(error: &CallError) -> String {
    let status = error.status();
    status.map_or_else(
        || error.to_string(),
        |code| format!("the API server answers {code}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_secret_nothing_is_shown_that_the_server_says() {
        let refused = |cause| CallError::Refused {
            what: "read Secret",
            cause: Box::new(cause),
        };
        let status = kube::core::Status::failure("canary", "canary").with_code(500);
        let error = refused(kube::Error::Api(Box::new(status)));
        assert!(error.answer().contains("canary"));
        assert_eq!(plain(&error), "the API server answers 500");
        let error = serde_json::from_str::<u8>(r#""canary""#).unwrap_err();
        assert!(error.to_string().contains("canary"));
        let shown = plain(&refused(kube::Error::SerdeError(error)));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
