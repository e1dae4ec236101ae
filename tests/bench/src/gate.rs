//! A client that records every write of an object and its time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::{BoxStream, StreamExt};
use http::{Method, Request};
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use testbed::objects::OPERATOR_CONDITION;

use crate::cluster;

/// A watch of the object of one name in one collection.
pub struct Watch {
    events: BoxStream<'static, kube::Result<WatchEvent<Value>>>,
}

impl Watch {
    /// Starts watching from the object's current version.
    pub async fn of(client: &Client, collection: &str, name: &str) -> Result<Self> {
        let object = Request::get(format!("{collection}/{name}")).body(Vec::new())?;
        let object: Value = client.request(object).await?;
        let version = object["metadata"]["resourceVersion"].as_str();
        let version = version.context("an object without resourceVersion")?;
        let request = Request::get(format!(
            "{collection}?watch=true&timeoutSeconds=3600&fieldSelector=metadata.name%3D{name}&resourceVersion={version}"
        ));
        let events = client.request_events(request.body(Vec::new())?).await?;
        let events = events.boxed();
        Ok(Self { events })
    }

    /// Returns the next write and when it was seen.
    pub async fn next(&mut self) -> Result<(Instant, Value)> {
        loop {
            let event = self.events.next().await.context("the watch has ended")??;
            let now = Instant::now();
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    return Ok((now, object));
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Deleted(_) => bail!("an object that is watched was deleted"),
                WatchEvent::Error(status) => bail!("the watch has failed: {}", status.message),
            }
        }
    }
}

/// Longer than the operator takes; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(300);

/// Watches the `OperatorCondition`.
pub struct GateWatch(Watch);

/// Collection of `OperatorCondition` objects in the operator's namespace.
const COLLECTION: &str =
    "/apis/operators.coreos.com/v2/namespaces/windows-storage-operator/operatorconditions";

impl GateWatch {
    /// Clears the conditions and watches from then on.
    pub async fn of_cleared(client: &Client) -> Result<Self> {
        let path = format!("{COLLECTION}/{OPERATOR_CONDITION}");
        let merge = "application/merge-patch+json";
        let cleared = json!({"spec": {"conditions": []}});
        cluster::send(client, Method::PATCH, &path, merge, cleared).await?;
        Ok(Self(
            Watch::of(client, COLLECTION, OPERATOR_CONDITION).await?,
        ))
    }

    /// Returns when an `Upgradeable` condition was seen for which `holds` is true.
    pub async fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Result<Instant> {
        let mut last = Value::Null;
        let seen = tokio::time::timeout(PATIENCE, async {
            loop {
                let (when, object) = self.0.next().await?;
                let conditions = object["spec"]["conditions"].as_array();
                let mut conditions = conditions.into_iter().flatten();
                let found = conditions.find(|condition| condition["type"] == "Upgradeable");
                last = found.cloned().unwrap_or_default();
                if holds(&last) {
                    return Ok::<_, anyhow::Error>(when);
                }
            }
        })
        .await;
        match seen {
            Ok(seen) => seen,
            Err(_) => bail!("the gate still says {last:?}"),
        }
    }
}
