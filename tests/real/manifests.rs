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
cluster | {rollout: {maxFailures: 0}} | maxFailures
cluster | {ssh: {port: 0}} | port
cluster | {ssh: {user: 'a b'}} | user
cluster | {csiProxy: {management: Sometimes}} | management
cluster | {csiProxy: {extraArgs: ['-v=1 & del']}} | extraArgs
cluster | {csiProxy: {extraArgs: ['C:\x.exe']}} | extraArgs
cluster | {upgradeGate: Maybe} | upgradeGate
cluster | {nodePools: [{name: blue, nodeSelector: {pool: blue}}, {name: blue, nodeSelector: {pool: blue}}]} | duplicate
cluster | {nodePools: [{name: blue}]} | nodeSelector
cluster | {nodePools: [{nodeSelector: {pool: blue}}]} | name
cluster | {nodePools: [{name: blue, nodeSelector: {}}]} | nodeSelector
cluster | {nodePools: [{name: Blue Pool, nodeSelector: {pool: blue}}]} | such as pool-1
cluster | {nodePools: [{name: blue, nodeSelector: {pool: blue}, management: Removed}]} | management
cluster | {nodePools: [{name: blue, nodeSelector: {pool: blue}, version: newest}]} | write a version such as v1.3.0
cluster | {nodePools: [{name: blue, nodeSelector: {pool: blue}, ssh: {port: 0}}]} | port
cluster | {nodePools: [{name: blue, nodeSelector: {pool: blue}, ssh: {user: a b}}]} | a user name has neither
cluster | {nodePools: [{name: blue, nodeSelector: {pool: blue}, ssh: {privateKeySecretRef: {name: blue, key: ../other}}}]} | privateKeySecretRef.key
cluster | {nodePools: [{name: blue, nodeSelector: {pool: blue}, ssh: {privateKeySecretRef: {key: ssh}}}]} | privateKeySecretRef.name: Required
cluster | {nodePools: [{name: blue, nodeSelector: {pool: blue}, rollout: {maxUnavailable: 0%}}]} | maxUnavailable
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
    apply("manifests");
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

    the_pod_is_restricted(&control_plane);

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
    settings("cluster", r"{csiProxy: {extraArgs: ['-kubelet-path=D:\kubelet']}, ssh: {user: 'CORP\ops', port: 2222}, nodePools: [{name: blue, nodeSelector: {pool: blue}}]}").unwrap();
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

fn deployment() -> Value {
    serde_yaml::from_str(include_str!("../../manifests/deployment.yaml")).unwrap()
}

/// The namespace enforces the standard `restricted`, which a Deployment alone does not show.
fn the_pod_is_restricted(control_plane: &ControlPlane) {
    let create = |change: &dyn Fn(&mut Value)| {
        let mut pod = deployment()["spec"]["template"].clone();
        change(&mut pod["spec"]);
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "operator".into();
        let create = [
            "create",
            "--dry-run=server",
            "-n",
            "windows-storage-operator",
            "-f",
            "-",
        ];
        control_plane.kubectl_with_input(&create, &pod.to_string())
    };
    create(&|_| ()).unwrap();
    let refused = create(&|spec| spec["securityContext"] = json!({})).unwrap_err();
    assert!(
        refused.to_string().contains("violates PodSecurity"),
        "{refused}"
    );
    // The standard does not require this, but the image supports it.
    let container = &deployment()["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
}

/// All accounts may use OpenShift's security context constraint `restricted-v2` (4.11 and later). It admits a pod only
/// if everything that the constraint has to choose itself is left unset.
#[test]
fn the_deployment_is_one_that_openshift_admits_for_every_account() {
    let pod = &deployment()["spec"]["template"]["spec"];
    for field in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
        assert!(pod[field].is_null(), "{field}");
    }
    let volumes = "configMap downwardAPI emptyDir persistentVolumeClaim projected secret name";
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let mut fields = volume.as_object().unwrap().keys();
        assert!(
            fields.all(|field| volumes.split(' ').any(|known| known == field)),
            "{volume}"
        );
    }
    let containers = pod["containers"].as_array().unwrap();
    for container in containers {
        let context = &container["securityContext"];
        assert!(context["privileged"].is_null());
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
        for port in container["ports"].as_array().into_iter().flatten() {
            assert!(port["hostPort"].is_null(), "{port}");
        }
    }
    let contexts = containers
        .iter()
        .map(|container| &container["securityContext"]);
    for context in contexts.chain([&pod["securityContext"]]) {
        for chosen in ["runAsUser", "fsGroup", "seLinuxOptions", "sysctls"] {
            assert!(context[chosen].is_null(), "{chosen}");
        }
        let profile = &context["seccompProfile"]["type"];
        assert!(
            profile.is_null() || profile == "RuntimeDefault",
            "{profile}"
        );
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
