//! Generates the controllers that create pods from templates.

use serde_json::{Value, json};

use super::pods::{Owner, pod_spec};
use super::storage::class_of;
use super::{Os, hash, labels, namespace, selector, workload_name};

/// Returns a Deployment.
pub fn deployment(os: Os, number: usize, replicas: usize) -> Value {
    owner("Deployment", os, false, number, replicas, None)
}

/// Returns one ReplicaSet of a Deployment; only the latest revision has pods.
pub fn replica_set(os: Os, number: usize, replicas: usize, revision: usize, uid: &str) -> Value {
    let name = workload_name(os, false, number);
    let above = Owner {
        kind: "Deployment",
        name: &name,
        uid,
    };
    let mut set = owner("ReplicaSet", os, false, number, replicas, Some(&above));
    set["metadata"]["name"] = json!(format!("{name}-{}", hash(revision, 9)));
    set
}

/// Returns a StatefulSet.
pub fn stateful_set(os: Os, number: usize, replicas: usize) -> Value {
    let mut set = owner("StatefulSet", os, true, number, replicas, None);
    set["spec"]["serviceName"] = json!(workload_name(os, true, number));
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": class_of(os), "resources": {"requests": {"storage": "32Gi"}}}}]);
    set
}

fn owner(
    kind: &'static str,
    os: Os,
    stateful: bool,
    number: usize,
    replicas: usize,
    above: Option<&Owner<'_>>,
) -> Value {
    let workload = workload_name(os, stateful, number);
    let mounts: &[(&str, &str)] = if stateful { &[("data", "/data")] } else { &[] };
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": workload, "namespace": namespace(number), "labels": labels(&workload),
            "annotations": {"deployment.kubernetes.io/revision": "3", "meta.helm.sh/release-name": workload, "meta.helm.sh/release-namespace": namespace(number)}},
        "spec": {"replicas": replicas, "selector": selector(&workload), "template": {
            "metadata": {"labels": labels(&workload), "annotations": {"prometheus.io/port": "9090", "prometheus.io/scrape": "true"}},
            "spec": pod_spec(os, &workload, mounts)}}});
    if let Some(above) = above {
        object["metadata"]["ownerReferences"] = above.reference();
    }
    object
}
