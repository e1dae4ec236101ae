//! Shared by the tests: a cluster with hosts, a running operator, and access to its objects.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use testbed::control_plane::Request;
use testbed::objects::{self, NAMESPACE, OPERATOR_CONDITION};
use testbed::reused::Reused;
use testbed::sandbox::{Operator, OperatorCommand, Sandbox};
use testbed::windows_host::WindowsHost;
use windows_storage_operator::node::payload::sha256_hex;

/// The CSI driver of the workload's volume.
pub const DRIVER: &str = "disk.csi.azure.com";
/// The settings, as [`Harness::get`] and [`Harness::expect`] take them.
pub const SETTINGS: &str = "windowsstorage/cluster";
/// Longer than any step takes on a loaded machine; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster and the command that starts the operator.
pub struct Harness {
    pub sandbox: Sandbox,
    pub command: OperatorCommand,
    pub log: PathBuf,
}

impl Harness {
    pub fn new() -> Self {
        let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/payload");
        assert!(
            payload.join("payload.json").exists(),
            "{} is not there: make payload",
            payload.display()
        );
        let binary = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
        Self::with(Sandbox::reuse().unwrap(), binary, &payload)
    }

    /// Creates a harness for this cluster and operator.
    pub fn with(sandbox: Sandbox, binary: &Path, payload: &Path) -> Self {
        let command = sandbox.operator(binary, payload).unwrap();
        let log = sandbox.control_plane.dir().join("operator.log");
        Self {
            sandbox,
            command,
            log,
        }
    }

    /// Creates a cluster with a Windows node that lacks the driver of its workload.
    pub fn held() -> Self {
        let harness = Self::new();
        harness.sandbox.add_node("win-1", None).unwrap();
        harness.sandbox.register("win-1", &[]).unwrap();
        harness
            .control_plane()
            .apply(&objects::azure_disk_workload("win-1"))
            .unwrap();
        harness
    }

    /// Starts the operator as OLM would.
    pub fn start(&self) -> Operator {
        self.command.start(Some(&self.log), &[], true).unwrap()
    }

    /// Starts the operator as OLM would, with additional arguments.
    pub fn start_with_arguments(&self, arguments: &[&str]) -> Operator {
        self.command
            .start(Some(&self.log), arguments, true)
            .unwrap()
    }

    /// Starts the operator with another payload.
    pub fn start_with(&self, payload: &Path) -> Operator {
        self.command
            .with_payload(payload)
            .start(Some(&self.log), &[], true)
            .unwrap()
    }

    /// Starts the operator with another payload and additional arguments.
    pub fn start_with_both(&self, payload: &Path, arguments: &[&str]) -> Operator {
        self.command
            .with_payload(payload)
            .start(Some(&self.log), arguments, true)
            .unwrap()
    }

    /// Starts the operator without OLM.
    pub fn start_without_olm(&self) -> Operator {
        self.command.start(Some(&self.log), &[], false).unwrap()
    }

    /// Registers or unregisters the driver of the workload on a node.
    pub fn register(&self, node: &str, is_registered: bool) {
        let drivers: &[&str] = if is_registered { &[DRIVER] } else { &[] };
        self.sandbox.register(node, drivers).unwrap();
    }

    pub fn control_plane(&self) -> &Reused {
        &self.sandbox.control_plane
    }

    /// Creates or updates objects.
    pub fn apply(&self, objects: &str) {
        self.control_plane().apply(objects).unwrap();
    }

    /// Runs kubectl with arguments that contain no spaces.
    pub fn kubectl(&self, line: &str) -> String {
        self.kubectl_with(&line.split(' ').collect::<Vec<_>>())
    }

    pub fn kubectl_with(&self, args: &[&str]) -> String {
        self.sandbox.control_plane.kubectl(args).unwrap()
    }

    /// Returns an object such as `node/win-1`, from the operator's namespace if it is namespaced, or null.
    pub fn get(&self, object: &str) -> Value {
        self.read(&path(object))
    }

    /// Returns all objects of a kind such as `nodes`, from the operator's namespace if they are namespaced.
    pub fn list(&self, kind: &str) -> Value {
        self.read(&folder(kind))
    }

    /// Returns the objects of a kind as they were after each change since a version.
    pub fn written_since(&self, kind: &str, version: &str) -> Vec<Value> {
        let events = self.control_plane().watch(&folder(kind), version).unwrap();
        events.iter().map(|event| event["object"].clone()).collect()
    }

    /// Returns what the API has at a path, or null.
    fn read(&self, path: &str) -> Value {
        let found = self.sandbox.control_plane.read(path).unwrap();
        found.unwrap_or_default()
    }

    /// Returns status, reason and message of a condition in an object's status.
    pub fn condition(&self, object: &str, type_: &str) -> (String, String, String) {
        find_condition(&self.get(object)["status"]["conditions"], type_)
    }

