//! A cluster whose objects come and go, and the verdict that it has to get.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use testbed::objects::{self, NAMESPACE};
use testbed::sandbox::Sandbox;
use testbed::simulated_host::{SimulatedFleet, SimulatedHost};
use tokio::runtime::Runtime;

use crate::cluster::{client, runtime};

const DRIVER: &str = "disk.csi.azure.com";
const PODS: &str = "churn";
/// How long a call is retried while the API server is away.
const PATIENCE: Duration = Duration::from_secs(120);

/// The cluster and its objects.
pub struct Cluster {
    runtime: Runtime,
    client: Client,
    fleet: SimulatedFleet,
    nodes: BTreeMap<String, Node>,
    /// Pods by name, and whether each has an in-tree volume.
    pods: BTreeMap<String, bool>,
    made: usize,
    /// Number of writes so far.
    pub changes: usize,
}

struct Node {
    host: SimulatedHost,
    is_registered: bool,
    is_up: bool,
}

impl Cluster {
    /// Creates an empty cluster, with SSH access to its nodes.
    pub fn new(sandbox: &Sandbox) -> Result<Self> {
        let control_plane = &sandbox.control_plane;
        let fleet = SimulatedFleet::new()?;
        let settings = objects::settings(fleet.port(), fleet.user());
        let key = objects::ssh_secret(&fleet.private_key()?);
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {PODS}}}\n");
        control_plane.apply(&[settings, key, namespace].join("---\n"))?;
        let runtime = runtime()?;
        let client = runtime.block_on(client(control_plane.kubeconfig()))?;
        Ok(Self {
            runtime,
            client,
            fleet,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            made: 0,
            changes: 0,
        })
    }

    /// Returns whether upgrades are allowed with the current objects.
    pub fn is_open(&self) -> bool {
        !self.pods.values().any(|in_tree| *in_tree)
            || self.nodes.values().all(|node| node.is_registered)
    }

    pub fn nodes(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    pub fn pods(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    fn name(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}-{:06}", self.made)
    }

    /// Adds a node: its host, its Node and its CSINode.
    pub fn add_node(&mut self, is_registered: bool) -> Result<()> {
        let name = self.name("win");
        let host = self.fleet.add_host(&name)?;
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows"}},
        });
        self.call(&Method::POST, "/api/v1/nodes", &object)?;
        let status: Value =
            serde_json::from_str(&objects::node_status(&host.address().to_string()))?;
        let path = format!("/api/v1/nodes/{name}/status");
        self.call(&Method::PATCH, &path, &status)?;
        let drivers = drivers(&name, is_registered);
        let csi_node = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": name}, "spec": {"drivers": drivers},
        });
        self.call(&Method::POST, "/apis/storage.k8s.io/v1/csinodes", &csi_node)?;
        let node = Node {
            host,
            is_registered,
            is_up: true,
        };
        self.nodes.insert(name, node);
        Ok(())
    }

    /// Removes a node and its host.
    pub fn remove_node(&mut self, name: &str) -> Result<()> {
        self.remove(&format!("/apis/storage.k8s.io/v1/csinodes/{name}"))?;
        self.remove(&format!("/api/v1/nodes/{name}"))?;
        self.nodes.remove(name);
        Ok(())
    }

    /// Registers the driver on a node, or removes it.
    pub fn register(&mut self, name: &str, is_registered: bool) -> Result<()> {
        let path = format!("/apis/storage.k8s.io/v1/csinodes/{name}");
        let wanted = json!({"spec": {"drivers": drivers(name, is_registered)}});
        self.call(&Method::PATCH, &path, &wanted)?;
        if let Some(node) = self.nodes.get_mut(name) {
            node.is_registered = is_registered;
        }
        Ok(())
    }

    /// Turns a host's power off or on. Returns whether that was a change.
    pub fn power(&mut self, name: &str, up: bool) -> Result<bool> {
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.is_up != up) else {
            return Ok(false);
        };
        node.is_up = up;
        if up {
            self.runtime.block_on(node.host.boot())?;
        } else {
            self.runtime.block_on(node.host.power_off())?;
        }
        Ok(true)
    }

    /// Breaks the connections to a host.
    pub fn cut(&self, name: &str) {
        if let Some(node) = self.nodes.get(name) {
            node.host.cut_connections();
        }
    }

    /// Adds a pod to a node, with an in-tree volume behind a claim or without a volume.
    pub fn add_pod(&mut self, node: &str, in_tree: bool) -> Result<()> {
        let name = self.name("pod");
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "nodeName": node, "os": {"name": "windows"},
                "containers": [{"name": "main", "image": "example.com/nothing"}],
            },
        });
        if in_tree {
            let volume = json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "claimRef": {"namespace": PODS, "name": name},
                    "azureDisk": {"diskName": name, "diskURI": format!("/subscriptions/0/{name}"), "kind": "Managed"},
                },
            });
            self.call(&Method::POST, "/api/v1/persistentvolumes", &volume)?;
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "volumeName": name, "storageClassName": "",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            });
            let claims = in_namespace("persistentvolumeclaims");
            self.call(&Method::POST, &claims, &claim)?;
            pod["spec"]["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        }
        self.call(&Method::POST, &in_namespace("pods"), &pod)?;
        self.pods.insert(name, in_tree);
        Ok(())
    }

    /// Removes a pod with its claim and volume.
    pub fn remove_pod(&mut self, name: &str) -> Result<()> {
        self.remove(&format!("{}/{name}", in_namespace("pods")))?;
        if self.pods.remove(name) == Some(true) {
            self.remove(&format!(
                "{}/{name}",
                in_namespace("persistentvolumeclaims")
            ))?;
            self.remove(&format!("/api/v1/persistentvolumes/{name}"))?;
        }
        Ok(())
    }

    /// Changes a pod without effect on the verdict.
    pub fn touch_pod(&mut self, name: &str) -> Result<()> {
        self.made += 1;
        let patch = json!({"metadata": {"annotations": {"touched": self.made.to_string()}}});
        let pod = format!("{}/{name}", in_namespace("pods"));
        self.call(&Method::PATCH, &pod, &patch)
    }

    /// Removes an object and its finalizers: the controllers that would remove those of claims and volumes do not run.
    fn remove(&mut self, path: &str) -> Result<()> {
        let free = json!({"metadata": {"finalizers": null}});
        self.call(&Method::PATCH, path, &free)?;
        let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.call(&Method::DELETE, path, &now)
    }

    /// Writes, with retries while the API server is away.
    fn call(&mut self, method: &Method, path: &str, body: &Value) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let kind = if *method == Method::PATCH {
                "application/merge-patch+json"
            } else {
                "application/json"
            };
            let request = Request::builder()
                .method(method.clone())
                .uri(path)
                .header("Content-Type", kind)
                .body(serde_json::to_vec(body)?)?;
            match self.runtime.block_on(self.client.request_text(request)) {
                Ok(_) => break,
                Err(kube::Error::Api(status)) => {
                    // An earlier attempt succeeded, but its answer was lost.
                    let done = [(&Method::POST, 409), (&Method::DELETE, 404)];
                    if done.contains(&(method, status.code)) {
                        break;
                    }
                    if status.code < 500 && status.code != 403 && status.code != 429 {
                        bail!("{method} {path}: {}", status.message);
                    }
                }
                Err(error) if Instant::now() > deadline => {
                    return Err(error).with_context(|| format!("{method} {path}"));
                }
                Err(_) => {}
            }
            if Instant::now() > deadline {
                bail!("{method} {path}: the API server does not come back");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.changes += 1;
        Ok(())
    }
}

fn in_namespace(resource: &str) -> String {
    format!("/api/v1/namespaces/{PODS}/{resource}")
}

fn drivers(node: &str, is_registered: bool) -> Value {
    if is_registered {
        json!([{"name": DRIVER, "nodeID": node, "topologyKeys": []}])
    } else {
        json!([])
    }
}

/// Returns the current status, reason and message of the gate's condition.
pub fn gate(sandbox: &Sandbox) -> Result<[String; 3]> {
    let path = format!(
        "/apis/operators.coreos.com/v2/namespaces/{NAMESPACE}/operatorconditions/{}",
        objects::OPERATOR_CONDITION
    );
    let object = sandbox.control_plane.read(&path)?.unwrap_or_default();
    let conditions = object["spec"]["conditions"].as_array();
    let ours = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Upgradeable");
    Ok(["status", "reason", "message"].map(|field| {
        let value = ours.and_then(|condition| condition[field].as_str());
        value.unwrap_or_default().to_owned()
    }))
}
