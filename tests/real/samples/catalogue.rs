//! Lists the samples and the expectations for each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::Value;
use windows_storage_operator::assess::drivers::WINDOWS_DRIVERS;

/// The samples of one driver, in one folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Driver {
    pub folder: String,
    pub name: String,
    pub namespace: String,
    pub daemon_set: String,
    /// Whether an in-tree plugin migrates to this driver.
    pub is_migrated_to: bool,
    pub forms: Vec<Form>,
}

/// One of the ways in which a driver runs on Windows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    pub folder: String,
    pub pipes: Vec<String>,
}

/// One sample: a folder for `kubectl apply -k`.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub driver: &'static Driver,
    pub form: &'static Form,
}

pub static DRIVERS: LazyLock<Vec<Driver>> =
    LazyLock::new(|| serde_yaml::from_str(include_str!("drivers.yaml")).unwrap());

/// The namespace of the sample workloads.
pub const WORKLOADS: &str = "windows-storage-example";

/// Returns every sample.
pub fn all() -> impl Iterator<Item = Sample> {
    let of = |driver: &'static Driver| {
        let forms = driver.forms.iter();
        forms.map(move |form| Sample { driver, form })
    };
    DRIVERS.iter().flat_map(of)
}

/// Returns the folder of all samples.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/samples")
}

impl Driver {
    /// Returns the folder with its in-tree volume.
    pub fn in_tree(&self) -> PathBuf {
        root().join(&self.folder).join("in-tree")
    }

    /// Returns the DaemonSet's key in findings and reports.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.daemon_set)
    }
}

impl Sample {
    pub fn path(&self) -> PathBuf {
        root().join(&self.driver.folder).join(&self.form.folder)
    }

    pub fn is_host_process(&self) -> bool {
        self.form.pipes.is_empty()
    }

    /// Returns its objects, as `kubectl apply -k` sends them.
    pub fn objects(&self) -> Vec<Value> {
        kustomized(&self.path())
    }

    pub fn daemon_set(&self) -> Value {
        let mut objects = self.objects().into_iter();
        objects.find(|it| it["kind"] == "DaemonSet").unwrap()
    }
}

/// Returns the output of `kubectl kustomize` for a folder, cached per folder.
pub fn kustomized(folder: &Path) -> Vec<Value> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known
        .entry(folder.to_owned())
        .or_insert_with(|| kustomize(folder))
        .clone()
}

/// Returns the objects that `kubectl kustomize` makes of a folder.
pub fn kustomize(folder: &Path) -> Vec<Value> {
    let mut kubectl = Command::new(testbed::parts::part("kubectl").unwrap());
    let printed = testbed::commands::printed(kubectl.arg("kustomize").arg(folder));
    documents(&printed.unwrap())
}

/// Returns the documents of a YAML stream.
pub fn documents(yaml: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(yaml)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

#[test]
fn every_driver_with_a_node_side_for_windows_has_samples_under_its_own_names() {
    let known = WINDOWS_DRIVERS.iter();
    let known: BTreeSet<_> = known
        .map(|driver| (driver.name, driver.daemon_set.to_owned()))
        .collect();
    let here = DRIVERS.iter();
    let here: BTreeSet<_> = here.map(|driver| (&*driver.name, driver.key())).collect();
    assert_eq!(here, known);

    let folders = walkdir::WalkDir::new(root()).min_depth(2).max_depth(2);
    let folders = folders.into_iter().map(|entry| entry.unwrap().into_path());
    let forms = folders.filter(|it| it.ends_with("csi-proxy") || it.ends_with("host-process"));
    let listed: BTreeSet<_> = all().map(|sample| sample.path()).collect();
    assert_eq!(forms.collect::<BTreeSet<_>>(), listed);
}

/// That all else is there under its name, `walk.rs` shows.
#[test]
fn every_sample_leaves_alone_what_belongs_to_the_controller() {
    for sample in all() {
        let at = sample.path();
        for object in sample.objects() {
            let kind = object["kind"].as_str().unwrap();
            // Otherwise `kubectl delete -k` would also delete them for the driver's Linux part.
            let of_others = ["CSIDriver", "Deployment", "ConfigMap", "Secret"];
            assert!(!of_others.contains(&kind), "{}: {kind}", at.display());
            match kind {
                "StorageClass" => assert_eq!(object["provisioner"], sample.driver.name),
                "Namespace" | "PersistentVolumeClaim" | "Pod" => {}
                _ => {
                    let name = object["metadata"]["name"].as_str().unwrap();
                    assert!(
                        name.starts_with(&sample.driver.daemon_set),
                        "{}: {name}",
                        at.display()
                    );
                }
            }
        }
    }
}
