//! Stands in for the scheduler and a kubelet: binds the operator's Pods to a node, runs their container's command with
//! the Pod's arguments and environment, and reports a Pod as ready when its readiness probe succeeds.
//!
//! A container has its own network and file system. Here, the process runs directly on this machine, so it gets a free
//! port in place of the Pod's, a kubeconfig with its ServiceAccount's token, and the payload folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::cleanup::Guardian;
use testbed::control_plane::free_addresses;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::olm::cluster::{CONDITION, Cluster, LINUX_NODE, PATIENCE, upgradeable};

/// Interval between probes. A kubelet probes every 10 s unless the Pod says otherwise.
const PROBE: Duration = Duration::from_millis(100);

/// Runs the Pods of one namespace until dropped.
pub struct Kubelet {
    shared: watch::Sender<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// Whether the node has lost power.
    is_down: bool,
    at_first_readiness: Vec<Ready>,
    /// The last readiness answer other than `ok`, by the OperatorCondition of the operator that gave it.
    unready: BTreeMap<String, String>,
}

/// The state when a Pod was first seen ready.
#[derive(Clone, Debug)]
pub struct Ready {
    pub pod: String,
    /// The value of `OPERATOR_CONDITION_NAME`, which OLM sets.
    pub operator_condition: String,
    /// The condition `Upgradeable` of this OperatorCondition, or null.
    pub gate: Value,
}

impl Kubelet {
    pub fn start(cluster: &Arc<Cluster>, namespace: &str) -> Self {
        let shared = watch::Sender::default();
        let node = Node {
            cluster: Arc::clone(cluster),
            pods: Api::namespaced(cluster.client.clone(), namespace),
            namespace: namespace.to_owned(),
            shared: shared.clone(),
            running: BTreeMap::new(),
        };
        let task = tokio::spawn(node.run());
        Self { shared, task }
    }

    /// Kills all processes without warning, and starts none until power is restored.
    pub fn cut_power(&self) {
        self.shared.send_modify(|shared| shared.is_down = true);
    }

    pub fn restore_power(&self) {
        self.shared.send_modify(|shared| shared.is_down = false);
    }

    /// Returns the state when each Pod first became ready, in that order.
    pub fn at_first_readiness(&self) -> Vec<Ready> {
        self.shared.borrow().at_first_readiness.clone()
    }

    /// Waits until the operator with this OperatorCondition has read the cluster and reports that it is not ready
    /// because of its gate, with `why` in the message.
    pub async fn wait_until_gate_fails(&self, operator_condition: &str, why: &str) {
        let mut shared = self.shared.subscribe();
        let says_so = |shared: &Shared| {
            let answer = shared.unready.get(operator_condition);
            let mut lines = answer.iter().flat_map(|answer| answer.lines());
            lines.clone().any(|line| line == "[+]cluster-read ok")
                && lines.any(|line| {
                    line.starts_with("[-]operatorcondition failed: ") && line.contains(why)
                })
        };
        let waited = tokio::time::timeout(PATIENCE, shared.wait_for(says_so)).await;
        assert!(
            waited.is_ok(),
            "not within {PATIENCE:?}: {operator_condition} is not ready because of {why:?}; of all it says {:#?}",
            self.shared.borrow().unready
        );
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Node {
    cluster: Arc<Cluster>,
    pods: Api<Pod>,
    namespace: String,
    shared: watch::Sender<Shared>,
    running: BTreeMap<String, Running>,
}

struct Running {
    pod: Pod,
    process: Option<Process>,
    is_ready: bool,
    was_ready: bool,
}

struct Process {
    child: Child,
    address: SocketAddr,
    /// Kills the process even if this one dies.
    _guardian: Guardian,
}

impl Process {
    fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = Guardian::stop(&mut self.child);
    }
}

impl Node {
    async fn run(mut self) {
        let mut events = watcher(self.pods.clone(), watcher::Config::default())
            .default_backoff()
            .boxed();
        let mut probe = tokio::time::interval(PROBE);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))) => {
                        self.sync(pod).await;
                    }
                    Some(Ok(watcher::Event::Delete(pod))) => {
                        self.running.remove(&pod.name_any());
                    }
                    // Broken watches are renewed; the stream never ends.
                    _ => {}
                },
                _ = probe.tick() => self.probe().await,
            }
        }
    }

    /// Binds a new Pod, starts to run a bound one, and removes a Pod that is being deleted.
    async fn sync(&mut self, pod: Pod) {
        let name = pod.name_any();
        let spec = pod.spec.clone().unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            if let Some(mut running) = self.running.remove(&name)
                && let Some(process) = &mut running.process
            {
                tokio::task::block_in_place(|| terminate(&mut process.child));
            }
            let now = DeleteParams::default().grace_period(0);
            // The API server may be away; the next event of the Pod tries again.
            let _ = self.pods.delete(&name, &now).await;
        } else if spec.node_name.is_none() {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"kind": "Node", "name": LINUX_NODE},
            });
            let _: Result<Value, _> = self
                .pods
                .create_subresource("binding", &name, &PostParams::default(), &binding)
                .await;
        } else {
            self.running.entry(name).or_insert_with(|| Running {
                pod,
                process: None,
                is_ready: false,
                was_ready: false,
            });
        }
    }

    /// Starts processes that do not run, and reports readiness to the API server.
    async fn probe(&mut self) {
        let is_down = self.shared.borrow().is_down;
        for (name, running) in &mut self.running {
            if is_down {
                running.process = None;
            } else if !running.process.as_mut().is_some_and(Process::runs) {
                let start = || start(&self.cluster, &self.namespace, &running.pod);
                running.process = Some(tokio::task::block_in_place(start));
            }
            let answer = match &running.process {
                Some(process) => readiness(process.address).await,
                None => None,
            };
            let is_ready = answer.as_deref() == Some("ok");
            let mut environment = environment(&running.pod);
            let operator_condition = environment.remove("OPERATOR_CONDITION_NAME");
            let operator_condition = operator_condition.unwrap_or_default();
            if is_ready && !running.was_ready {
                running.was_ready = true;
                let (cluster, namespace) = (&self.cluster, &self.namespace);
                let object = cluster.get(CONDITION, namespace, &operator_condition).await;
                let ready = Ready {
                    pod: name.clone(),
                    operator_condition: operator_condition.clone(),
                    gate: upgradeable(&object["spec"]["conditions"]).clone(),
                };
                self.shared
                    .send_modify(|shared| shared.at_first_readiness.push(ready));
            }
            self.shared.send_modify(|shared| {
                shared.unready.remove(&operator_condition);
                if let Some(answer) = answer.filter(|_| !is_ready) {
                    shared.unready.insert(operator_condition, answer);
                }
            });
            if is_ready != running.is_ready {
                let status = if is_ready { "True" } else { "False" };
                let condition = |type_: &str| json!({"type": type_, "status": status});
                let patch = json!({"status": {
                    "phase": "Running",
                    "conditions": [condition("Ready"), condition("ContainersReady")],
                }});
                let (plain, patch) = (PatchParams::default(), Patch::Strategic(patch));
                if self.pods.patch_status(name, &plain, &patch).await.is_ok() {
                    running.is_ready = is_ready;
                }
            }
        }
    }
}

