//! Where drivers are missing, and what brings them.

use super::{Case, azure_disk, case, csi_node, linux, object, owner, pod_on, windows};
use crate::oracle::cluster::{CSI_DRIVER, DAEMON_SET};
use serde_json::{Value, json};

const DISK: &str = "disk.csi.azure.com";
const X: &str = "x.example.com";

pub fn cases() -> Vec<Case> {
    let mut cases = missing();
    cases.extend(daemon_sets());
    cases
}

fn missing() -> Vec<Case> {
    let two = || {
        vec![
            windows("win-1"),
            windows("win-2"),
            csi_node("win-2", &["b.example.com"]),
        ]
    };
    let csi = |node: &str, name: &str, driver: &str| {
        pod_on(
            node,
            name,
            json!({"name": "data", "csi": {"driver": driver}}),
        )
    };
    let and = |more: Vec<Value>| two().into_iter().chain(more).collect::<Vec<_>>();
    vec![
        case!("a driver of an in-tree volume must be on all Windows nodes":
            and(vec![pod_on("win-1", "web-0", azure_disk())])
            => json!({"volumes": [{"missingOn": ["win-1", "win-2"], "blocking": true}],
                "nodes": [{"missingDrivers": [DISK]}, {"missingDrivers": [DISK]}],
                "drivers": [{"name": "b.example.com", "registeredOn": ["win-2"], "missingOn": []},
                {"name": DISK, "registeredOn": [], "missingOn": ["win-1", "win-2"]}]})),
        case!("a driver of CSI volumes must be where they are used": and(vec![csi("win-1", "web-0", X)])
            => json!({"volumes": [{"missingOn": ["win-1"], "blocking": false}],
                "nodes": [{"missingDrivers": [X]}, {"missingDrivers": []}]})),
        case!("a driver of CSI volumes that is there": and(vec![csi("win-2", "web-0", "b.example.com")])
            => json!({"volumes": [{"missingOn": []}], "nodes": [{}, {"drivers": ["b.example.com"],
                "missingDrivers": []}]})),
        case!("every row of one driver shows the same list":
            and(vec![pod_on("win-1", "web-0", azure_disk()), csi("win-2", "web-1", DISK)])
            => json!({"volumes": [{"inTree": true, "missingOn": ["win-1", "win-2"], "blocking": true},
                {"inTree": false, "missingOn": ["win-1", "win-2"], "blocking": false}]})),
        case!("a driver that only a Linux node has is no row":
            [windows("win-1"), linux("n-1"), csi_node("n-1", &[X])]
            => json!({"drivers": []})),
    ]
}

/// A DaemonSet for Windows with one container and the hostPath volumes.
fn set(name: &str, container: &Value, paths: &[&str]) -> Value {
    let volumes: Vec<_> = paths
        .iter()
        .map(|path| json!({"name": "v", "hostPath": {"path": path}}))
        .collect();
    owner(
        DAEMON_SET,
        name,
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [container], "volumes": volumes}),
    )
}

/// A DaemonSet with that container and those hostPath volumes, which is that of the driver or is not.
fn is_found(
    name: &'static str,
    driver: &str,
    found: bool,
    container: &Value,
    paths: &[&str],
) -> Case {
    let expected = found.then_some("shop/set");
    let set = set("set", container, paths);
    let expected = json!({"drivers": [{"name": driver, "daemonSet": expected}]});
    let objects = vec![windows("win-1"), csi_node("win-1", &[driver]), set];
    case(name, objects, expected)
}

/// In each line whether a container shows the driver `x.example.com`, which case that is, and the container. `PATH` stands
/// for the path of the driver's socket, `FLAG` for the flag with it.
const CONTAINERS: &str = r#"
no  nobody names the driver: {"args": ["-v=5"]}
yes the path after an equals sign: {"args": ["FLAG=PATH"]}
yes the path as the next argument: {"command": ["a.exe", "FLAG", "PATH"]}
yes the path with doubled separators: {"args": ["FLAG", "C:\\\\var\\\\lib\\\\kubelet\\\\plugins\\\\x.example.com\\\\csi.sock"]}
yes the path with slashes: {"args": ["FLAG", "C:/var/lib/kubelet/plugins/x.example.com/csi.sock"]}
yes the path from a variable: {"args": ["FLAG=$(REG)"], "env": [{"name": "REG", "value": "PATH"}]}
yes a part of the path from a variable: {"args": ["FLAG", "C:\\p\\$(NAME)\\csi.sock"], "env": [{"name": "NAME", "value": "x.example.com"}]}
no  a variable that nobody knows: {"args": ["FLAG=$(REG)"]}
no  a longer name: {"args": ["FLAG", "C:\\var\\lib\\kubelet\\plugins\\x.example.com-old\\csi.sock"]}
no  another flag: {"args": ["--csi-address=PATH"]}
"#;

