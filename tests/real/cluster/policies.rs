//! The policies of `manifests/policies` and `manifests/policies-deny` on a real API server: what they refuse, what they
//! warn about, and what they allow.

mod config_maps;
mod in_tree;
mod owners;
mod pipes;
mod targets;
mod upgrades;
mod whole;

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::control_plane::{ControlPlane, User};
use testbed::objects::NAMESPACE;
use testbed::sandbox::{self, Sandbox};
use windows_storage_operator::assess::plugins::PLUGINS;

use crate::cluster::harness::Harness;

const WARN: &str = "manifests/policies";
const DENY: &str = "manifests/policies-deny";
/// The API path of all policies.
const ALL: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
/// A user who may write ConfigMaps.
const TEAM: User<'_> = ("someone", &["team"]);
/// How long the API server may take to enforce an applied policy, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// All ways to write a path that reaches the pipes.
const REACHING: [&str; 14] = [
    r"\\.\pipe\csi-proxy-disk-v1",
    "//./pipe/csi-proxy-disk-v1",
    r"\\.\PIPE\CSI-Proxy-Disk-v1",
    r"\\.\pipe\csi-proxy",
    r"\\.\pipe\",
    r"\\.\pipe",
    r"\\.\",
    r"//.",
    r"\\?\pipe\csi-proxy-disk-v1",
    r"\??\pipe\csi-proxy-disk-v1",
    r"\\\\.\\pipe\\csi-proxy-smb-v1",
    r"\\.\pipe\.\csi-proxy-disk-v1",
    r"\\.\.\pipe\csi-proxy-disk-v1",
    r"\\.\GLOBALROOT\Device\NamedPipe\csi-proxy-disk-v1",
];
const OTHER: [&str; 6] = [
    r"\\.\pipe\containerd-containerd",
    "//./pipe/docker_engine",
    r"C:\csi-proxy",
    r"C:\pipe\csi-proxy-disk-v1",
    "/var/lib/kubelet",
    "/.hidden",
];

/// The API server's answer to a request, as kubectl prints it.
#[derive(Debug)]
struct Said {
    is_taken: bool,
    warnings: String,
}

fn said(control_plane: &ControlPlane, arguments: &[&str], object: Option<&Value>) -> Said {
    let file = object.map(|object| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, object.to_string().as_bytes()).unwrap();
        file
    });
    let mut kubectl = control_plane.kubectl_command();
    kubectl.args(arguments);
    if let Some(file) = &file {
        kubectl.arg("-f").arg(file.path());
    }
    let output = kubectl.output().unwrap();
    Said {
        is_taken: output.status.success(),
        warnings: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns the answer to a request whose arguments contain no spaces.
fn said_of(control_plane: &ControlPlane, line: &str) -> Said {
    said(control_plane, &line.split(' ').collect::<Vec<_>>(), None)
}

/// Returns the answer to the creation of an object, as a dry run.
fn to_new(control_plane: &ControlPlane, object: &Value) -> Said {
    let (is_taken, warnings) = control_plane.try_create(object, None).unwrap();
    Said { is_taken, warnings }
}

/// Like [`to_new`], for this user.
fn by(control_plane: &ControlPlane, user: User<'_>, object: &Value) -> Said {
    let (is_taken, warnings) = control_plane.try_create(object, Some(user)).unwrap();
    Said { is_taken, warnings }
}

impl Said {
    /// Returns whether the request was refused with this message.
    fn is_refused(&self, words: &str) -> bool {
        !self.is_taken && self.warnings.contains("denied request") && self.warnings.contains(words)
    }

    /// Returns whether the request was accepted with this warning.
    fn is_warned(&self, words: &str) -> bool {
        self.is_taken && self.warnings.contains("Warning: ") && self.warnings.contains(words)
    }

    /// Returns whether the request was accepted without any message from a policy.
    fn is_silent(&self) -> bool {
        self.is_taken && !self.warnings.contains("ValidatingAdmissionPolicy")
    }
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Applies a folder, asserting that there is no warning. Returns false if the API server does not support policies.
fn apply(control_plane: &ControlPlane, folder: &str) -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let folder = folder.to_str().unwrap();
    let applied = said_of(control_plane, &format!("apply --server-side -k {folder}"));
    let served = control_plane.read(ALL).unwrap().is_some();
    assert_eq!(applied.is_taken, served, "{applied:?}");
    if served {
        assert_eq!(applied.warnings, "");
    } else {
        assert!(
            applied.warnings.contains("no matches for kind"),
            "{applied:?}"
        );
    }
    served
}

/// Waits until the API server has checked the types of this number of policies, and asserts that it found no fault.
fn types_are_right(control_plane: &ControlPlane, number: usize) {
    control_plane
        .start_controller_manager("validatingadmissionpolicy-status-controller")
        .unwrap();
    let mut policies = Value::Null;
    eventually("the types of all policies are checked", || {
        policies = control_plane.read(ALL).unwrap().unwrap();
        let items = policies["items"].as_array().unwrap();
        items.len() == number
            && items.iter().all(|policy| {
                policy["status"]["observedGeneration"] == policy["metadata"]["generation"]
            })
    });
    for policy in policies["items"].as_array().unwrap() {
        assert_eq!(
            policy["status"]["typeChecking"],
            json!({}),
            "{}",
            policy["status"]
        );
    }
}

/// Starts a control plane with the policies of a folder and two namespaces, of which only `drivers` may reach the
/// pipes. Returns `None` if the API server does not support such policies.
fn with_policies(folder: &str) -> Option<ControlPlane> {
    let control_plane = sandbox::installed().unwrap();
    if !apply(&control_plane, folder) {
        return None;
    }
    for (name, labels) in [
        ("shop", json!({})),
        (
            "drivers",
            json!({"windowsstorage.dev/csi-proxy-pipes": "allowed"}),
        ),
    ] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        control_plane.apply(&namespace.to_string()).unwrap();
    }
    // One violation of each policy.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "windows-instances", "namespace": NAMESPACE}});
    let_the_team_write_config_maps(&control_plane);
    eventually("every policy is enforced", || {
        let new = |object| to_new(&control_plane, &object);
        let all = [
            new(pod("shop", &host_path(REACHING[0]))),
            new(deployment("shop", &host_path(REACHING[0]))),
            new(pod("shop", &windows(&in_tree("rbd")))),
            new(class("kubernetes.io/rbd")),
            by(&control_plane, TEAM, &map),
        ];
        all.iter()
            .all(|said| said.warnings.contains("ValidatingAdmissionPolicy"))
    });
    Some(control_plane)
}

