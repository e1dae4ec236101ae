//! Installs, upgrades and removes releases in a real cluster, and checks refusals.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::control_plane::ControlPlane;
use testbed::objects;
use testbed::sandbox::OperatorCommand;

use crate::chart::helm::{Helm, OPERATOR};

const SETTINGS: &str = "/apis/windowsstorage.dev/v1alpha1/windowsstorages/cluster";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/windowsstorages.windowsstorage.dev";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/storage/deployments/windows-storage-operator";
const FIELD: &str =
    "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/upgradeGate";
/// Kinds of namespaced objects that belong to a release.
const OBJECTS: &str = "deployments,services,serviceaccounts,networkpolicies,roles,rolebindings";

/// Longer than any step takes on a loaded machine; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn cluster() -> (ControlPlane, Helm) {
    let control_plane = ControlPlane::start().unwrap();
    let helm = Helm::with(control_plane.kubeconfig());
    (control_plane, helm)
}

fn get(control_plane: &ControlPlane, path: &str) -> Value {
    control_plane.read(path).unwrap().unwrap_or_default()
}

/// Starts the operator with the permissions of its release in `storage`, and waits for its verdict on a cluster that
/// lacks a driver.
pub fn assert_the_operator_works(control_plane: &ControlPlane) {
    control_plane.await_definitions().unwrap();
    for object in [
        objects::windows_node("win-1"),
        objects::csi_node("win-1", &[]),
        objects::azure_disk_workload("win-1"),
    ] {
        control_plane.apply(&object).unwrap();
    }

    let binary = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/payload");
    let command =
        OperatorCommand::in_namespace(control_plane, "storage", binary, &payload).unwrap();
    let log = control_plane.dir().join("operator.log");
    let _operator = command
        .start(Some(&log), &["--leader-elect-identity=operator"], false)
        .unwrap();
    let begin = Instant::now();
    loop {
        let status = get(control_plane, SETTINGS)["status"].clone();
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let is_held = conditions.any(|condition| {
            condition["type"] == "Upgradeable" && condition["reason"] == "DriversMissing"
        });
        let node = "/apis/windowsstorage.dev/v1alpha1/windowsnodestorages/win-1";
        if is_held && !get(control_plane, node)["status"].is_null() {
            break;
        }
        let told = std::fs::read_to_string(&log).unwrap();
        assert!(begin.elapsed() < PATIENCE, "{status}\n{told}");
        thread::sleep(Duration::from_millis(100));
    }
    let lease = "/apis/coordination.k8s.io/v1/namespaces/storage/leases/windows-storage-operator";
    let holder = &get(control_plane, lease)["spec"]["holderIdentity"];
    assert_eq!(*holder, "operator");
    let requests = control_plane.requests_of("storage", OPERATOR).unwrap();
    assert!(requests.len() > 10, "{requests:#?}");
    let forbidden = requests.iter().find(|request| request.code == 403);
    assert_eq!(forbidden, None);
}

#[test]
fn a_release_is_installed_upgraded_and_removed_in_a_namespace_of_another_name() {
    let (control_plane, helm) = cluster();
    let install = "install ws CHART --namespace storage --create-namespace";
    helm.run(&format!("{install} --dry-run=server"));
    let notes = helm.run(install);
    let next = "kubectl create secret generic cloud-private-key -n storage";
    assert!(notes.contains(next), "{notes}");
    assert_the_operator_works(&control_plane);

    let upgraded = helm.run("upgrade ws CHART --namespace storage --set replicaCount=1");
    assert!(upgraded.contains("REVISION: 2"), "{upgraded}");
    assert_eq!(get(&control_plane, DEPLOYMENT)["spec"]["replicas"], 1);
    helm.run("rollback ws 1 --namespace storage");
    assert_eq!(get(&control_plane, DEPLOYMENT)["spec"]["replicas"], 2);

    // The CRDs and the settings stay: removing them would delete the state of all nodes.
    helm.run("uninstall ws --namespace storage");
    let arguments = ["get", OBJECTS, "--namespace=storage", "--output=name"];
    assert_eq!(control_plane.kubectl(&arguments).unwrap(), "");
    let cluster_wide = ["get", "clusterroles,clusterrolebindings", "--output=name"];
    let left = control_plane.kubectl(&cluster_wide).unwrap();
    assert!(!left.contains(OPERATOR), "{left}");
    assert!(get(&control_plane, SETTINGS).is_object());
    helm.run("install ws CHART --namespace storage");
}

#[test]
fn a_second_release_is_refused_wherever_it_goes() {
    let (control_plane, helm) = cluster();
    helm.run("install ws CHART --namespace storage --create-namespace");
    for (release, namespace, told) in [
        ("ws", "other", r#"namespace" must equal "other""#),
        ("second", "storage", r#"name" must equal "second""#),
    ] {
        let install = format!("install {release} CHART --namespace {namespace} --create-namespace");
        let refusal = helm.refusal(&install);
        let told = format!(r#"key "meta.helm.sh/release-{told}"#);
        for told in ["cannot be imported into the current release", &told] {
            assert!(refusal.contains(told), "{refusal}");
        }
        let arguments = ["get", OBJECTS, "--namespace=other", "--output=name"];
        assert_eq!(control_plane.kubectl(&arguments).unwrap(), "");
    }

    // A release does not take over what was applied without Helm, unless told to.
    let (control_plane, helm) = cluster();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/install.yaml");
    let apply = ["apply", "--server-side", "-f", file];
    control_plane.kubectl(&apply).unwrap();
    let install = "install ws CHART --create-namespace --namespace";
    for namespace in ["storage", OPERATOR] {
        let refusal = helm.refusal(&format!("{install} {namespace}"));
        assert!(refusal.contains("must be set to \"Helm\""), "{refusal}");
    }
    helm.run(&format!(
        "{install} {OPERATOR} --take-ownership --force-conflicts"
    ));
}

#[test]
fn an_upgrade_brings_the_definitions_of_its_chart_and_they_stay_unless_told_otherwise() {
    let (control_plane, helm) = cluster();
    helm.run("install ws CHART --namespace storage --create-namespace");
    let field = || get(&control_plane, DEFINITION).pointer(FIELD).cloned();
    assert!(field().is_some());
    let mut older = get(&control_plane, DEFINITION);
    let (parent, name) = FIELD.rsplit_once('/').unwrap();
    let parent = older.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    parent.remove(name).unwrap();
    let metadata = older["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| !["managedFields", "resourceVersion"].contains(&key.as_str()));
    let apply = "apply --server-side --force-conflicts --field-manager=helm -f -";
    let apply: Vec<&str> = apply.split(' ').collect();
    let older = older.to_string();
    control_plane.kubectl_with_input(&apply, &older).unwrap();
    assert_eq!(field(), None);
    helm.run("upgrade ws CHART --namespace storage");
    assert!(field().is_some());

    helm.run("uninstall ws --namespace storage");
    assert!(field().is_some());
    // They belong to the release that is gone, until another takes them over.
    let again = "install again CHART --namespace other --create-namespace";
    let refusal = helm.refusal(again);
    assert!(refusal.contains("CustomResourceDefinition"), "{refusal}");
    helm.run(&format!("{again} --take-ownership --set crds.keep=false"));
    helm.run("uninstall again --namespace other");
    let begin = Instant::now();
    while field().is_some() {
        assert!(begin.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(100));
    }
}