/// In each line whether an image of that repository shows that driver.
const IMAGES: &str = "
no  r.example/not-smbplugin smb.csi.k8s.io
no  r.example/other/driver csi.vsphere.vmware.com
yes registry.k8s.io/csi-vsphere/driver csi.vsphere.vmware.com
yes gcr.io/cloud-provider-vsphere/csi/release/driver csi.vsphere.vmware.com
yes mcr.microsoft.com/k8s/csi/azuredisk-csi disk.csi.azure.com
yes mcr.microsoft.com/k8s/csi/azurefile-csi file.csi.azure.com
yes localhost:5000/aws-ebs-csi-driver ebs.csi.aws.com
yes smbplugin smb.csi.k8s.io
yes gke.gcr.io/gcp-compute-persistent-disk-csi-driver pd.csi.storage.gke.io
";

const FLAG: &str = "--kubelet-registration-path";
const PATH: &str = r"C:\var\lib\kubelet\plugins\x.example.com\csi.sock";

fn daemon_sets() -> Vec<Case> {
    let lines = CONTAINERS.trim().lines().map(|line| {
        let (name, container) = line[4..].split_once(": ").unwrap();
        let container = container.replace("FLAG", FLAG);
        let container = container.replace("PATH", &PATH.replace('\\', r"\\"));
        let container = serde_json::from_str(&container).unwrap();
        is_found(name, X, line.starts_with("yes"), &container, &[])
    });
    let mut cases: Vec<Case> = lines.collect();
    let args = json!({"args": [FLAG, PATH]});
    let mut in_init = is_found("an init container's path", X, true, &json!({}), &[]);
    in_init.objects[2]["spec"]["template"]["spec"]["initContainers"] = json!([args]);
    let mut on_linux = is_found(
        "a DaemonSet that does not ask for Windows",
        X,
        false,
        &args,
        &[],
    );
    on_linux.objects[2]["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    cases.extend([in_init, on_linux]);
    for (name, found, path) in [
        (
            "the plugin's directory",
            true,
            r"C:\var\lib\kubelet\plugins\x.example.com\",
        ),
        (
            "another directory",
            false,
            r"C:\var\lib\kubelet\plugins\old\x.example.com",
        ),
    ] {
        cases.push(is_found(name, X, found, &json!({}), &[path]));
    }
    for line in IMAGES.trim().lines() {
        let (repository, driver) = line[4..].split_once(' ').unwrap();
        let found = line.starts_with("yes");
        for tag in ["", ":v1.2", "@sha256:01", ":v1.2@sha256:01"] {
            let container = json!({"image": format!("{repository}{tag}")});
            cases.push(is_found(line, driver, found, &container, &[]));
        }
    }
    let pipes = [
        r"\\.\pipe\csi-proxy-volume-v1",
        r"\\.\pipe\csi-proxy-disk-v1",
        r"\\.\pipe\csi-proxy-disk-v1",
        r"\\.\pipe\other",
    ];
    let with_pipes = |namespace: &str, name: &str, paths: &[&str]| {
        let mut set = set(name, &json!({"args": [FLAG, PATH]}), paths);
        set["metadata"]["namespace"] = json!(namespace);
        set
    };
    let and = |sets: Vec<Value>| {
        let start = vec![windows("win-1"), csi_node("win-1", &[X])];
        [start, sets].concat()
    };
    cases.extend([
        case!("the csi-proxy pipes": and(vec![with_pipes("shop", "a", &pipes)])
            => json!({"drivers": [{"csiProxyPipes": ["csi-proxy-disk-v1", "csi-proxy-volume-v1"]}]})),
        case!("of two DaemonSets the first by name, then by namespace":
            and(vec![with_pipes("shop", "b", &pipes), with_pipes("shop", "a", &pipes), with_pipes("bank", "a", &[])])
            => json!({"drivers": [{"daemonSet": "bank/a", "csiProxyPipes": []}]})),
        case!("the name comes before the namespace":
            and(vec![with_pipes("shop", "a", &[]), with_pipes("bank", "b", &pipes)])
            => json!({"drivers": [{"daemonSet": "shop/a"}]})),
        case!("a DaemonSet of no driver that matters":
            [windows("win-1"), with_pipes("shop", "a", &pipes), object(CSI_DRIVER, false, X, json!({}))]
            => json!({"drivers": []})),
    ]);
    cases
}