/// Returns one control plane with the enforcing policies for all tests that change nothing that others see.
fn enforced() -> Option<&'static ControlPlane> {
    static ENFORCED: LazyLock<Option<ControlPlane>> = LazyLock::new(|| with_policies(DENY));
    ENFORCED.as_ref()
}

/// Gives [`TEAM`] all permissions for ConfigMaps and no others.
fn let_the_team_write_config_maps(control_plane: &ControlPlane) {
    for arguments in [
        "create clusterrole config-maps --verb=* --resource=configmaps",
        "create clusterrolebinding config-maps --clusterrole=config-maps --group=team",
    ] {
        assert!(said_of(control_plane, arguments).is_taken);
    }
}

fn spec(more: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "example.com/a:1"}]});
    let members = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(members);
    spec
}

fn pod(namespace: &str, more: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": spec(more)})
}

fn deployment(namespace: &str, more: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": spec(more)}}})
}

fn cron_job(namespace: &str, more: &Value) -> Value {
    let mut spec = spec(more);
    spec["restartPolicy"] = "Never".into();
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "j", "namespace": namespace},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": spec}}}}})
}

fn class(provisioner: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"}, "provisioner": provisioner})
}

fn host_path(path: &str) -> Value {
    json!({"volumes": [{"name": "data", "hostPath": {"path": path}}]})
}

/// Returns a volume of an in-tree plugin, in a form that the API server accepts in a pod.
fn in_tree(field: &str) -> Value {
    let source = match field {
        "azureDisk" => {
            json!({"diskName": "d", "diskURI": "https://d.blob.core.windows.net/d/d.vhd"})
        }
        "azureFile" => json!({"secretName": "s", "shareName": "s"}),
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => json!({"volumeID": "v"}),
        "gcePersistentDisk" => json!({"pdName": "d"}),
        "vsphereVolume" => json!({"volumePath": "[a] b.vmdk"}),
        "rbd" => json!({"monitors": ["192.0.2.1"], "image": "a"}),
        "cephfs" => json!({"monitors": ["192.0.2.1"]}),
        "glusterfs" => json!({"endpoints": "e", "path": "p"}),
        "flocker" => json!({"datasetName": "d"}),
        "quobyte" => json!({"registry": "192.0.2.1:1", "volume": "v"}),
        "storageos" => json!({"volumeName": "v", "secretRef": {"name": "s"}}),
        "scaleIO" => {
            json!({"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"})
        }
        other => unreachable!("nobody has said what {other} takes"),
    };
    json!({"volumes": [{"name": "data", field: source}]})
}

fn windows(more: &Value) -> Value {
    let mut spec = more.clone();
    spec["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    spec
}

fn host_process() -> Value {
    json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}})
}
