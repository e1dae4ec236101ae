//! Fields of the wrong type, and fields that are null.

use super::*;

/// Each line: apiVersion, kind, the invalid field, and the object's fields.
const WRONG: &str = r#"
v1 Pod spec.nodeName {"spec": {"nodeName": 1}}
v1 Pod spec.volumes[1].name {"spec": {"volumes": [{"name": "a"}, {"name": 2}]}}
v1 Pod spec.volumes[0].persistentVolumeClaim.claimName {"spec": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": []}}]}}
v1 Pod spec.volumes[0].hostPath.path {"spec": {"volumes": [{"name": "a", "hostPath": {"path": 1}}]}}
v1 Pod spec.volumes[0].csi.driver {"spec": {"volumes": [{"name": "a", "csi": {"driver": {}}}]}}
v1 Pod spec.nodeSelector.a {"spec": {"nodeSelector": {"a": true}}}
v1 Pod spec.os.name {"spec": {"os": {"name": 5}}}
v1 Pod spec.tolerations[0].key {"spec": {"tolerations": [{"key": 5}]}}
v1 Pod status.phase {"status": {"phase": 1}}
v1 Pod metadata.name {"metadata": {"name": 1}}
v1 Pod metadata.name {"metadata": {}}
v1 Pod metadata.name {"metadata": {"name": ""}}
apps/v1 Deployment spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.storageClassName {"spec": {"template": {"spec": {"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": 1}}}}]}}}}
apps/v1 StatefulSet spec.volumeClaimTemplates[0].metadata.name {"spec": {"volumeClaimTemplates": [{"metadata": {"name": 1}}]}}
batch/v1 CronJob spec.jobTemplate.spec.template.spec.runtimeClassName {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"runtimeClassName": 1}}}}}}
batch/v1 Job status.conditions[0].status {"status": {"conditions": [{"type": "Complete", "status": true}]}}
v1 PersistentVolumeClaim spec.volumeName {"spec": {"volumeName": 1}}
v1 PersistentVolume spec.csi.driver {"spec": {"csi": {"driver": 1}}}
storage.k8s.io/v1 StorageClass provisioner {"provisioner": 1}
storage.k8s.io/v1 CSINode spec.drivers[0].name {"spec": {"drivers": [{"name": null}]}}
v1 Node spec.taints[0].effect {"spec": {"taints": [{"key": "a", "effect": 1}]}}
v1 Node status.nodeInfo.kubeletVersion {"status": {"nodeInfo": {"kubeletVersion": 1.3}}}
node.k8s.io/v1 RuntimeClass scheduling.nodeSelector {"scheduling": {"nodeSelector": []}}
v1 ConfigMap data.csi-windows-support {"metadata": {"namespace": "a", "name": "internal-feature-states.csi.vsphere.vmware.com"}, "data": {"csi-windows-support": true}}
"#;

/// Each line: apiVersion, kind, and an object's fields with null for absent values.
const NULLS: &str = r#"
v1 Pod {"spec": {"nodeName": null, "os": null, "nodeSelector": null, "affinity": null, "runtimeClassName": null, "volumes": null, "containers": null, "initContainers": null, "tolerations": null}}
v1 Pod {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": null}}}}}
v1 Pod {"spec": {"containers": [{"image": null, "command": null, "args": null, "env": null}, {"env": [{"name": "A", "value": null}]}]}}
v1 Pod {"spec": {"tolerations": [{"key": null, "operator": null, "value": null, "effect": null}]}}
v1 Pod {"status": {"phase": null, "conditions": null, "containerStatuses": [{"state": {"waiting": {"reason": null}}}]}}
apps/v1 DaemonSet {"spec": {"template": null}}
apps/v1 DaemonSet {"spec": {"template": {"spec": {"nodeName": null, "volumes": null, "containers": null}}}}
batch/v1 CronJob {"spec": {"jobTemplate": {"spec": {"template": {"spec": null}}}}}
apps/v1 StatefulSet {"spec": {"volumeClaimTemplates": [{"metadata": null, "spec": null}]}}
v1 Node {"spec": {"taints": [{"key": "a", "value": null, "effect": "NoSchedule"}]}, "status": {"nodeInfo": null, "addresses": null}}
storage.k8s.io/v1 CSINode {"spec": {"drivers": null}}
"#;

#[test]
fn a_field_of_the_wrong_type_is_an_error_that_names_it() {
    for line in WRONG.lines().skip(1) {
        let mut words = line.splitn(4, ' ');
        let [api_version, kind, field, rest] = [(); 4].map(|()| words.next().unwrap());
        let object = object(api_version, kind, serde_json::from_str(rest).unwrap());
        let found = load(&[object]).err().map(|error| error.field);
        assert_eq!(found.as_deref(), Some(field), "{line}");
    }
}

#[test]
fn an_in_tree_field_of_the_wrong_type_is_named_with_its_volume() {
    let volumes = json!({"volumes": [{"name": "a"}, {"name": "b", "azureDisk": "d"}]});
    let error = load(&[pod(&volumes)]).unwrap_err();
    assert_eq!(error.field, "spec.volumes[1]");
    assert!(error.what.contains("azureDisk"), "{error}");
    let volume = object("v1", "PersistentVolume", json!({"spec": {"rbd": 1}}));
    let error = load(&[volume]).unwrap_err();
    assert!(error.to_string().contains("rbd"), "{error}");
}

#[test]
fn null_is_the_same_as_nothing_everywhere() {
    let nulls = json!({"spec": null, "status": null, "provisioner": null, "scheduling": null});
    let name = crate::objects::FEATURE_SWITCHES;
    let meta = json!({"name": name, "labels": null, "annotations": null, "ownerReferences": null});
    for kind in crate::objects::cluster_kinds() {
        // The API server always writes this operator's own objects according to their CRDs.
        if !kind.is_own() {
            let (api_version, kind) = (&kind.resource.api_version, kind.name());
            load(&[object(api_version, kind, nulls.clone())]).unwrap();
            load(&[object(
                api_version,
                kind,
                json!({"metadata": meta, "data": null}),
            )])
            .unwrap();
        }
    }
    for line in NULLS.lines().skip(1) {
        let mut words = line.splitn(3, ' ');
        let [api_version, kind, rest] = [(); 3].map(|()| words.next().unwrap());
        let object = object(api_version, kind, serde_json::from_str(rest).unwrap());
        load(&[object]).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    assert_eq!(
        volume_row(&json!({"azureDisk": null, "rbd": null, "csi": null})),
        None
    );
}