fn container(pod: &Pod) -> &Container {
    let containers = &pod.spec.as_ref().unwrap().containers;
    assert_eq!(containers.len(), 1, "the operator's Pod has one container");
    &containers[0]
}

fn environment(pod: &Pod) -> BTreeMap<String, String> {
    let object = serde_json::to_value(pod).unwrap();
    let variables = container(pod).env.iter().flatten();
    variables
        .map(|variable| {
            let source = variable.value_from.as_ref();
            let value = match source.and_then(|source| source.field_ref.as_ref()) {
                None => variable.value.clone().unwrap_or_default(),
                Some(field) => {
                    let pointer = format!("/{}", field.field_path.replace('.', "/"));
                    let value = object.pointer(&pointer).and_then(Value::as_str);
                    value.expect("a field of the Pod").to_owned()
                }
            };
            (variable.name.clone(), value)
        })
        .collect()
}

fn start(cluster: &Cluster, namespace: &str, pod: &Pod) -> Process {
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/payload");
    assert!(payload.join("payload.json").exists(), "make payload");
    let account = pod.spec.as_ref().unwrap().service_account_name.as_deref();
    let kubeconfig = cluster
        .control_plane
        .kubeconfig_for_service_account(namespace, account.expect("a ServiceAccount"))
        .unwrap();
    let [address] = free_addresses().unwrap();
    let arguments = container(pod).args.iter().flatten().map(|argument| {
        match argument.split_once('=').map(|(flag, _)| flag) {
            Some("--serve-address") => format!("--serve-address={address}"),
            Some("--metrics-address") => "--metrics-address=127.0.0.1:0".to_owned(),
            _ => argument.clone(),
        }
    });

    let log = cluster.pod_log(&pod.name_any());
    let log = File::options().create(true).append(true).open(log).unwrap();
    let guardian = Guardian::temp("pod").unwrap();
    let mut command = guardian.command(env!("CARGO_BIN_EXE_windows-storage-operator"));
    for foreign in ["OPERATOR_CONDITION_NAME", "POD_NAMESPACE", "RUST_LOG"] {
        command.env_remove(foreign);
    }
    command
        .args(arguments)
        .envs(environment(pod))
        .env("KUBECONFIG", kubeconfig)
        .env("PAYLOAD_DIR", payload)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    Process {
        child: command.spawn().unwrap(),
        address,
        _guardian: guardian,
    }
}

/// Sends SIGTERM to a process and waits for it.
fn terminate(child: &mut Child) {
    let id = rustix::process::Pid::from_child(child);
    if rustix::process::kill_process(id, rustix::process::Signal::TERM).is_ok() {
        child.wait().unwrap();
    }
}

/// Probes readiness and returns `ok` if the HTTP status is 200, as for a kubelet; otherwise the body.
async fn readiness(address: SocketAddr) -> Option<String> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(b"GET /readyz?verbose HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    // A kubelet's default timeout.
    let answer = tokio::time::timeout(Duration::from_secs(1), asking).await;
    let answer = answer.ok()?.ok()?;
    if answer.starts_with("HTTP/1.1 200") {
        return Some("ok".to_owned());
    }
    answer
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned())
}
