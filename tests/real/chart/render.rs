//! The chart and `manifests/install.yaml` contain the objects of the manifests.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testbed::commands::printed;
use testbed::parts::part;

use crate::chart::helm::{CHART, Helm, OPERATOR, Objects, objects};

/// Returns the objects that `kubectl kustomize` prints for a folder.
fn kustomized(folder: &str) -> Objects {
    let mut kubectl = Command::new(part("kubectl").unwrap());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    kubectl.arg("kustomize").arg(folder);
    objects(&printed(&mut kubectl).unwrap())
}

fn assert_same(found: &Objects, expected: &Objects) {
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected));
    for (name, object) in found {
        let expected = &expected[name];
        assert!(object == expected, "{name}:\n{object}\n{expected}");
    }
}

#[test]
fn install_yaml_has_the_objects_of_the_kustomization() {
    let installed = objects(include_str!("../../../manifests/install.yaml"));
    assert!(installed.len() > 10, "{:?}", installed.keys());
    assert_same(&installed, &kustomized("manifests"));
}

#[test]
fn the_chart_has_the_objects_of_the_kustomization_in_the_namespace_of_the_release() {
    let helm = Helm::offline();
    for namespace in [OPERATOR, "storage"] {
        let rendered = without_labels(helm.template(namespace, ""));
        let mut expected = kustomized("manifests");
        expected.retain(|_, object| object["kind"] != "Namespace");
        assert_same(&rendered, &renamed(expected, namespace));
    }
}

/// Prometheus can read metrics: each object that another refers to is there.
#[test]
fn the_service_monitor_comes_with_the_account_of_prometheus_and_its_token() {
    let helm = Helm::offline();
    let enabled = "metrics: {serviceMonitor: {enabled: true}}";
    let rendered = without_labels(helm.template("storage", enabled));
    let monitor = &rendered[&format!("ServiceMonitor storage/{OPERATOR}")];
    let token = &monitor["spec"]["endpoints"][0]["authorization"]["credentials"];
    let token = token["name"].as_str().unwrap();
    let secret = &rendered[&format!("Secret storage/{token}")];
    let account = &secret["metadata"]["annotations"]["kubernetes.io/service-account.name"];
    let account = account.as_str().unwrap();
    assert!(rendered.contains_key(&format!("ServiceAccount storage/{account}")));
    let binding = &rendered[&format!("ClusterRoleBinding /{account}")];
    assert_eq!(binding["subjects"][0]["name"], account);
    assert_eq!(binding["subjects"][0]["namespace"], "storage");
    let role = binding["roleRef"]["name"].as_str().unwrap();
    assert!(rendered.contains_key(&format!("ClusterRole /{role}")));

    let default = helm.template("storage", "");
    let mut added = rendered.clone();
    added.retain(|name, _| !default.contains_key(name));
    let mut expected = kustomized("manifests/monitoring");
    expected
        .retain(|_, object| object["kind"] != "PrometheusRule" && object["kind"] != "ConfigMap");
    assert_same(&added, &renamed(expected, "storage"));

    // What only a cluster administrator may create is in templates/rbac.yaml.
    let without = format!("{enabled}\nrbac: {{create: false}}");
    let without = helm.template("storage", &without);
    assert!(without.contains_key(&format!("Secret storage/{token}")));
    assert!(!without.contains_key(&format!("ServiceAccount storage/{account}")));
    assert!(!without.contains_key(&format!("ClusterRoleBinding /{account}")));
}

fn without_labels(mut objects: Objects) -> Objects {
    objects.values_mut().for_each(take_labels);
    objects
}

/// Removes the labels that Helm charts add. CRDs are not templates and do not have them.
fn take_labels(object: &mut Value) {
    if object["kind"] == "CustomResourceDefinition" {
        return;
    }
    let labels = object["metadata"]["labels"].as_object_mut().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for (label, value) in [
        ("app.kubernetes.io/instance", OPERATOR.to_owned()),
        ("app.kubernetes.io/version", version.to_owned()),
        ("app.kubernetes.io/managed-by", "Helm".to_owned()),
        ("helm.sh/chart", format!("{OPERATOR}-{version}")),
    ] {
        assert_eq!(labels.remove(label), Some(value.into()), "{label}");
    }
}

fn renamed(found: Objects, namespace: &str) -> Objects {
    let documents = found.into_values().map(|mut object| {
        rename(&mut object, namespace);
        serde_json::to_string(&object).unwrap()
    });
    objects(&documents.collect::<Vec<_>>().join("\n---\n"))
}

/// Moves an object, and the objects it refers to, to another namespace.
fn rename(value: &mut Value, to: &str) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if key == "namespace" {
                    *member = to.into();
                } else {
                    rename(member, to);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, to)),
        _ => {}
    }
}

#[test]
fn helm_finds_no_fault_in_the_chart() {
    let helm = Helm::offline();
    let linted = helm.run("lint --strict CHART");
    for fault in ["[WARNING]", "[ERROR]"] {
        assert!(!linted.contains(fault), "{linted}");
    }
    let with_all = "--set metrics.serviceMonitor.enabled=true,windowsStorage.spec.upgradeGate=Ignore,podLabels.team=storage";
    helm.run(&format!("lint --strict CHART {with_all}"));
    let older = helm.refusal("template a CHART --kube-version 1.23.9");
    assert!(
        older.contains("requires kubeVersion: >=1.24.0-0"),
        "{older}"
    );
    helm.run("template a CHART --kube-version 1.24.0-gke.1");
    // The version that a user sees is the version of the release.
    let shown: Value = serde_yaml::from_str(&helm.run("show chart CHART")).unwrap();
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shown["appVersion"], env!("CARGO_PKG_VERSION"));
    assert!(Path::new(CHART).join("values.schema.json").exists());
}
