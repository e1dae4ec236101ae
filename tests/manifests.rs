//! What is installed is what the API server takes, and it refuses what makes no sense.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use testbed::control_plane::ControlPlane;

/// Settings that are refused: name, spec, and of what the refusal speaks.
const NONSENSE: &str = r"
another | {} | the only WindowsStorage object is named cluster
cluster | {probeIntervalSeconds: 1} | probeIntervalSeconds
cluster | {ssh: {port: 0}} | port
cluster | {ssh: {user: 'a b'}} | user
cluster | {csiProxy: {management: Sometimes}} | management
cluster | {csiProxy: {extraArgs: ['-v=1 & del']}} | extraArgs
cluster | {csiProxy: {extraArgs: ['C:\x.exe']}} | extraArgs
cluster | {upgradeGate: Maybe} | upgradeGate
";

#[test]
fn the_manifests_install_and_the_definitions_refuse_nonsense() {
    let control_plane = ControlPlane::start().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let apply = |folder: &str| {
        let folder = root.join(folder);
        control_plane
            .kubectl(&["apply", "-k", folder.to_str().unwrap()])
            .unwrap()
    };
    let crds = root.join("crds");
    let mut defining = control_plane.kubectl_command();
    let defined = defining.args(["apply", "-k"]).arg(crds).output().unwrap();
    assert!(defined.status.success(), "{defined:?}");
    let warnings = String::from_utf8_lossy(&defined.stderr);
    assert_eq!(warnings, "", "a definition is applied without a warning");
    control_plane.await_definitions().unwrap();
    let installed = apply("manifests");
    for object in [
        "namespace/",
        "serviceaccount/",
        "clusterrole.",
        "role.",
        "deployment.apps/",
        "networkpolicy.",
    ] {
        assert!(
            installed.contains(object),
            "{object} is not in\n{installed}"
        );
    }
    let get = |object: &str, what: &str| {
        let output = format!("jsonpath={what}");
        let name = format!("{object}/windows-storage-operator");
        let namespace = "--namespace=windows-storage-operator";
        control_plane
            .kubectl(&["get", &name, namespace, "-o", &output])
            .unwrap()
    };
    let container = "{.spec.template.spec.containers[0]";
    let limit = format!("{container}.resources.limits.memory}}");
    assert_eq!(get("deployment", &limit), "512Mi");
    // What may reach the pods is what they serve.
    let ports = format!("{container}.ports[*].name}}");
    let mut served = words(&get("deployment", &ports));
    let mut reached = words(&get("networkpolicy", "{.spec.ingress[*].ports[*].port}"));
    served.sort();
    reached.sort();
    assert_eq!(served, reached);
    let again = apply("manifests");
    assert!(
        again.lines().all(|line| line.ends_with("unchanged")),
        "{again}"
    );

    let settings = |name: &str, spec: &str| {
        control_plane.apply(&format!(
            "apiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsStorage\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        ))
    };
    for row in NONSENSE.trim().lines() {
        let [name, spec, complaint] = row.split(" | ").collect::<Vec<_>>()[..] else {
            unreachable!("{row}");
        };
        let error = settings(name, spec).expect_err(spec).to_string();
        assert!(error.contains(complaint), "{spec}: {error}");
    }
    settings("cluster", r"{csiProxy: {extraArgs: ['-kubelet-path=D:\kubelet']}, ssh: {user: 'CORP\ops', port: 2222}}").unwrap();
    // Without a spec the defaults hold.
    let gate = |object: &str| {
        control_plane.kubectl(&["get", object, "-o", "jsonpath={.spec.upgradeGate}"])
    };
    control_plane
        .kubectl(&["delete", "windowsstorage", "cluster"])
        .unwrap();
    control_plane
        .apply("apiVersion: windowsstorage.dev/v1alpha1\nkind: WindowsStorage\nmetadata: {name: cluster}\n")
        .unwrap();
    assert_eq!(gate("windowsstorage/cluster").unwrap(), "Enforce");
    // The API server publishes the schema some time after it serves the kind.
    let begin = Instant::now();
    let explained = loop {
        let explained =
            control_plane.kubectl(&["explain", "windowsstorage.spec.csiProxy.extraArgs"]);
        if explained.is_ok() || begin.elapsed() > Duration::from_secs(60) {
            break explained.unwrap();
        }
        thread::sleep(Duration::from_millis(500));
    };
    assert!(
        explained.contains("Further flags for csi-proxy"),
        "{explained}"
    );
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
