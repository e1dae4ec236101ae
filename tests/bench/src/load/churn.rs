//! Changes pods at a steady rate, as kubelets do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::cluster;

/// Requests in flight at a time. If this is not enough, the API server is behind, and the rate drops.
const IN_FLIGHT: usize = 64;
/// Stride between one pod and the next, so that consecutive changes are not to neighbouring pods.
const STRIDE: usize = 7_919;
const PATIENCE: Duration = Duration::from_secs(120);

/// Patches the status of one pod after the other until dropped.
pub struct Churn {
    counts: Arc<Counts>,
    task: JoinHandle<()>,
    started: Instant,
}

#[derive(Default)]
struct Counts {
    written: AtomicU32,
    failed: AtomicU32,
}

impl Churn {
    /// Starts changing all pods, spread evenly, at `per_second` changes a second.
    pub async fn start(client: &Client, per_second: u32) -> Result<Self> {
        let pods = pods(client).await?;
        ensure!(!pods.is_empty(), "there are no pods to change");
        let counts = Arc::new(Counts::default());
        let (client, shared) = (client.clone(), Arc::clone(&counts));
        let task = tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(IN_FLIGHT));
            let mut ticks = interval(Duration::from_secs(1) / per_second);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for number in 0.. {
                ticks.tick().await;
                // The semaphore is never closed.
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                    return;
                };
                let pod = pods[number * STRIDE % pods.len()].clone();
                let (client, counts) = (client.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    let count = match change(&client, &pod, number).await {
                        Ok(()) => &counts.written,
                        Err(_) => &counts.failed,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                    drop(slot);
                });
            }
        });
        let started = Instant::now();
        Ok(Self {
            counts,
            task,
            started,
        })
    }

    /// Waits until `changes` changes have been written since the start.
    pub async fn reach(&self, changes: u32) -> Result<()> {
        let reached = async {
            while self.counts.written.load(Ordering::Relaxed) < changes {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        reached.with_context(|| format!("{changes} changes of pods were not written"))
    }

    /// Returns the changes per second so far, or an error if any could not be written.
    pub fn rate(&self) -> Result<f64> {
        let failed = self.counts.failed.load(Ordering::Relaxed);
        ensure!(failed == 0, "{failed} changes of pods could not be written");
        let written = self.counts.written.load(Ordering::Relaxed);
        Ok(f64::from(written) / self.started.elapsed().as_secs_f64())
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the paths of all pods.
async fn pods(client: &Client) -> Result<Vec<String>> {
    let api: Api<Pod> = Api::all(client.clone());
    let mut page = ListParams::default().limit(500);
    let mut paths = Vec::new();
    loop {
        let list = api.list_metadata(&page).await.context("listing pods")?;
        paths.extend(list.items.iter().map(|pod| {
            let namespace = pod.namespace().unwrap_or_default();
            format!("/api/v1/namespaces/{namespace}/pods/{}", pod.name_any())
        }));
        match list.metadata.continue_ {
            Some(rest) if !rest.is_empty() => page.continue_token = Some(rest),
            _ => return Ok(paths),
        }
    }
}

/// Toggles a pod's readiness, as its kubelet does.
async fn change(client: &Client, pod: &str, number: usize) -> Result<()> {
    let (status, reason) = match number % 2 {
        0 => ("False", "ContainersNotReady"),
        _ => ("True", "ContainersReady"),
    };
    let condition = json!({"type": "Ready", "status": status, "reason": reason, "message": format!("change {number}")});
    let change = json!({"status": {"conditions": [condition]}});
    let path = format!("{pod}/status?fieldManager=kubelet");
    let merge = "application/strategic-merge-patch+json";
    cluster::send(client, Method::PATCH, &path, merge, change).await?;
    Ok(())
}
