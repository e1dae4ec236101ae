//! Where drivers are missing, and what brings them.

use super::{Case, azure_disk, case, csi_node, linux, object, owner, pod_on, windows};
use crate::oracle::cluster::DAEMON_SET;
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
        case(
            "a driver of an in-tree volume must be on all Windows nodes",
            and(vec![pod_on("win-1", "web-0", azure_disk())]),
            json!({"volumes": [{"missingOn": ["win-1", "win-2"], "blocking": true}],
                "nodes": [{"missingDrivers": [DISK]}, {"missingDrivers": [DISK]}],
                "drivers": [{"name": "b.example.com", "registeredOn": ["win-2"], "missingOn": []},
                    {"name": DISK, "registeredOn": [], "missingOn": ["win-1", "win-2"]}]}),
        ),
        case(
            "a driver of CSI volumes must be where they are used",
            and(vec![csi("win-1", "web-0", X)]),
            json!({"volumes": [{"missingOn": ["win-1"], "blocking": false}],
                "nodes": [{"missingDrivers": [X]}, {"missingDrivers": []}]}),
        ),
        case(
            "a driver of CSI volumes that is there",
            and(vec![csi("win-2", "web-0", "b.example.com")]),
            json!({"volumes": [{"missingOn": []}], "nodes": [{}, {"drivers": ["b.example.com"], "missingDrivers": []}]}),
        ),
        case(
            "every row of one driver shows the same list",
            and(vec![
                pod_on("win-1", "web-0", azure_disk()),
                csi("win-2", "web-1", DISK),
            ]),
            json!({"volumes": [{"inTree": true, "missingOn": ["win-1", "win-2"], "blocking": true},
                {"inTree": false, "missingOn": ["win-1", "win-2"], "blocking": false}]}),
        ),
        case(
            "a driver that only a Linux node has is no row",
            vec![windows("win-1"), linux("n-1"), csi_node("n-1", &[X])],
            json!({"drivers": []}),
        ),
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

fn is_found(
    name: &'static str,
    driver: &str,
    found: bool,
    container: &Value,
    paths: &[&str],
) -> Case {
    let expected = if found {
        json!("shop/set")
    } else {
        Value::Null
    };
    case(
        name,
        vec![
            windows("win-1"),
            csi_node("win-1", &[driver]),
            set("set", container, paths),
        ],
        json!({"drivers": [{"name": driver, "daemonSet": expected}]}),
    )
}

