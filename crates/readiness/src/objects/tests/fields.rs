//! Fields of the wrong type, and fields that are null.

use super::*;

#[test]
fn a_field_of_the_wrong_type_is_an_error_that_names_it() {
    for (field, object) in [
        ("spec.nodeName", pod(&json!({"nodeName": 1}))),
        (
            "spec.volumes[1].name",
            pod(&json!({"volumes": [{"name": "a"}, {"name": 2}]})),
        ),
        (
            "spec.volumes[0].persistentVolumeClaim.claimName",
            pod(&json!({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": []}}]})),
        ),
        (
            "spec.volumes[0].hostPath.path",
            pod(&json!({"volumes": [{"name": "a", "hostPath": {"path": 1}}]})),
        ),
        (
            "spec.volumes[0].csi.driver",
            pod(&json!({"volumes": [{"name": "a", "csi": {"driver": {}}}]})),
        ),
        (
            "spec.nodeSelector.a",
            pod(&json!({"nodeSelector": {"a": true}})),
        ),
        ("spec.os.name", pod(&json!({"os": {"name": 5}}))),
        (
            "spec.containers[0].args[1]",
            pod(&json!({"containers": [{"args": ["-v", 5]}]})),
        ),
        (
            "spec.initContainers[0].image",
            pod(&json!({"initContainers": [{"image": 5}]})),
        ),
        (
            "spec.tolerations[0].key",
            pod(&json!({"tolerations": [{"key": 5}]})),
        ),
        (
            "status.phase",
            object("v1", "Pod", json!({"status": {"phase": 1}})),
        ),
    ] {
        is_at(&object, field);
    }
}

#[test]
fn so_it_is_in_names_and_templates() {
    let template = |spec: Value| json!({"template": {"spec": spec}});
    for (field, object) in [
        (
            "metadata.name",
            object("v1", "Pod", json!({"metadata": {"name": 1}})),
        ),
        (
            "metadata.name",
            object("v1", "Pod", json!({"metadata": {}})),
        ),
        (
            "metadata.name",
            object("v1", "Pod", json!({"metadata": {"name": ""}})),
        ),
        (
            "spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.storageClassName",
            object(
                "apps/v1",
                "Deployment",
                json!({"spec": template(json!({"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": 1}}}}]}))}),
            ),
        ),
        (
            "spec.volumeClaimTemplates[0].metadata.name",
            object(
                "apps/v1",
                "StatefulSet",
                json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": 1}}]}}),
            ),
        ),
        (
            "spec.jobTemplate.spec.template.spec.runtimeClassName",
            object(
                "batch/v1",
                "CronJob",
                json!({"spec": {"jobTemplate": {"spec": template(json!({"runtimeClassName": 1}))}}}),
            ),
        ),
        (
            "status.conditions[0].status",
            object(
                "batch/v1",
                "Job",
                json!({"status": {"conditions": [{"type": "Complete", "status": true}]}}),
            ),
        ),
    ] {
        is_at(&object, field);
    }
}

#[test]
fn so_it_is_in_what_stores_and_serves() {
    for (field, object) in [
        (
            "spec.volumeName",
            object(
                "v1",
                "PersistentVolumeClaim",
                json!({"spec": {"volumeName": 1}}),
            ),
        ),
        (
            "spec.csi.driver",
            object(
                "v1",
                "PersistentVolume",
                json!({"spec": {"csi": {"driver": 1}}}),
            ),
        ),
        (
            "provisioner",
            object(
                "storage.k8s.io/v1",
                "StorageClass",
                json!({"provisioner": 1}),
            ),
        ),
        (
            "spec.drivers[0].name",
            object(
                "storage.k8s.io/v1",
                "CSINode",
                json!({"spec": {"drivers": [{"name": null}]}}),
            ),
        ),
        (
            "spec.taints[0].effect",
            object(
                "v1",
                "Node",
                json!({"spec": {"taints": [{"key": "a", "effect": 1}]}}),
            ),
        ),
        (
            "status.nodeInfo.kubeletVersion",
            object(
                "v1",
                "Node",
                json!({"status": {"nodeInfo": {"kubeletVersion": 1.3}}}),
            ),
        ),
        (
            "scheduling.nodeSelector",
            object(
                "node.k8s.io/v1",
                "RuntimeClass",
                json!({"scheduling": {"nodeSelector": []}}),
            ),
        ),
        (
            "data.csi-windows-support",
            object(
                "v1",
                "ConfigMap",
                json!({
            "metadata": {"namespace": "a", "name": "internal-feature-states.csi.vsphere.vmware.com"},
            "data": {"csi-windows-support": true}}),
            ),
        ),
    ] {
        is_at(&object, field);
    }
}

