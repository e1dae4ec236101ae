//! Tests that the oracle and the random clusters can be trusted.

use crate::cases;
use crate::generate::{Event, events};
use crate::oracle::{Memory, expect, expect_after, expect_for};
use crate::run::{Subject, key, run, search, target};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A subject that is the oracle itself, but blind to a part of the JSON.
#[derive(Default)]
struct Blind {
    objects: BTreeMap<String, Value>,
    memory: Memory,
    to: Option<&'static str>,
}

impl Blind {
    fn make(to: Option<&'static str>) -> impl Fn() -> Box<dyn Subject> {
        move || {
            Box::new(Self {
                to,
                ..Self::default()
            })
        }
    }

    fn objects(&self) -> Vec<Value> {
        self.objects.values().cloned().collect()
    }

    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<String, Value>)) {
        let before = self.objects();
        change(&mut self.objects);
        self.memory = self.memory.after(&before, &self.objects());
    }
}

impl Subject for Blind {
    fn upsert(&mut self, object: &Value) {
        let mut seen = object.clone();
        if let Some(to) = self.to {
            seen = without(object, to);
        }
        self.change(|objects| {
            objects.insert(key(object), seen);
        });
    }

    fn delete(&mut self, object: &Value) {
        self.change(|objects| {
            objects.remove(&key(object));
        });
    }

    fn report(&mut self, target: Option<&str>) -> Value {
        as_report(&expect_after(&self.objects(), &self.memory, target))
    }
}

/// Returns the object with a part of its JSON made unrecognizable.
fn without(object: &Value, part: &str) -> Value {
    let text = object.to_string();
    if text.contains(part) {
        serde_json::from_str(&text.replace(part, "\"unseen\"")).unwrap()
    } else {
        object.clone()
    }
}

/// Converts the oracle's result to the form of a report.
fn as_report(expected: &Value) -> Value {
    let mut report = expected.clone();
    report["cluster"]["windowsNodes"] = report["windowsNodes"].take();
    if let Some(end) = report["verdict"].get("messageEnd").cloned() {
        report["verdict"]["message"] = end;
    }
    for driver in report["drivers"].as_array_mut().unwrap() {
        driver["findings"] = json!([{"code": driver["advice"]}]);
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

/// Keys and values that affect the result. The random clusters must expose a subject that ignores any of them.
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
command env kubeletVersion node.openshift.io/os_id windowsmachineconfig.openshift.io/version
storage.alpha.kubernetes.io/migrated-plugins
";

#[test]
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
                let expect = |objects: &[Value]| expect_for(objects, Some(&target));
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

#[test]
fn a_difference_is_shown_with_few_events() {
    let shown = search(&Blind::make(Some("\"ReplicaSet\"")), 200, 25, 3).unwrap();
    let upserts = shown
        .lines()
        .filter(|line| line.starts_with("upsert"))
        .count();
    assert!((1..=4).contains(&upserts), "{shown}");
    assert!(!shown.contains("\ndelete"), "{shown}");
}

#[test]
fn the_random_clusters_reach_every_verdict_and_kind_of_row() {
    let mut seen = BTreeSet::new();
    for seed in 0..1_000 {
        let mut objects = BTreeMap::new();
        for event in events(25, seed) {
            if let Event::Upsert(object) = event {
                objects.insert(key(&object), object);
            }
        }
        // Nothing is deleted here, so these clusters are fuller than those of the other tests.
        let objects: Vec<_> = objects.into_values().collect();
        let expected = expect(&objects);
        let to_come = expect_for(&objects, Some(&target(&objects, seed)));
        for expected in [&expected, &to_come] {
            seen.insert(expected["verdict"]["reason"].as_str().unwrap().to_owned());
        }
        for driver in expected["drivers"].as_array().unwrap() {
            seen.extend(driver["advice"].as_str().map(str::to_owned));
        }
        for row in expected["volumes"].as_array().unwrap() {
            let named = !row["persistentVolumeClaim"].is_null();
            seen.insert(format!(
                "{} {} {named}",
                row["workload"]["kind"].as_str().unwrap(),
                row["source"].as_str().unwrap()
            ));
        }
        for finding in expected["findings"].as_array().unwrap() {
            seen.insert(finding[0].as_str().unwrap().to_owned());
        }
    }
    let reasons = "NoWindowsNodes NoInTreeVolumes NoCSIMigration CSINodeMissing DriversMissing DriversRegistered Override InTreeServed";
    let advice = "InTreeRecommended CSIOptIn CSIRecommended PluginRemoved";
    let findings = "PersistentVolumeNotFound PersistentVolumeClaimNotFound StorageClassNotFound";
    let words = [reasons, advice, findings]
        .into_iter()
        .flat_map(|words| words.split(' '));
    let mut wanted: Vec<String> = words.map(str::to_owned).collect();
    let kinds = "Pod Deployment ReplicaSet StatefulSet DaemonSet Job CronJob ReplicationController";
    for kind in kinds.split(' ') {
        for source in [
            "Inline false",
            "PersistentVolume true",
            "StorageClass true",
            "StorageClass false",
        ] {
            // A pod's claim always has a name.
            if (kind, source) != ("Pod", "StorageClass false") {
                wanted.push(format!("{kind} {source}"));
            }
        }
    }
    wanted.retain(|wanted| !seen.contains(wanted));
    assert!(wanted.is_empty(), "never reached: {wanted:?}");
}

#[test]
fn the_oracle_passes_the_cases() {
    let mut failures = Vec::new();
    for case in cases::all() {
        let wrong = cases::mismatch(
            "",
            &case.expected,
            &expect_for(&case.objects, case.to.as_deref()),
        );
        failures.extend(wrong.map(|wrong| format!("{}: {wrong}", case.name)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_subject_that_is_right_passes_the_cases_and_one_that_is_blind_does_not() {
    assert_eq!(cases::failures(Blind::make(None)), Vec::<String>::new());
    assert!(!cases::failures(Blind::make(Some("\"scaleIO\""))).is_empty());
}
