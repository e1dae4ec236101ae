//! The API server accepts the manifests, and refuses invalid settings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;

/// Settings that are refused: name, spec, and text of the refusal.
const NONSENSE: &str = r"
another | {} | name it cluster
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
    // The NetworkPolicy allows metrics alone of the ports that the pods serve: only kubelets ask for health.
    let ports = format!("{container}.ports[*].name}}");
    assert_eq!(words(&get("deployment", &ports)), ["http", "metrics"]);
    let reached = get("networkpolicy", "{.spec.ingress[*].ports[*].port}");
    assert_eq!(words(&reached), ["metrics"]);
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
    // Without a spec, the defaults apply.
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
    // The API server publishes the schema some time after it starts serving the kind.
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
        explained.contains("Additional flags for csi-proxy"),
        "{explained}"
    );
}

/// All accounts may use OpenShift's security context constraint `restricted-v2` (4.11 and later). It admits a pod only
/// if everything that the constraint has to choose itself is left unset.
#[test]
fn the_deployment_is_one_that_openshift_admits_for_every_account() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/deployment.yaml");
    let deployment: Value =
        serde_yaml::from_str(&std::fs::read_to_string(manifest).unwrap()).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(not_restricted(pod), Vec::<String>::new());
    // The check detects what is not admitted.
    for (pointer, value) in [
        ("/hostNetwork", json!(true)),
        ("/securityContext/runAsUser", json!(65532)),
        ("/securityContext/fsGroup", json!(65532)),
        ("/securityContext/seccompProfile/type", json!("Unconfined")),
        (
            "/volumes/0",
            json!({"name": "v", "hostPath": {"path": "/"}}),
        ),
        ("/containers/0/securityContext/runAsUser", json!(0)),
        ("/containers/0/securityContext/privileged", json!(true)),
        (
            "/containers/0/securityContext/allowPrivilegeEscalation",
            Value::Null,
        ),
        (
            "/containers/0/securityContext/capabilities",
            json!({"drop": ["ALL"], "add": ["CHOWN"]}),
        ),
        ("/containers/0/securityContext/capabilities", json!({})),
        ("/containers/0/ports/0/hostPort", json!(8081)),
    ] {
        let mut pod = pod.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match pod.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        assert_ne!(not_restricted(&pod), Vec::<String>::new(), "{pointer}");
    }
}

/// Returns the fields of a pod that `restricted-v2` does not admit.
fn not_restricted(pod: &Value) -> Vec<String> {
    const VOLUMES: [&str; 6] = [
        "configMap",
        "downwardAPI",
        "emptyDir",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let mut found = Vec::new();
    let mut forbid = |what: &str, value: &Value, allowed: &Value| {
        if !value.is_null() && value != allowed {
            found.push(format!("{what}: {value}"));
        }
    };
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        forbid(field, &pod[field], &json!(false));
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let fields = volume.as_object().unwrap().keys();
        for kind in fields.filter(|field| *field != "name" && !VOLUMES.contains(&field.as_str())) {
            forbid("volume", &json!(kind), &Value::Null);
        }
    }
    let containers = ["initContainers", "containers"]
        .into_iter()
        .filter_map(|key| pod[key].as_array());
    for container in containers.flatten() {
        let context = &container["securityContext"];
        forbid("privileged", &context["privileged"], &json!(false));
        let escalation = context["allowPrivilegeEscalation"] == json!(false);
        forbid("allowPrivilegeEscalation", &json!(escalation), &json!(true));
        let drops = context["capabilities"]["drop"] == json!(["ALL"]);
        forbid("capabilities to drop", &json!(drops), &json!(true));
        forbid(
            "capabilities to add",
            &context["capabilities"]["add"],
            &json!(["NET_BIND_SERVICE"]),
        );
        for port in container["ports"].as_array().into_iter().flatten() {
            forbid("hostPort", &port["hostPort"], &Value::Null);
        }
    }
    let contexts = pod["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| &container["securityContext"]);
    for context in contexts.chain([&pod["securityContext"]]) {
        for chosen in ["runAsUser", "fsGroup", "seLinuxOptions", "sysctls"] {
            forbid(chosen, &context[chosen], &Value::Null);
        }
        forbid(
            "seccompProfile",
            &context["seccompProfile"]["type"],
            &json!("RuntimeDefault"),
        );
    }
    found
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
