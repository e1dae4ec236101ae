//! Every state that objects have gone through, by a watch.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cluster::{CONDITION, Cluster, upgradeable};

/// Records each `OperatorCondition` of one namespace until it is dropped.
pub struct Record {
    seen: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Record {
    pub fn start(cluster: &Cluster, namespace: &str) -> Self {
        let seen = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&seen);
        let mut events = watcher(
            cluster.api(CONDITION, namespace),
            watcher::Config::default(),
        )
        .default_backoff()
        .boxed();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = event
                {
                    kept.lock().unwrap().push(json!(object));
                }
            }
        });
        Self { seen, task }
    }

    /// The status of the gate at each generation of that object, as its operator wrote it. A generation that the watch
    /// has missed is a failure.
    pub fn gates(&self, name: &str) -> Vec<(i64, String)> {
        let mut gates: Vec<(i64, String)> = Vec::new();
        for object in self.seen.lock().unwrap().iter() {
            if object["metadata"]["name"] != name {
                continue;
            }
            let generation = object["metadata"]["generation"].as_i64().unwrap();
            match gates.last() {
                Some((last, _)) if *last == generation => continue,
                Some((last, _)) => assert_eq!(last + 1, generation, "{name} has a gap: {gates:?}"),
                None => {}
            }
            let status = upgradeable(&object["spec"]["conditions"])["status"].as_str();
            gates.push((generation, status.unwrap_or("absent").to_owned()));
        }
        gates
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The phases that a CSV has gone through, by OLM's own record in it.
pub fn phases(csv: &Value) -> Vec<&str> {
    let history = csv["status"]["conditions"].as_array().unwrap();
    let mut phases: Vec<&str> = history
        .iter()
        .map(|entry| entry["phase"].as_str().unwrap())
        .collect();
    phases.dedup();
    phases
}
