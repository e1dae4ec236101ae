//! The judgement that the operator runs, fed like a watch feeds it.

use readiness::api::WindowsStorage;
use readiness::assess::Assessment;
use readiness::index::{Cluster, ReadFrom, Table};
use readiness::objects::{
    ClaimObject, ClassObject, CronJobObject, CsiDriverObject, CsiNodeObject, DaemonSetObject,
    DeploymentObject, JobObject, NodeObject, Object, PodObject, ReplicaSetObject,
    ReplicationControllerObject, RuntimeClassObject, StatefulSetObject, VolumeObject, decode,
};
use serde_json::Value;

use crate::cases;
use crate::run::{Subject, run};

/// A judgement that lasts from event to event.
#[derive(Default)]
struct Engine {
    cluster: Cluster,
    assessment: Assessment,
}

/// Does the same for the type of an object, whatever kind it is of.
macro_rules! with_kind {
    ($object:expr, $do:ident, $($argument:expr),*) => {
        match $object["kind"].as_str().unwrap() {
            "Node" => $do::<NodeObject>($($argument),*),
            "CSINode" => $do::<CsiNodeObject>($($argument),*),
            "CSIDriver" => $do::<CsiDriverObject>($($argument),*),
            "Pod" => $do::<PodObject>($($argument),*),
            "PersistentVolumeClaim" => $do::<ClaimObject>($($argument),*),
            "PersistentVolume" => $do::<VolumeObject>($($argument),*),
            "StorageClass" => $do::<ClassObject>($($argument),*),
            "RuntimeClass" => $do::<RuntimeClassObject>($($argument),*),
            "CronJob" => $do::<CronJobObject>($($argument),*),
            "DaemonSet" => $do::<DaemonSetObject>($($argument),*),
            "Deployment" => $do::<DeploymentObject>($($argument),*),
            "Job" => $do::<JobObject>($($argument),*),
            "ReplicaSet" => $do::<ReplicaSetObject>($($argument),*),
            "ReplicationController" => $do::<ReplicationControllerObject>($($argument),*),
            "StatefulSet" => $do::<StatefulSetObject>($($argument),*),
            "WindowsStorage" => $do::<WindowsStorage>($($argument),*),
            other => panic!("{other} is not fed to the engine"),
        }
    };
}

fn put<K: Object>(cluster: &mut Cluster, object: &Value) {
    let object: K = decode(object).unwrap();
    let key = K::key(object.meta());
    match object.row() {
        Some(row) => K::table(cluster).apply(key, row),
        None => K::table(cluster).delete(&key),
    };
}

fn remove<K: Object>(cluster: &mut Cluster, object: &Value) {
    let object: K = decode(object).unwrap();
    K::table(cluster).delete(&K::key(object.meta()));
}

impl Engine {
    /// All kinds have been read, but a cluster without a Node cannot have been read whole.
    fn is_read(&mut self) {
        let cluster = &mut self.cluster;
        cluster.read_from = ReadFrom::Files;
        cluster.csi_nodes.finish();
        cluster.csi_drivers.finish();
        cluster.pods.finish();
        cluster.claims.finish();
        cluster.volumes.finish();
        cluster.classes.finish();
        cluster.runtime_classes.finish();
        cluster.settings.finish();
        for (_, table) in cluster.owners.tables_mut() {
            table.finish();
        }
        if cluster.nodes.is_empty() {
            cluster.nodes = Table::default();
        } else {
            cluster.nodes.finish();
        }
    }
}

impl Subject for Engine {
    fn upsert(&mut self, object: &Value) {
        with_kind!(object, put, &mut self.cluster, object);
        self.assessment.update(&mut self.cluster);
    }

    fn delete(&mut self, object: &Value) {
        with_kind!(object, remove, &mut self.cluster, object);
        self.assessment.update(&mut self.cluster);
    }

    fn report(&mut self) -> Value {
        self.is_read();
        serde_json::to_value(self.assessment.report(&self.cluster)).unwrap()
    }
}

#[test]
fn the_engine_passes_the_cases() {
    let failures = cases::failures(|| Box::new(Engine::default()));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn the_engine_agrees_with_the_oracle_after_every_event() {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (clusters, seed) = (number("CLUSTERS", 2000), number("SEED", 1));
    run(|| Box::new(Engine::default()), clusters, 25, seed.into());
}
