//! Owners of pods and workloads, which only controllers can claim.

use super::*;

fn owned(mut object: Value, version: &str, kind: &str) -> Value {
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": version, "kind": kind, "name": "d", "uid": "u", "controller": true}]);
    object
}

#[test]
fn what_a_controller_makes_from_a_checked_template_goes_on() {
    let Some(control_plane) = enforced() else {
        return;
    };
    let pod = pod("shop", &windows(&in_tree("azureDisk")));
    let [replica_set, job] = children();
    for (controller, child, version, kind) in [
        ("replicaset-controller", &pod, "apps/v1", "ReplicaSet"),
        ("statefulset-controller", &pod, "apps/v1", "StatefulSet"),
        ("daemon-set-controller", &pod, "apps/v1", "DaemonSet"),
        ("job-controller", &pod, "batch/v1", "Job"),
        (
            "replication-controller",
            &pod,
            "v1",
            "ReplicationController",
        ),
        (
            "deployment-controller",
            &replica_set,
            "apps/v1",
            "Deployment",
        ),
        ("cronjob-controller", &job, "batch/v1", "CronJob"),
    ] {
        let name = format!("system:serviceaccount:kube-system:{controller}");
        let who = (&*name, &[][..]);
        let taken = by(control_plane, who, &owned(child.clone(), version, kind));
        assert!(taken.is_silent(), "{controller}: {taken:?}");
        let refused = by(control_plane, who, child);
        assert!(refused.is_refused("in-tree volumes"), "{refused:?}");
    }
}

#[test]
fn others_cannot_claim_an_owner() {
    let Some(control_plane) = enforced() else {
        return;
    };
    let spec = windows(&in_tree("azureDisk"));
    let pod = pod("shop", &spec);
    let [replica_set, job] = children();
    // Owners of which nobody has checked a template, even if an administrator says so.
    let mut other = owned(pod.clone(), "apps/v1", "ReplicaSet");
    other["metadata"]["ownerReferences"][0]["controller"] = false.into();
    for object in [
        other,
        owned(pod.clone(), "v1", "ConfigMap"),
        owned(pod.clone(), "batch.example.com/v1", "Job"),
        owned(replica_set.clone(), "apps/v1", "ReplicaSet"),
        owned(deployment("shop", &spec), "apps/v1", "Deployment"),
        owned(cron_job("shop", &spec), "batch/v1", "CronJob"),
    ] {
        let refused = to_new(control_plane, &object);
        assert!(refused.is_refused("in-tree volumes"), "{refused:?}");
    }
    // All rights in a namespace are not enough.
    let binding = "create rolebinding tenants --clusterrole=cluster-admin --group=tenants -n shop";
    assert!(said_of(control_plane, binding).is_taken);
    let tenant = ("eve", &["tenants"][..]);
    let harmless = self::pod("shop", &json!({}));
    eventually("the tenant may create pods", || {
        by(control_plane, tenant, &harmless).is_silent()
    });
    for object in [
        owned(pod.clone(), "apps/v1", "ReplicaSet"),
        owned(pod, "v1", "ReplicationController"),
        owned(replica_set, "apps/v1", "Deployment"),
        owned(job, "batch/v1", "CronJob"),
    ] {
        let refused = by(control_plane, tenant, &object);
        assert!(refused.is_refused("in-tree volumes"), "{refused:?}");
    }
}

/// Returns a ReplicaSet as a Deployment has it, and a Job as a CronJob has it.
fn children() -> [Value; 2] {
    let spec = windows(&in_tree("azureDisk"));
    let mut replica_set = deployment("shop", &spec);
    replica_set["kind"] = "ReplicaSet".into();
    let mut job = cron_job("shop", &spec);
    job["kind"] = "Job".into();
    job["spec"] = job["spec"]["jobTemplate"]["spec"].clone();
    [replica_set, job]
}
