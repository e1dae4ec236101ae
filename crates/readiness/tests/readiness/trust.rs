//! Tests that the random clusters can be trusted: whoever overlooks a part of the objects comes to another result.

use crate::generate::{Event, events};
use crate::oracle::{expect_for, expect_of_files};
use crate::run::{key, target};
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns the object with a part of its JSON made unrecognizable.
fn without(object: &Value, part: &str) -> Value {
    let text = object.to_string();
    if text.contains(part) {
        serde_json::from_str(&text.replace(part, "\"unseen\"")).unwrap()
    } else {
        object.clone()
    }
}

/// Keys and values that affect the result. The random clusters must expose whoever ignores any of them.
const DECISIVE: &str = "
Node CSINode CSIDriver Pod PersistentVolumeClaim PersistentVolume StorageClass RuntimeClass Deployment
ReplicaSet StatefulSet DaemonSet Job CronJob ReplicationController WindowsStorage cluster Ignore
kubernetes.io/os beta.kubernetes.io/os node.kubernetes.io/windows-build windowsstorage.dev/ignore
operatingSystem deletionTimestamp os nodeSelector runtimeClassName scheduling
requiredDuringSchedulingIgnoredDuringExecution matchExpressions In NotIn Exists Gt Lt linux windows
matchFields metadata.name DoesNotExist node.openshift.io/os_id Windows kubernetes.azure.com/os-sku replicas
nodeName phase Succeeded Failed Complete conditions ownerReferences controller uid volumes ephemeral
persistentVolumeClaim volumeClaimTemplates volumeName storageClassName annotations
volume.beta.kubernetes.io/storage-class volume.kubernetes.io/storage-provisioner
volume.beta.kubernetes.io/storage-provisioner storageclass.kubernetes.io/is-default-class
storageclass.beta.kubernetes.io/is-default-class creationTimestamp provisioner csi awsElasticBlockStore
azureDisk azureFile gcePersistentDisk cinder vsphereVolume portworxVolume rbd cephfs glusterfs flocker
quobyte storageos scaleIO kubernetes.io/aws-ebs kubernetes.io/azure-disk kubernetes.io/azure-file
kubernetes.io/gce-pd kubernetes.io/cinder kubernetes.io/vsphere-volume kubernetes.io/portworx-volume
kubernetes.io/rbd kubernetes.io/cephfs kubernetes.io/glusterfs kubernetes.io/flocker kubernetes.io/quobyte
kubernetes.io/storageos kubernetes.io/scaleio smb.csi.k8s.io hostPath containers initContainers image args
command env kubeletVersion node.openshift.io/os_id
storage.alpha.kubernetes.io/migrated-plugins Namespace openshift.io/node-selector
scheduler.alpha.kubernetes.io/node-selector type virtual-kubelet virtual-node virtual-kubelet.io/provider Managed parameters
claimRef Bound namespace
";

#[test]
#[ignore = "make test-random: it tests the random clusters, not the judgement"]
fn the_random_clusters_find_out_who_does_not_see() {
    let decisive = DECISIVE.split_whitespace();
    let mut unfound: Vec<String> = decisive.map(|part| format!("{part:?}")).collect();
    for seed in 0..3_000 {
        let mut objects = BTreeMap::new();
        for (count, event) in events(25, seed).into_iter().enumerate() {
            match event {
                Event::Upsert(object) => objects.insert(key(&object), object),
                Event::Delete(object) => objects.remove(&key(&object)),
            };
            // Few parts remain in the end, so checking every state would only cost time.
            if count % 6 == 0 {
                let all: Vec<_> = objects.values().cloned().collect();
                let target = target(&all, seed);
                let expect = |objects: &[Value]| {
                    [
                        expect_for(objects, Some(&target)),
                        expect_of_files(objects, Some(&target)),
                    ]
                };
                let truth = expect(&all);
                unfound.retain(|part| {
                    let seen = all.iter().map(|object| without(object, part));
                    expect(&seen.collect::<Vec<_>>()) == truth
                });
            }
        }
        if unfound.is_empty() {
            return;
        }
    }
    panic!("not found out: {unfound:?}");
}
