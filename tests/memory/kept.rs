//! What stays allocated for each object, kind by kind, in the index and in the judgement that follows it.

use serde_json::Value;
use testbed::realistic::{self, Os, Owner};
use windows_storage_operator::assess::Assessment;
use windows_storage_operator::index::{Cluster, drop_unused_names};
use windows_storage_operator::objects::{Received, cluster_kinds};

/// Objects of each kind, enough for what they share to weigh nothing.
const COUNT: usize = 500;
const NODES: usize = 50;
const PODS_OF_SET: usize = 5;
const PODS_OF_DEPLOYMENT: usize = 10;

/// What is kept of a kind.
pub struct Kept {
    /// The kind, and of what.
    pub kind: &'static str,
    /// Bytes that stay allocated for each, as they were asked for: the allocator adds its own.
    pub bytes: usize,
    /// No more than this may stay.
    pub bound: usize,
}

/// A cluster that grows.
#[derive(Default)]
struct Growing {
    cluster: Cluster,
    assessment: Assessment,
    kept: Vec<Kept>,
}

impl Growing {
    /// Takes in objects as a watch does, has them judged, and notes what stays.
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
            self.assessment.update(&mut self.cluster);
        });
        // What was kept before may need less now.
        let bytes = usize::try_from(allocated.bytes_current).unwrap_or_default() / count;
        self.kept.push(Kept {
            kind: what,
            bytes,
            bound,
        });
    }

    fn of(&mut self, os: Os, bounds: &Bounds) {
        let uid = |kind: &str, number: usize| format!("{kind}-{os:?}-{number:024}");
        let placed = |number: usize, of: usize| (number / of, number % of);
        self.add("Node", bounds.node, NODES, |number| {
            let node = realistic::node(os, number);
            with(
                identified(node, &uid("node", number)),
                realistic::node_status(os, number),
            )
        });
        self.add("CSINode", bounds.csi_node, NODES, |number| {
            realistic::csi_node(os, number, "uid", number > 0)
        });
        self.add("Pod", bounds.driver_pod, NODES, |number| {
            let pod = realistic::driver_pod(os, number, &uid("driver", 0));
            with(pod, realistic::pod_status(number))
        });
        self.add("Deployment", bounds.deployment, COUNT, |number| {
            let deployment = realistic::deployment(os, number, PODS_OF_DEPLOYMENT);
            identified(deployment, &uid("deployment", number))
        });
        self.add("ReplicaSet", bounds.replica_set, COUNT, |number| {
            let above = uid("deployment", number);
            let set = realistic::replica_set(os, number, PODS_OF_DEPLOYMENT, 0, &above);
            identified(set, &uid("replicaset", number))
        });
        self.add("StatefulSet", bounds.stateful_set, COUNT, |number| {
            let set = realistic::stateful_set(os, number, PODS_OF_SET);
            identified(set, &uid("statefulset", number))
        });
        self.add("Pod", bounds.pod, COUNT, |number| {
            let (set, ordinal) = placed(number, PODS_OF_DEPLOYMENT);
            let name = realistic::workload_name(os, false, set);
            let owner = Owner {
                kind: "ReplicaSet",
                name: &name,
                uid: &uid("replicaset", set),
            };
            let node = realistic::node_name(os, number % NODES);
            let pod = realistic::stateless_pod(os, set, ordinal, &node, &owner);
            with(pod, realistic::pod_status(number))
        });
        self.add("PersistentVolume", bounds.volume, COUNT, |number| {
            let (set, ordinal) = placed(number, PODS_OF_SET);
            realistic::volume(os, set, ordinal)
        });
        self.add("PersistentVolumeClaim", bounds.claim, COUNT, |number| {
            let (set, ordinal) = placed(number, PODS_OF_SET);
            realistic::claim(os, set, ordinal)
        });
        self.add("Pod", bounds.pod_with_claim, COUNT, |number| {
            let (set, ordinal) = placed(number, PODS_OF_SET);
            let name = realistic::workload_name(os, true, set);
            let owner = Owner {
                kind: "StatefulSet",
                name: &name,
                uid: &uid("statefulset", set),
            };
            let node = realistic::node_name(os, number % NODES);
            let pod = realistic::stateful_pod(os, set, ordinal, &node, &owner);
            with(pod, realistic::pod_status(number))
        });
    }
}

/// The name of each row, and its bound.
struct Bounds {
    node: (&'static str, usize),
    csi_node: (&'static str, usize),
    driver_pod: (&'static str, usize),
    deployment: (&'static str, usize),
    replica_set: (&'static str, usize),
    stateful_set: (&'static str, usize),
    pod: (&'static str, usize),
    volume: (&'static str, usize),
    claim: (&'static str, usize),
    pod_with_claim: (&'static str, usize),
}

/// Kind by kind. The bounds are half as much again as was measured, and never below 200 B: what is kept twice does not
/// fit, and a pod on a Linux node is not kept at all.
pub fn measure() -> Vec<Kept> {
    let mut growing = Growing::default();
    growing.of(
        Os::Linux,
        &Bounds {
            node: ("Node, Linux", 760),
            csi_node: ("CSINode, Linux", 300),
            driver_pod: ("Pod of a CSI driver, Linux", 200),
            deployment: ("Deployment, Linux", 660),
            replica_set: ("ReplicaSet, Linux", 800),
            stateful_set: ("StatefulSet, Linux", 350),
            pod: ("Pod without storage, Linux", 200),
            volume: ("PersistentVolume, CSI", 200),
            claim: ("PersistentVolumeClaim, of CSI", 200),
            pod_with_claim: ("Pod with a claim, Linux", 200),
        },
    );
    growing.of(
        Os::Windows,
        &Bounds {
            node: ("Node, Windows", 1_850),
            csi_node: ("CSINode, Windows", 280),
            driver_pod: ("Pod of a CSI driver, Windows", 1_400),
            deployment: ("Deployment, Windows", 850),
            replica_set: ("ReplicaSet, Windows", 440),
            stateful_set: ("StatefulSet, Windows", 1_800),
            pod: ("Pod without storage, Windows", 610),
            volume: ("PersistentVolume, in-tree", 200),
            claim: ("PersistentVolumeClaim, of in-tree", 280),
            pod_with_claim: ("Pod with a claim, Windows, judged", 720),
        },
    );
    growing.kept
}

/// The object with another's top-level fields.
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