    /// Waits until a condition of an object has this status and reason, and returns its message.
    pub fn expect(&self, object: &str, type_: &str, status: &str, reason: &str) -> String {
        let mut last = Default::default();
        self.eventually(&format!("{object}: {type_}={status} ({reason})"), || {
            last = self.condition(object, type_);
            last.0 == status && last.1 == reason
        });
        last.2
    }

    /// Returns status, reason and message of the gate in the `OperatorCondition`.
    pub fn gate(&self) -> (String, String, String) {
        find_condition(
            &self.get(&format!("operatorcondition/{OPERATOR_CONDITION}"))["spec"]["conditions"],
            "Upgradeable",
        )
    }

    pub fn expect_gate(&self, status: &str, reason: &str, parts: &[&str]) {
        let mut last = Default::default();
        self.eventually(
            &format!("the gate says {status} ({reason}) with {parts:?}"),
            || {
                last = self.gate();
                last.0 == status
                    && last.1 == reason
                    && parts.iter().all(|part| last.2.contains(part))
            },
        );
    }

    /// Waits until the gate reports that the driver is registered wherever it is needed.
    pub fn expect_open(&self) {
        self.expect_gate("True", "DriversRegistered", &[]);
    }

    /// Waits until the gate is closed and names exactly these nodes.
    pub fn expect_missing(&self, nodes: &str) {
        let missing = format!("needs {DRIVER}, missing on {nodes}");
        self.eventually(&format!("the gate says {missing}"), || {
            let (status, reason, message) = self.gate();
            status == "False"
                && reason == "DriversMissing"
                && message.trim_end_matches('.').ends_with(&missing)
        });
    }

    /// Waits until a node's status reports the driver as registered or missing.
    pub fn expect_registered(&self, node: &str, is_registered: bool) {
        let (status, reason) = if is_registered {
            ("True", "DriversRegistered")
        } else {
            ("False", "DriversMissing")
        };
        let object = format!("windowsnodestorage/{node}");
        self.expect(&object, "DriversRegistered", status, reason);
    }

    /// Waits until csi-proxy works on a node.
    pub fn expect_csi_proxy(&self, node: &str) {
        self.expect_node(node, "True", "PipesOpen");
    }

    /// Waits until a node's status says this about csi-proxy, and returns the message.
    pub fn expect_node(&self, node: &str, status: &str, reason: &str) -> String {
        let object = format!("windowsnodestorage/{node}");
        self.expect(&object, "CSIProxyReady", status, reason)
    }

    /// Changes the spec of the settings.
    pub fn want(&self, spec: &Value) {
        self.patch(SETTINGS, &json!({"spec": spec}));
    }

    /// Merges this into an object, such as `windowsstorage/cluster`, from the operator's namespace if it is namespaced.
    pub fn patch(&self, object: &str, patch: &Value) {
        self.control_plane().patch(&path(object), patch).unwrap();
    }

    /// Merges this into the status of an object.
    pub fn patch_status(&self, object: &str, patch: &Value) {
        let status = format!("{}/status", path(object));
        self.control_plane().patch(&status, patch).unwrap();
    }

    /// Deletes an object.
    pub fn delete(&self, object: &str) {
        self.control_plane().delete(&path(object)).unwrap();
    }

    /// Returns how often the operator has opened the gate, from the audit log: a watch would end with the API server.
    pub fn openings(&self) -> usize {
        let mut requests = Vec::new();
        let object = self.get(&format!("operatorcondition/{OPERATOR_CONDITION}"));
        let now = &object["spec"]["conditions"];
        // The log contains an answer a moment after the object has changed.
        self.eventually("the log has come to now", || {
            requests = self.requests();
            let mut answers = requests
                .iter()
                .map(|request| &request.answer["spec"]["conditions"]);
            now.as_array().is_none_or(Vec::is_empty) || answers.any(|written| written == now)
        });
        let written = requests.iter().filter(|request| {
            request.resource == "operatorconditions" && request.answer["spec"].is_object()
        });
        let open: Vec<bool> = written
            .map(|request| {
                find_condition(&request.answer["spec"]["conditions"], "Upgradeable").0 == "True"
            })
            .collect();
        let first = usize::from(open.first() == Some(&true));
        first + open.windows(2).filter(|pair| !pair[0] && pair[1]).count()
    }

    /// Sends an HTTP GET request to the operator that was started last, and returns the answer.
    pub fn get_http(&self, path: &str) -> String {
        get_http(&self.log(), path)
    }

