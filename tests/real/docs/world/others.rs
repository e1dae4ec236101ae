//! What others do once a command of a page has asked for it: administrators of hosts, OLM's catalog operator, and kubelets.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::objects::{self, NAMESPACE};
use testbed::sandbox::OperatorCommand;
use windows_storage_operator::assess::drivers::WINDOWS_DRIVERS;

use super::{NODES, PATIENCE, Scene, World};
use crate::docs::root;
use crate::olm::install;

const DEPLOYMENT: &str =
    "/apis/apps/v1/namespaces/windows-storage-operator/deployments/windows-storage-operator";
const SUBSCRIPTION: &str = "/apis/operators.coreos.com/v1alpha1/namespaces/windows-storage-operator/subscriptions/windows-storage-operator";

impl World {
    /// Lets everybody do what has become possible.
    pub(super) fn let_others_act(&self) {
        self.accept_key();
        let is_installed = self.operator.borrow().is_some();
        if self.scene == Scene::OpenShift && !is_installed && self.exists(SUBSCRIPTION) {
            self.play_catalog_operator();
        }
        if !is_installed && self.exists(DEPLOYMENT) {
            self.play_kubelet();
        }
        if matches!(self.scene, Scene::Bare | Scene::OpenShift | Scene::Rancher) {
            self.register_drivers();
        }
    }

    fn exists(&self, path: &str) -> bool {
        matches!(self.sandbox.control_plane.read(path), Ok(Some(_)))
    }

    /// Makes all hosts accept the key that the page has made, and no other.
    fn accept_key(&self) {
        let public = self.home.path().join(".ssh/windows_rsa.pub");
        if let Ok(public) = fs::read_to_string(public) {
            for host in &self.hosts {
                host.authorize(&public).unwrap();
            }
        }
    }

    /// Installs this version, as for the Subscription of the page, and waits until OLM has made the Deployment.
    fn play_catalog_operator(&self) {
        let objects = install::objects(NAMESPACE, env!("CARGO_PKG_VERSION"), None);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let control_plane = &self.sandbox.control_plane;
        control_plane.apply(&list.to_string()).unwrap();
        let begin = Instant::now();
        while !self.exists(DEPLOYMENT) {
            assert!(begin.elapsed() < PATIENCE, "OLM makes no Deployment");
            thread::sleep(Duration::from_millis(200));
        }
        let deployment = control_plane.read(DEPLOYMENT).unwrap().unwrap();
        let status = json!({"status": {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
            "conditions": [{"type": "Available", "status": "True"}],
        }});
        let path = format!("{DEPLOYMENT}/status");
        control_plane.patch(&path, &status).unwrap();
    }

    /// Starts the operator.
    fn play_kubelet(&self) {
        // The sandboxed hosts do not listen on the standard SSH port.
        let fleet = &self.sandbox.fleet;
        let settings = objects::settings(fleet.port(), fleet.user());
        self.sandbox.control_plane.await_definitions().unwrap();
        self.sandbox.control_plane.apply(&settings).unwrap();
        self.start_operator(self.scene == Scene::OpenShift);
    }

    /// Registers the driver of each DaemonSet on the Windows nodes.
    fn register_drivers(&self) {
        let deployed = self.get("daemonsets -A", "{.items[*].metadata.name}");
        let deployed: Vec<&str> = deployed.split(' ').collect();
        let drivers = WINDOWS_DRIVERS.iter().filter(|driver| {
            let name = driver.daemon_set.rsplit('/').next();
            name.is_some_and(|name| deployed.contains(&name))
        });
        let drivers: Vec<&str> = drivers.map(|driver| driver.name).collect();
        if !drivers.is_empty() {
            for node in NODES {
                self.sandbox.register(node, &drivers).unwrap();
            }
        }
    }

    pub(super) fn start_operator(&self, with_olm: bool) {
        let payload = root().join("target/payload");
        assert!(payload.join("payload.json").exists(), "make payload");
        let binary = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
        let command = OperatorCommand::new(&self.sandbox.control_plane, binary, &payload).unwrap();
        let operator = command.start(Some(&self.log_file()), &[], with_olm);
        self.operator.replace(Some(operator.unwrap()));
    }
}
