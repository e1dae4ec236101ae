//! Measures how much memory stays allocated per object of each kind, in the index and in the report.

use serde_json::Value;
use testbed::realistic::{self, Os, Owner};
use windows_storage_operator::assess::{Memory, Report, assess};
use windows_storage_operator::index::{Cluster, drop_unused_names};
use windows_storage_operator::objects::{Received, cluster_kinds};

/// Objects of each kind, enough to make what they share negligible.
const COUNT: usize = 500;
const NODES: usize = 50;
const PODS_OF_SET: usize = 5;
const PODS_OF_DEPLOYMENT: usize = 10;

/// The figure of one kind.
pub struct Kept {
    /// The kind of object, with its platform or role.
    pub kind: &'static str,
    /// Bytes per object as requested; the allocator's own overhead is not included.
    pub bytes: usize,
    /// Maximum number of bytes per object.
    pub bound: usize,
}

/// A cluster that grows.
#[derive(Default)]
struct Growing {
    cluster: Cluster,
    memory: Memory,
    report: Option<Report>,
    kept: Vec<Kept>,
}

impl Growing {
    /// Adds objects as a watch does, assesses the cluster, and records what stays allocated.
    fn add(
        &mut self,
        name: &str,
        (what, bound): (&'static str, usize),
        count: usize,
        object: impl Fn(usize) -> Value,
    ) {
        let kind = cluster_kinds().find(|kind| kind.name() == name).unwrap();
        let allocated = allocation_counter::measure(|| {
            for number in 0..count {
                let text = object(number).to_string();
                let object: Received = serde_json::from_str(&text).unwrap();
                kind.absorb(&mut self.cluster, &object);
            }
            let table = kind.table_mut(&mut self.cluster);
            table.finish();
            assert_eq!(table.problem(), None, "{what} cannot be read");
            drop_unused_names();
            self.memory.learn(&self.cluster);
            self.report = Some(assess(&self.cluster, &self.memory, None));
        });
        // Objects kept earlier may now need less.
        let bytes = usize::try_from(allocated.bytes_current).unwrap_or_default() / count;
        self.kept.push(Kept {
            kind: what,
            bytes,
            bound,
        });
    }

    /// Adds all kinds of objects. The bounds are in the order of the calls, each with the name of its row.
    fn of(&mut self, os: Os, bounds: [(&'static str, usize); 10]) {
        let mut bounds = bounds.into_iter();
        let mut next = || bounds.next().unwrap();
        let uid = |kind: &str, number: usize| format!("{kind}-{os:?}-{number:024}");
        let placed = |number: usize, of: usize| (number / of, number % of);
        self.add("Node", next(), NODES, |number| {
            let node = realistic::node(os, number);
            with(
                identified(node, &uid("node", number)),
                realistic::node_status(os, number),
            )
        });
        self.add("CSINode", next(), NODES, |number| {
            realistic::csi_node(os, number, "uid", number > 0)
        });
        self.add("Pod", next(), NODES, |number| {
            let pod = realistic::driver_pod(os, number, &uid("driver", 0));
            with(pod, realistic::pod_status(number))
        });
        self.add("Deployment", next(), COUNT, |number| {
            let deployment = realistic::deployment(os, number, PODS_OF_DEPLOYMENT);
            identified(deployment, &uid("deployment", number))
        });
        self.add("ReplicaSet", next(), COUNT, |number| {
            let above = uid("deployment", number);
            let set = realistic::replica_set(os, number, PODS_OF_DEPLOYMENT, 0, &above);
            identified(set, &uid("replicaset", number))
        });
        self.add("StatefulSet", next(), COUNT, |number| {
            let set = realistic::stateful_set(os, number, PODS_OF_SET);
            identified(set, &uid("statefulset", number))
        });
        self.add("Pod", next(), COUNT, |number| {
            let (set, ordinal) = placed(number, PODS_OF_DEPLOYMENT);
            let (name, uid) = (
                realistic::workload_name(os, false, set),
                uid("replicaset", set),
            );
            let owner = Owner {
                kind: "ReplicaSet",
                name: &name,
                uid: &uid,
            };
            let node = realistic::node_name(os, number % NODES);
            let pod = realistic::stateless_pod(os, set, ordinal, &node, &owner);
            with(pod, realistic::pod_status(number))
        });
        self.add("PersistentVolume", next(), COUNT, |number| {
            let (set, ordinal) = placed(number, PODS_OF_SET);
            realistic::volume(os, set, ordinal)
        });
        self.add("PersistentVolumeClaim", next(), COUNT, |number| {
            let (set, ordinal) = placed(number, PODS_OF_SET);
            realistic::claim(os, set, ordinal)
        });
        self.add("Pod", next(), COUNT, |number| {
            let (set, ordinal) = placed(number, PODS_OF_SET);
            let (name, uid) = (
                realistic::workload_name(os, true, set),
                uid("statefulset", set),
            );
            let owner = Owner {
                kind: "StatefulSet",
                name: &name,
                uid: &uid,
            };
            let node = realistic::node_name(os, number % NODES);
            let pod = realistic::stateful_pod(os, set, ordinal, &node, &owner);
            with(pod, realistic::pod_status(number))
        });
    }
}

/// Measures all kinds. The bounds are 1.5 times the measured figures and at least 200 B, so an object that is kept
/// twice exceeds them.
pub fn measure() -> Vec<Kept> {
    let mut growing = Growing::default();
    growing.of(
        Os::Linux,
        [
            ("Node, Linux", 1_240),
            ("CSINode, Linux", 300),
            ("Pod of a CSI driver, Linux", 770),
            ("Deployment, Linux", 660),
            ("ReplicaSet, Linux", 800),
            ("StatefulSet, Linux", 350),
            ("Pod without storage, Linux", 330),
            ("PersistentVolume, CSI", 200),
            ("PersistentVolumeClaim, of CSI", 200),
            ("Pod with a claim, Linux", 200),
        ],
    );
    growing.of(
        Os::Windows,
        [
            ("Node, Windows", 1_850),
            ("CSINode, Windows", 280),
            ("Pod of a CSI driver, Windows", 1_400),
            ("Deployment, Windows", 850),
            ("ReplicaSet, Windows", 440),
            ("StatefulSet, Windows", 1_800),
            ("Pod without storage, Windows", 610),
            ("PersistentVolume, in-tree", 200),
            ("PersistentVolumeClaim, of in-tree", 280),
            ("Pod with a claim, Windows, judged", 1_400),
        ],
    );
    growing.kept
}

/// Returns the object with the top-level fields of another one added.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut object, more) {
        fields.extend(more);
    }
    object
}

fn identified(mut object: Value, uid: &str) -> Value {
    object["metadata"]["uid"] = uid.into();
    object
}