    /// Waits for an event with this reason about an object such as `Node/win-1`, and returns its note.
    pub fn expect_event(&self, object: &str, reason: &str) -> String {
        let (kind, name) = object.split_once('/').unwrap();
        let mut note = String::new();
        self.eventually(&format!("event {reason} on {object}"), || {
            let events = self.list("events");
            let found = events["items"].as_array().unwrap().iter().find(|event| {
                event["regarding"]["kind"] == kind
                    && event["regarding"]["name"] == name
                    && event["reason"] == reason
            });
            note = found
                .map(|event| event["note"].as_str().unwrap_or_default().to_owned())
                .unwrap_or_default();
            found.is_some()
        });
        note
    }

    /// Waits until `check` returns true.
    #[expect(clippy::unused_self, reason = "a test that waits has a harness")]
    pub fn eventually(&self, what: &str, mut check: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !check() {
            assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asserts that the operator's RBAC was enough for all of its requests.
    pub fn assert_nothing_was_forbidden(&self) {
        let requests = self.requests();
        assert!(!requests.is_empty(), "the API server has noted no request");
        let forbidden: Vec<&Request> = requests
            .iter()
            .filter(|request| request.code == 403)
            .collect();
        assert!(forbidden.is_empty(), "{forbidden:#?}");
    }

    /// Returns all requests that the operator has sent to the API server.
    pub fn requests(&self) -> Vec<Request> {
        self.sandbox
            .control_plane
            .requests_of(NAMESPACE, "windows-storage-operator")
            .unwrap()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the operator's log:\n{}", self.log());
        }
    }
}

/// Returns a client with the credentials of this kubeconfig.
pub async fn client_of(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Runs a command of the operator's program on the cluster of this kubeconfig to its end.
pub fn run(kubeconfig: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(arguments)
        .args(["--kubeconfig".as_ref(), kubeconfig.as_os_str()])
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

/// Sends an HTTP GET request to the operator with this log; the answer is empty if it does not serve HTTP.
pub fn get_http(log: &str, path: &str) -> String {
    let marker = "health and metrics are served on http://";
    let Some((_, rest)) = log.rsplit_once(marker) else {
        return String::new();
    };
    // In a JSON log line, the address is followed by a quote.
    let ends = |letter: char| letter.is_whitespace() || letter == '"';
    let address = rest.split(ends).next().unwrap();
    let Ok(mut stream) = TcpStream::connect(address) else {
        return String::new();
    };
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).is_ok() {
        // A truncated answer does not match, so the caller polls again.
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

/// Writes a payload of these programs, each with its version, uncompressed: the operator's other way to transfer them.
pub fn write_payload(folder: &Path, agent: (&[u8], &str), csi_proxy: (&[u8], &str)) {
    fs::create_dir_all(folder).unwrap();
    let mut manifest = json!({});
    for (program, (content, version)) in [("agent", agent), ("csiProxy", csi_proxy)] {
        fs::write(folder.join(program), content).unwrap();
        let sha256 = sha256_hex(content);
        manifest[program] = json!({"file": program, "version": version, "sha256": sha256});
    }
    fs::write(folder.join("payload.json"), manifest.to_string()).unwrap();
}

/// Asserts that a text has all of these words.
#[track_caller]
pub fn assert_has(text: &str, all: &[&str]) {
    for words in all {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Returns whether this is the full run of `make chaos`.
pub fn is_full() -> bool {
    std::env::var("CHAOS").is_ok_and(|chaos| chaos == "full")
}

/// Returns the API path of an object such as `node/win-1`.
fn path(object: &str) -> String {
    let (kind, name) = object.split_once('/').unwrap();
    format!("{}/{name}", folder(&format!("{kind}s")))
}

/// Returns the API path of a kind's collection.
fn folder(kind: &str) -> String {
    match kind {
        "configmaps" | "pods" | "secrets" => format!("/api/v1/namespaces/{NAMESPACE}/{kind}"),
        "csinodes" => "/apis/storage.k8s.io/v1/csinodes".to_owned(),
        "events" => "/apis/events.k8s.io/v1/events".to_owned(),
        "leases" => format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
        "nodes" => "/api/v1/nodes".to_owned(),
        "operatorconditions" => {
            format!("/apis/operators.coreos.com/v2/namespaces/{NAMESPACE}/operatorconditions")
        }
        "windowsnodestorages" | "windowsstorages" => {
            format!("/apis/windowsstorage.dev/v1alpha1/{kind}")
        }
        "roles" => format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"),
        _ => unreachable!("nobody has said where {kind} are"),
    }
}

pub fn find_condition(conditions: &Value, type_: &str) -> (String, String, String) {
    let found = conditions
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == type_);
    let text = |key: &str| {
        found
            .and_then(|condition| condition[key].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("status"), text("reason"), text("message"))
}

/// Returns the number of logins that the host's SSH server has accepted.
pub fn logins(host: &WindowsHost) -> usize {
    host.sshd_log()
        .unwrap()
        .matches("Accepted publickey")
        .count()
}
