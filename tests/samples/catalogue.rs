//! Which samples there are, and what has to come of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::Value;
use windows_storage_operator::assess::drivers::WINDOWS_DRIVERS;

/// A driver's folder.
#[derive(Debug)]
pub struct Driver {
    pub folder: &'static str,
    pub name: &'static str,
    /// Namespace and name of the DaemonSet.
    pub daemon_set: (&'static str, &'static str),
    /// Whether it takes over an in-tree plugin.
    pub is_migrated_to: bool,
    pub forms: &'static [Form],
}

/// One of the ways in which a driver works on Windows.
#[derive(Debug)]
pub struct Form {
    pub folder: &'static str,
    pub pipes: &'static [&'static str],
}

/// One sample: what `kubectl apply -k` takes.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub driver: &'static Driver,
    pub form: &'static Form,
}

const HOST_PROCESS: Form = Form {
    folder: "host-process",
    pipes: &[],
};

const fn csi_proxy(pipes: &'static [&'static str]) -> Form {
    Form {
        folder: "csi-proxy",
        pipes,
    }
}

const BLOCK: &[&str] = &[
    "csi-proxy-disk-v1",
    "csi-proxy-filesystem-v1",
    "csi-proxy-volume-v1",
];
const SHARES: &[&str] = &["csi-proxy-filesystem-v1", "csi-proxy-smb-v1"];

pub static DRIVERS: [Driver; 6] = [
    Driver {
        folder: "aws-ebs",
        name: "ebs.csi.aws.com",
        daemon_set: ("kube-system", "ebs-csi-node-windows"),
        is_migrated_to: true,
        forms: &[csi_proxy(BLOCK), HOST_PROCESS],
    },
    Driver {
        folder: "azure-disk",
        name: "disk.csi.azure.com",
        daemon_set: ("kube-system", "csi-azuredisk-node-win"),
        is_migrated_to: true,
        forms: &[csi_proxy(BLOCK), HOST_PROCESS],
    },
    Driver {
        folder: "azure-file",
        name: "file.csi.azure.com",
        daemon_set: ("kube-system", "csi-azurefile-node-win"),
        is_migrated_to: true,
        forms: &[csi_proxy(SHARES), HOST_PROCESS],
    },
    Driver {
        folder: "gce-pd",
        name: "pd.csi.storage.gke.io",
        daemon_set: ("gce-pd-csi-driver", "csi-gce-pd-node-win"),
        is_migrated_to: true,
        // The driver has no HostProcess form.
        forms: &[csi_proxy(BLOCK)],
    },
    Driver {
        folder: "smb",
        name: "smb.csi.k8s.io",
        daemon_set: ("kube-system", "csi-smb-node-win"),
        is_migrated_to: false,
        forms: &[csi_proxy(SHARES), HOST_PROCESS],
    },
    Driver {
        folder: "vsphere",
        name: "csi.vsphere.vmware.com",
        daemon_set: ("vmware-system-csi", "vsphere-csi-node-windows"),
        is_migrated_to: true,
        forms: &[
            csi_proxy(&[
                "csi-proxy-disk-v1",
                "csi-proxy-filesystem-v1",
                "csi-proxy-system-v1alpha1",
                "csi-proxy-volume-v1",
            ]),
            HOST_PROCESS,
        ],
    },
];

/// The namespace of the workloads.
pub const WORKLOADS: &str = "windows-storage-example";

/// Every sample.
pub fn all() -> impl Iterator<Item = Sample> {
    let of = |driver: &'static Driver| {
        let forms = driver.forms.iter();
        forms.map(move |form| Sample { driver, form })
    };
    DRIVERS.iter().flat_map(of)
}

/// Where the samples are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/samples")
}

impl Driver {
    /// Its volume of the old kind.
    pub fn in_tree(&self) -> PathBuf {
        root().join(self.folder).join("in-tree")
    }

    /// The DaemonSet as findings and reports name it.
    pub fn key(&self) -> String {
        let (namespace, name) = self.daemon_set;
        format!("{namespace}/{name}")
    }
}