#[track_caller]
fn is_at(object: &Value, field: &str) {
    let error = load(std::slice::from_ref(object)).err();
    let found = error.map(|error| error.field);
    assert_eq!(found.as_deref(), Some(field), "{object}");
}

#[test]
fn an_in_tree_field_of_the_wrong_type_is_named_with_its_volume() {
    let error = load(&[pod(
        &json!({"volumes": [{"name": "a"}, {"name": "b", "azureDisk": "d"}]}),
    )])
    .unwrap_err();
    assert_eq!(error.field, "spec.volumes[1]");
    assert!(error.what.contains("azureDisk"), "{error}");
    let error = load(&[object(
        "v1",
        "PersistentVolume",
        json!({"spec": {"rbd": 1}}),
    )])
    .unwrap_err();
    assert!(error.to_string().contains("rbd"), "{error}");
}

#[test]
fn null_is_the_same_as_nothing_everywhere() {
    let spec = json!({
        "nodeName": null, "os": null, "nodeSelector": null, "affinity": null, "runtimeClassName": null, "volumes": null,
        "containers": null, "initContainers": null, "tolerations": null,
    });
    let nulls = json!({"spec": null, "status": null, "data": null, "provisioner": null, "scheduling": null});
    for (api_version, kind) in [
        ("v1", "Node"),
        ("v1", "Pod"),
        ("v1", "PersistentVolume"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "ReplicationController"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "CronJob"),
        ("batch/v1", "Job"),
        ("storage.k8s.io/v1", "CSIDriver"),
        ("storage.k8s.io/v1", "CSINode"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("node.k8s.io/v1", "RuntimeClass"),
    ] {
        assert!(is_used(api_version, kind), "{kind}");
        load(&[object(api_version, kind, nulls.clone())]).unwrap();
        let meta = json!({"metadata": {"name": "x", "labels": null, "annotations": null, "ownerReferences": null}});
        load(&[object(api_version, kind, meta)]).unwrap();
    }
    for object in [
        pod(&spec),
        daemon_set(&spec),
        pod(
            &json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": null}}}}),
        ),
        pod(
            &json!({"containers": [{"image": null, "command": null, "args": null, "env": null}, {"env": [{"name": "A", "value": null}]}]}),
        ),
        pod(
            &json!({"tolerations": [{"key": null, "operator": null, "value": null, "effect": null}]}),
        ),
        object("apps/v1", "DaemonSet", json!({"spec": {"template": null}})),
        object(
            "batch/v1",
            "CronJob",
            json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": null}}}}}),
        ),
        object(
            "apps/v1",
            "StatefulSet",
            json!({"spec": {"volumeClaimTemplates": [{"metadata": null, "spec": null}]}}),
        ),
        object(
            "v1",
            "Pod",
            json!({"status": {"phase": null, "conditions": null, "containerStatuses": [{"state": {"waiting": {"reason": null}}}]}}),
        ),
        object(
            "v1",
            "Node",
            json!({"spec": {"taints": [{"key": "a", "value": null, "effect": "NoSchedule"}]}, "status": {"nodeInfo": null, "addresses": null}}),
        ),
        object(
            "storage.k8s.io/v1",
            "CSINode",
            json!({"spec": {"drivers": null}}),
        ),
    ] {
        load(std::slice::from_ref(&object)).unwrap_or_else(|error| panic!("{error}: {object}"));
    }
    assert_eq!(
        volume_row(&json!({"azureDisk": null, "rbd": null, "csi": null})),
        None
    );
}
