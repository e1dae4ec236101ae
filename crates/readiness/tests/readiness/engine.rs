//! The judgement, fed as by a watch.

use readiness::assess::{Memory, assess, today};
use readiness::index::{Cluster, ReadFrom};
use readiness::objects::{self, Kind, Received, cluster_kinds};
use serde_json::Value;

use crate::cases;
use crate::run::{Subject, run};

/// A cluster that is judged after each event.
#[derive(Default)]
struct Engine {
    cluster: Cluster,
    memory: Memory,
}

fn received(object: &Value) -> (&'static Kind, Received) {
    let text = |field: &str| object[field].as_str().unwrap();
    let kind = objects::kind(text("apiVersion"), text("kind")).unwrap();
    (kind, serde_json::from_str(&object.to_string()).unwrap())
}

impl Engine {
    /// Marks all kinds as complete. The API server has the version of the newest kubelet.
    fn is_read(&mut self) {
        self.cluster.read_from = ReadFrom::Files;
        let version = today(&self.cluster).map(|today| format!("v1.{}.0", today.minor));
        self.cluster.read_from = ReadFrom::Api;
        self.cluster.api_server_version = version;
        for kind in cluster_kinds() {
            kind.table_mut(&mut self.cluster).finish();
        }
    }
}

impl Subject for Engine {
    fn upsert(&mut self, object: &Value) {
        let (kind, object) = received(object);
        kind.absorb(&mut self.cluster, &object);
        assert_eq!(kind.table(&self.cluster).problem(), None);
        self.memory.learn(&self.cluster);
    }

    fn delete(&mut self, object: &Value) {
        let (kind, object) = received(object);
        let meta = kube::Resource::meta(&object);
        kind.table_mut(&mut self.cluster).delete_object(meta);
        self.memory.learn(&self.cluster);
    }

    fn report(&mut self, target: Option<&str>) -> Value {
        self.is_read();
        let target = target.map(|target| target.parse().unwrap());
        let report = assess(&self.cluster, &self.memory, target);
        serde_json::to_value(report.to_json(&self.cluster)).unwrap()
    }
}

#[test]
fn the_engine_passes_the_cases() {
    let failures = cases::failures(|| Box::new(Engine::default()));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn files_that_evidently_lack_something_are_no_knowledge() {
    let failures = cases::failures_of_files();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn the_engine_agrees_with_the_oracle_after_every_event() {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (clusters, seed) = (number("CLUSTERS", 200), number("SEED", 1));
    run(&|| Box::new(Engine::default()), clusters, 25, seed.into());
}