fn daemon_sets() -> Vec<Case> {
    let path = r"C:\var\lib\kubelet\plugins\x.example.com\csi.sock";
    let flag = "--kubelet-registration-path";
    let in_env = json!([{"name": "REG", "value": path}, {"name": "NAME", "value": X}]);
    let image = |image: &str| json!({"image": image});
    let named = |name, found, container: Value| is_found(name, X, found, &container, &[]);
    let mut in_init = named("an init container's path", true, json!({}));
    in_init.objects[2]["spec"]["template"]["spec"]["initContainers"] =
        json!([{"args": [format!("{flag}={path}")]}]);
    let mut on_linux = named(
        "a DaemonSet that does not ask for Windows",
        false,
        json!({"args": [flag, path]}),
    );
    on_linux.objects[2]["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    let mut cases = vec![
        named("nobody names the driver", false, json!({"args": ["-v=5"]})),
        named(
            "the path after an equals sign",
            true,
            json!({"args": [format!("{flag}={path}")]}),
        ),
        named(
            "the path as the next argument",
            true,
            json!({"command": ["a.exe", flag, path]}),
        ),
        named(
            "the path with doubled separators",
            true,
            json!({"args": [flag, path.replace('\\', r"\\")]}),
        ),
        named(
            "the path with slashes",
            true,
            json!({"args": [flag, path.replace('\\', "/")]}),
        ),
        named(
            "the path from a variable",
            true,
            json!({"args": [format!("{flag}=$(REG)")], "env": in_env.clone()}),
        ),
        named(
            "a part of the path from a variable",
            true,
            json!({"args": [flag, r"C:\p\$(NAME)\csi.sock"], "env": in_env}),
        ),
        named(
            "a variable that nobody knows",
            false,
            json!({"args": [format!("{flag}=$(REG)")]}),
        ),
        named(
            "a longer name",
            false,
            json!({"args": [flag, path.replace(X, "x.example.com-old")]}),
        ),
        named(
            "another flag",
            false,
            json!({"args": [format!("--csi-address={path}")]}),
        ),
        in_init,
        on_linux,
        is_found(
            "the plugin's directory",
            X,
            true,
            &json!({}),
            &[r"C:\var\lib\kubelet\plugins\x.example.com\"],
        ),
        is_found(
            "another directory",
            X,
            false,
            &json!({}),
            &[r"C:\var\lib\kubelet\plugins\old\x.example.com"],
        ),
        is_found(
            "an image that only ends alike",
            "smb.csi.k8s.io",
            false,
            &image("r.example/not-smbplugin:v1"),
            &[],
        ),
        is_found(
            "an image of another product",
            "csi.vsphere.vmware.com",
            false,
            &image("r.example/other/driver:v1"),
            &[],
        ),
    ];
    for (repository, driver) in [
        (
            "registry.k8s.io/csi-vsphere/driver",
            "csi.vsphere.vmware.com",
        ),
        (
            "gcr.io/cloud-provider-vsphere/csi/release/driver",
            "csi.vsphere.vmware.com",
        ),
        ("mcr.microsoft.com/k8s/csi/azuredisk-csi", DISK),
        (
            "mcr.microsoft.com/k8s/csi/azurefile-csi",
            "file.csi.azure.com",
        ),
        ("localhost:5000/aws-ebs-csi-driver", "ebs.csi.aws.com"),
        ("smbplugin", "smb.csi.k8s.io"),
        (
            "gke.gcr.io/gcp-compute-persistent-disk-csi-driver",
            "pd.csi.storage.gke.io",
        ),
    ] {
        for tag in ["", ":v1.2", "@sha256:01", ":v1.2@sha256:01"] {
            cases.push(is_found(
                "an image of the table",
                driver,
                true,
                &image(&format!("{repository}{tag}")),
                &[],
            ));
        }
    }
    let pipes = [
        r"\\.\pipe\csi-proxy-volume-v1",
        r"\\.\pipe\csi-proxy-disk-v1",
        r"\\.\pipe\csi-proxy-disk-v1",
        r"\\.\pipe\other",
    ];
    let with_pipes = |name: &str, paths: &[&str]| set(name, &json!({"args": [flag, path]}), paths);
    let mut elsewhere = with_pipes("a", &[]);
    elsewhere["metadata"]["namespace"] = json!("bank");
    cases.extend([
        case(
            "the csi-proxy pipes",
            vec![
                windows("win-1"),
                csi_node("win-1", &[X]),
                with_pipes("a", &pipes),
            ],
            json!({"drivers": [{"csiProxyPipes": ["csi-proxy-disk-v1", "csi-proxy-volume-v1"]}]}),
        ),
        case(
            "of two DaemonSets the first by name, then by namespace",
            vec![
                windows("win-1"),
                csi_node("win-1", &[X]),
                with_pipes("b", &pipes),
                with_pipes("a", &pipes),
                elsewhere,
            ],
            json!({"drivers": [{"daemonSet": "bank/a", "csiProxyPipes": []}]}),
        ),
        case(
            "the name comes before the namespace",
            vec![
                windows("win-1"),
                csi_node("win-1", &[X]),
                with_pipes("a", &[]),
                {
                    let mut later = with_pipes("b", &pipes);
                    later["metadata"]["namespace"] = json!("bank");
                    later
                },
            ],
            json!({"drivers": [{"daemonSet": "shop/a"}]}),
        ),
        case(
            "a DaemonSet of no driver that matters",
            vec![
                windows("win-1"),
                with_pipes("a", &pipes),
                object(crate::oracle::cluster::CSI_DRIVER, false, X, json!({})),
            ],
            json!({"drivers": []}),
        ),
    ]);
    cases
}