impl Sample {
    pub fn path(&self) -> PathBuf {
        root().join(self.driver.folder).join(self.form.folder)
    }

    pub fn is_host_process(&self) -> bool {
        self.form.pipes.is_empty()
    }

    /// Its objects, as `kubectl apply -k` sends them.
    pub fn objects(&self) -> Vec<Value> {
        kustomized(&self.path())
    }

    pub fn daemon_set(&self) -> Value {
        let objects = self.objects();
        let mut sets = objects
            .into_iter()
            .filter(|object| object["kind"] == "DaemonSet");
        let set = sets.next().unwrap();
        assert!(sets.next().is_none(), "{}", self.path().display());
        set
    }
}

/// What `kubectl kustomize` makes of a folder; it is asked once for each.
pub fn kustomized(folder: &Path) -> Vec<Value> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known
        .entry(folder.to_owned())
        .or_insert_with(|| kustomize(folder))
        .clone()
}

fn kustomize(folder: &Path) -> Vec<Value> {
    let mut kubectl = Command::new(testbed::parts::part("kubectl").unwrap());
    let printed = testbed::commands::printed(kubectl.arg("kustomize").arg(folder));
    documents(&printed.unwrap())
}

/// The documents of a YAML stream.
pub fn documents(yaml: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(yaml)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

#[test]
fn every_driver_with_a_node_side_for_windows_has_samples_under_its_own_names() {
    let mut known: Vec<_> = WINDOWS_DRIVERS
        .iter()
        .map(|driver| (driver.name, driver.daemon_set.to_owned()))
        .collect();
    let mut here: Vec<_> = DRIVERS
        .iter()
        .map(|driver| (driver.name, driver.key()))
        .collect();
    known.sort();
    here.sort();
    assert_eq!(here, known);

    let mut found: Vec<String> = walkdir::WalkDir::new(root())
        .min_depth(2)
        .max_depth(2)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_dir())
        .map(|entry| {
            let path = entry.path().strip_prefix(root()).unwrap();
            path.to_str().unwrap().to_owned()
        })
        .filter(|path| path.ends_with("/csi-proxy") || path.ends_with("/host-process"))
        .collect();
    found.sort();
    let listed: Vec<String> = all()
        .map(|sample| format!("{}/{}", sample.driver.folder, sample.form.folder))
        .collect();
    assert_eq!(found, listed);
}

#[test]
fn every_sample_is_whole_and_leaves_alone_what_belongs_to_the_controller() {
    for sample in all() {
        let at = sample.path();
        let objects = sample.objects();
        let count = |kind: &str| {
            objects
                .iter()
                .filter(|object| object["kind"] == kind)
                .count()
        };
        for kind in [
            "DaemonSet",
            "ServiceAccount",
            "Namespace",
            "StorageClass",
            "PersistentVolumeClaim",
            "Pod",
        ] {
            assert_eq!(count(kind), 1, "{}: {kind}", at.display());
        }
        // `kubectl delete -k` would take them from the driver's Linux side.
        for kind in ["CSIDriver", "Deployment", "ConfigMap", "Secret"] {
            assert_eq!(count(kind), 0, "{}: {kind}", at.display());
        }
        for object in &objects {
            let name = &object["metadata"]["name"];
            match object["kind"].as_str().unwrap() {
                "DaemonSet" => {
                    let key = (object["metadata"]["namespace"].as_str(), name.as_str());
                    let (namespace, name) = sample.driver.daemon_set;
                    assert_eq!(key, (Some(namespace), Some(name)));
                }
                "StorageClass" => assert_eq!(object["provisioner"], sample.driver.name),
                "Namespace" => assert_eq!(name, WORKLOADS),
                "PersistentVolumeClaim" | "Pod" => {
                    assert_eq!(object["metadata"]["namespace"], WORKLOADS);
                }
                _ => {
                    let ours = name.as_str().unwrap();
                    let (_, daemon_set) = sample.driver.daemon_set;
                    assert!(ours.starts_with(daemon_set), "{}: {ours}", at.display());
                }
            }
        }
    }
}
