//! A control plane with OLM, and access to its objects.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::objects;
use testbed::olm::Olm;

use crate::cluster::harness::client_of;

/// Longer than any step takes on a loaded machine; only a failure waits this long.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The CSI driver for Azure Disk volumes.
pub const DRIVER: &str = "disk.csi.azure.com";
/// The name of the `OperatorGroup` in docs/install/openshift.md.
const OPERATOR_GROUP: &str = "windows-storage-operator";
/// The node on which the operator's Pods run.
pub const LINUX_NODE: &str = "linux-1";
/// File extension of Pod logs.
const POD_LOG: &str = "podlog";
/// Controllers that create the Pods of Deployments and delete objects whose owner is gone.
const CONTROLLERS: &str =
    "deployment-controller,replicaset-controller,garbage-collector-controller,namespace-controller";

/// A cluster with OLM.
pub struct Cluster {
    /// Dropped before the control plane. `None` while OLM is stopped.
    olm: Mutex<Option<Olm>>,
    pub control_plane: ControlPlane,
    pub client: Client,
}

impl Cluster {
    pub async fn start() -> Arc<Self> {
        let control_plane = ControlPlane::start().unwrap();
        Olm::install_definitions(&control_plane).unwrap();
        control_plane.start_controller_manager(CONTROLLERS).unwrap();
        let client = client_of(control_plane.kubeconfig()).await;
        let olm = Olm::start(&control_plane).unwrap();
        let cluster = Self {
            olm: Mutex::new(Some(olm)),
            control_plane,
            client,
        };
        cluster.apply_all(&[json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": LINUX_NODE, "labels": {"kubernetes.io/os": "linux"}},
        })]);
        Arc::new(cluster)
    }

    /// Adds a namespace in which OLM installs operators that watch only that namespace.
    pub async fn add_namespace(&self, name: &str) {
        self.apply_all(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            json!({
                "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": OPERATOR_GROUP, "namespace": name}, "spec": {"targetNamespaces": [name]},
            }),
        ]);
        let what = "is seen by OLM";
        self.wait("OperatorGroup", name, OPERATOR_GROUP, what, |group| {
            group.is_some_and(|group| group["status"]["namespaces"] == json!([name]))
        })
        .await;
    }

    /// Adds two Windows nodes, neither of which has the driver that the pod on the first one needs.
    pub fn add_windows_nodes(&self) {
        for node in ["win-1", "win-2"] {
            self.apply(&objects::windows_node(node));
            self.register(node, &[]);
        }
        self.apply(&objects::azure_disk_workload("win-1"));
    }

    /// Sets the drivers of the node's CSINode.
    pub fn register(&self, node: &str, drivers: &[&str]) {
        self.apply(&objects::csi_node(node, drivers));
    }

    pub fn apply(&self, yaml: &str) {
        tokio::task::block_in_place(|| self.control_plane.apply(yaml)).unwrap();
    }

    pub fn apply_all(&self, objects: &[Value]) {
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
    }

    pub fn kubectl(&self, args: &[&str]) -> String {
        tokio::task::block_in_place(|| self.control_plane.kubectl(args)).unwrap()
    }

    /// Kills OLM and starts it again.
    pub fn restart_olm(&self) {
        tokio::task::block_in_place(|| {
            let mut olm = self.olm.lock().unwrap_or_else(PoisonError::into_inner);
            drop(olm.take());
            *olm = Some(Olm::start(&self.control_plane).unwrap());
        });
    }

    /// Returns the API for a kind in a namespace; for a cluster-wide kind, pass [`CLUSTER_WIDE`].
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        if namespace == CLUSTER_WIDE {
            Api::all_with(self.client.clone(), &resource(kind))
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
        }
    }

    /// Returns an object, or null.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let found = self.api(kind, namespace).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |object| json!(object))
    }

    /// Waits until `fits` returns true for the object, or for `None` while there is no object. Watches, and starts a
    /// new watch when one breaks.
    pub async fn wait(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        what: &str,
        mut fits: impl FnMut(Option<&Value>) -> bool,
    ) -> Value {
        let mut last = None;
        let waiting = async {
            loop {
                let mut states = watch_object(self.api(kind, namespace), name).boxed();
                while let Some(Ok(state)) = states.next().await {
                    last = state.map(|object| json!(object));
                    if fits(last.as_ref()) {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            let olm = self.olm.lock().unwrap_or_else(PoisonError::into_inner);
            panic!(
                "{kind} {namespace}/{name} not within {PATIENCE:?}: {what}; it is\n{last:#?}\nOLM's log ends with\n{}\nthe operators' logs end with\n{}",
                olm.as_ref().map(Olm::log).unwrap_or_default(),
                self.operator_logs(20)
            );
        }
        last.unwrap_or(Value::Null)
    }

    /// Waits until a CSV is in this phase.
    pub async fn wait_for_phase(&self, namespace: &str, csv: &str, phase: &str) -> Value {
        self.wait(CSV, namespace, csv, phase, |csv| {
            csv.is_some_and(|csv| csv["status"]["phase"] == phase)
        })
        .await
    }

    /// Waits until OLM holds a CSV back with a message that ends like this.
    pub async fn wait_until_held(&self, namespace: &str, csv: &str, message: &str) {
        let what = format!("is held with {message:?}");
        self.wait(CSV, namespace, csv, &what, |csv| {
            csv.is_some_and(|csv| {
                let status = &csv["status"];
                status["phase"] == "Pending"
                    && status["reason"] == "OperatorConditionNotUpgradeable"
                    && status["message"]
                        .as_str()
                        .unwrap_or_default()
                        .ends_with(message)
            })
        })
        .await;
    }

    /// Waits until the object is gone.
    pub async fn wait_until_gone(&self, kind: &str, namespace: &str, name: &str) {
        self.wait(kind, namespace, name, "is gone", |object| object.is_none())
            .await;
    }

    /// Waits until OLM has observed the gate with this status and a message that contains this text.
    pub async fn wait_for_gate(&self, namespace: &str, name: &str, status: &str, message: &str) {
        let what = format!("says {status} with {message:?}");
        self.wait(CONDITION, namespace, name, &what, |object| {
            object.is_some_and(|object| {
                let gate = upgradeable(&object["status"]["conditions"]);
                gate["observedGeneration"] == object["metadata"]["generation"]
                    && gate["status"] == status
                    && gate["message"]
                        .as_str()
                        .unwrap_or_default()
                        .contains(message)
            })
        })
        .await;
    }

    /// Returns the whole log of the operator in this Pod.
    pub fn operator_log(&self, pod: &str) -> String {
        std::fs::read_to_string(self.pod_log(pod)).unwrap()
    }

    /// Returns the path of this Pod's log.
    pub fn pod_log(&self, pod: &str) -> PathBuf {
        self.control_plane.dir().join(format!("{pod}.{POD_LOG}"))
    }

    /// Returns the last lines of each operator's log.
    fn operator_logs(&self, lines: usize) -> String {
        let entries = std::fs::read_dir(self.control_plane.dir()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let logs = paths.filter(|path| path.extension().is_some_and(|it| it == POD_LOG));
        let ends = logs.map(|path| {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            let all: Vec<&str> = log.lines().collect();
            let end = all[all.len().saturating_sub(lines)..].join("\n");
            format!("{}:\n{end}\n", path.display())
        });
        ends.collect::<Vec<_>>().concat()
    }
}

/// Passed in place of a namespace.
pub const CLUSTER_WIDE: &str = "";
pub const CSV: &str = "ClusterServiceVersion";
pub const CONDITION: &str = "OperatorCondition";

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        CSV => ("operators.coreos.com", "v1alpha1"),
        "OperatorGroup" => ("operators.coreos.com", "v1"),
        CONDITION => ("operators.coreos.com", "v2"),
        "Deployment" => ("apps", "v1"),
        "WindowsStorage" => ("windowsstorage.dev", "v1alpha1"),
        "CSINode" => ("storage.k8s.io", "v1"),
        "Role" | "RoleBinding" => ("rbac.authorization.k8s.io", "v1"),
        _ => ("", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Returns the condition `Upgradeable` of a list of conditions, or null.
pub fn upgradeable(conditions: &Value) -> &Value {
    let mut all = conditions.as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == "Upgradeable")
        .unwrap_or(&Value::Null)
}
