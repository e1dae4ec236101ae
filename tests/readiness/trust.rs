//! Why the oracle and the random clusters are to be trusted.

use crate::oracle::expect;
use crate::run::{Subject, key, run, search};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The oracle itself as the thing under test, but blind to something.
#[derive(Default)]
struct Blind {
    objects: BTreeMap<String, Value>,
    to: Option<&'static str>,
}

impl Blind {
    fn make(to: Option<&'static str>) -> impl Fn() -> Box<dyn Subject> {
        move || {
            Box::new(Self {
                objects: BTreeMap::new(),
                to,
            })
        }
    }
}

impl Subject for Blind {
    fn upsert(&mut self, object: &Value) {
        let mut seen = object.clone();
        if let Some(to) = self.to {
            seen = serde_json::from_str(&seen.to_string().replace(to, "\"unseen\"")).unwrap();
        }
        self.objects.insert(key(object), seen);
    }

    fn delete(&mut self, object: &Value) {
        self.objects.remove(&key(object));
    }

    fn report(&mut self) -> Value {
        as_report(&expect(&self.objects.values().cloned().collect::<Vec<_>>()))
    }
}

/// What the oracle says, in the form of a report.
fn as_report(expected: &Value) -> Value {
    let mut report = expected.clone();
    report["cluster"]["windowsNodes"] = report["windowsNodes"].take();
    if let Some(end) = report["verdict"].get("messageEnd").cloned() {
        report["verdict"]["message"] = end;
    }
    for finding in report["findings"].as_array_mut().unwrap() {
        *finding = json!({"code": finding[0], "object": finding[1], "message": ""});
    }
    report
}

#[test]
fn the_oracle_agrees_with_itself() {
    run(Blind::make(None), 300, 25, 1);
}

/// Pieces of JSON that decide something. Whoever does not see one of them must be found out.
const DECISIVE: &[&str] = &[
    "\"Node\"",
    "\"CSINode\"",
    "\"CSIDriver\"",
    "\"Pod\"",
    "\"PersistentVolumeClaim\"",
    "\"PersistentVolume\"",
    "\"StorageClass\"",
    "\"RuntimeClass\"",
    "\"Deployment\"",
    "\"ReplicaSet\"",
    "\"StatefulSet\"",
    "\"DaemonSet\"",
    "\"Job\"",
    "\"CronJob\"",
    "\"ReplicationController\"",
    "\"WindowsStorage\"",
    "\"cluster\"",
    "\"Ignore\"",
    "\"kubernetes.io/os\"",
    "\"beta.kubernetes.io/os\"",
    "\"node.kubernetes.io/windows-build\"",
    "\"windowsstorage.dev/ignore\"",
    "\"operatingSystem\"",
    "\"deletionTimestamp\"",
    "\"os\"",
    "\"nodeSelector\"",
    "\"runtimeClassName\"",
    "\"scheduling\"",
    "\"requiredDuringSchedulingIgnoredDuringExecution\"",
    "\"matchExpressions\"",
    "\"In\"",
    "\"NotIn\"",
    "\"Exists\"",
    "\"Gt\"",
    "\"Lt\"",
    "\"linux\"",
    "\"windows\"",
    "\"nodeName\"",
    "\"phase\"",
    "\"Succeeded\"",
    "\"Failed\"",
    "\"Complete\"",
    "\"conditions\"",
    "\"ownerReferences\"",
    "\"controller\"",
    "\"uid\"",
    "\"volumes\"",
    "\"ephemeral\"",
    "\"persistentVolumeClaim\"",
    "\"volumeClaimTemplates\"",
    "\"volumeName\"",
    "\"storageClassName\"",
    "\"annotations\"",
    "\"volume.beta.kubernetes.io/storage-class\"",
    "\"volume.kubernetes.io/storage-provisioner\"",
    "\"volume.beta.kubernetes.io/storage-provisioner\"",
    "\"storageclass.kubernetes.io/is-default-class\"",
    "\"storageclass.beta.kubernetes.io/is-default-class\"",
    "\"creationTimestamp\"",
    "\"provisioner\"",
    "\"csi\"",
    "\"awsElasticBlockStore\"",
    "\"azureDisk\"",
    "\"azureFile\"",
    "\"gcePersistentDisk\"",
    "\"cinder\"",
    "\"vsphereVolume\"",
    "\"portworxVolume\"",
    "\"rbd\"",
    "\"cephfs\"",
    "\"glusterfs\"",
    "\"flocker\"",
    "\"quobyte\"",
    "\"storageos\"",
    "\"scaleIO\"",
    "\"kubernetes.io/aws-ebs\"",
    "\"kubernetes.io/azure-disk\"",
    "\"kubernetes.io/azure-file\"",
    "\"kubernetes.io/gce-pd\"",
    "\"kubernetes.io/cinder\"",
    "\"kubernetes.io/vsphere-volume\"",
    "\"kubernetes.io/portworx-volume\"",
    "\"kubernetes.io/rbd\"",
    "\"kubernetes.io/cephfs\"",
    "\"kubernetes.io/glusterfs\"",
    "\"kubernetes.io/flocker\"",
    "\"kubernetes.io/quobyte\"",
    "\"kubernetes.io/storageos\"",
    "\"kubernetes.io/scaleio\"",
    "\"smb.csi.k8s.io\"",
    "\"hostPath\"",
    "\"containers\"",
    "\"initContainers\"",
    "\"image\"",
    "\"args\"",
    "\"command\"",
    "\"env\"",
];

#[test]
fn the_random_clusters_find_out_who_does_not_see() {
    let mut unfound = Vec::new();
    for part in DECISIVE {
        let began = std::time::Instant::now();
        if search(&Blind::make(Some(part)), 600, 25, 7).is_none() {
            unfound.push(part);
        }
        println!("{part} {:?}", began.elapsed());
    }
    assert!(unfound.is_empty(), "not found out: {unfound:?}");
}
