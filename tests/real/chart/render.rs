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

/// What comes with monitoring: Prometheus' account, its token and the monitor, the rules and the dashboard.
fn monitoring() -> Objects {
    kustomized("manifests/monitoring")
}

#[test]
fn install_yaml_and_the_chart_have_the_objects_of_the_kustomization() {
    let manifests = kustomized("manifests");
    assert!(manifests.len() > 10, "{:?}", manifests.keys());
    assert_same(
        &objects(include_str!("../../../manifests/install.yaml")),
        &manifests,
    );

    let helm = Helm::offline();
    let enabled = "metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}";
    for (namespace, values, more) in [
        (OPERATOR, "", Objects::new()),
        ("storage", "", Objects::new()),
        ("storage", enabled, monitoring()),
    ] {
        let rendered = without_labels(helm.template(namespace, values));
        let mut expected = manifests.clone();
        expected.retain(|_, object| object["kind"] != "Namespace");
        expected.extend(more);
        assert_same(&rendered, &renamed(expected, namespace));
    }

    // What only a cluster administrator may create is in templates/rbac.yaml.
    let without = format!("{enabled}\nrbac: {{create: false}}");
    let without = helm.template("storage", &without);
    for name in renamed(monitoring(), "storage").keys() {
        let mut others = [
            "Secret ",
            "ServiceMonitor ",
            "PrometheusRule ",
            "ConfigMap ",
        ]
        .iter();
        let is_rbac = !others.any(|kind| name.starts_with(kind));
        assert_eq!(without.contains_key(name), !is_rbac, "{name}");
    }
}

fn without_labels(mut objects: Objects) -> Objects {
    objects.values_mut().for_each(take_labels);
    objects
}

/// Removes the labels that Helm charts add, and the annotation of CRDs.
fn take_labels(object: &mut Value) {
    let is_definition = object["kind"] == "CustomResourceDefinition";
    let metadata = object["metadata"].as_object_mut().unwrap();
    let labels = metadata["labels"].as_object_mut().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for (label, value) in [
        ("app.kubernetes.io/instance", OPERATOR.to_owned()),
        ("app.kubernetes.io/version", version.to_owned()),
        ("app.kubernetes.io/managed-by", "Helm".to_owned()),
        ("helm.sh/chart", format!("{OPERATOR}-{version}")),
    ] {
        assert_eq!(labels.remove(label), Some(value.into()), "{label}");
    }
    if is_definition {
        assert_eq!(labels.len(), 1, "{labels:?}");
        metadata.remove("labels");
        metadata.remove("annotations");
    }
}

/// Moves objects, and the objects they refer to, to another namespace.
fn renamed(found: Objects, namespace: &str) -> Objects {
    let documents = found.into_values().map(|mut object| {
        rename(&mut object, namespace);
        object.to_string()
    });
    objects(&documents.collect::<Vec<_>>().join("\n---\n"))
}

fn rename(value: &mut Value, to: &str) {
    if let Value::Object(members) = value {
        if let Some(Value::String(namespace)) = members.get_mut("namespace") {
            to.clone_into(namespace);
        }
        members.values_mut().for_each(|member| rename(member, to));
    } else if let Value::Array(items) = value {
        for item in items.iter_mut() {
            rename(item, to);
        }
    }
}

#[test]
fn helm_finds_no_fault_in_the_chart() {
    let helm = Helm::offline();
    let linted = helm.run("lint --strict CHART");
    for fault in ["[WARNING]", "[ERROR]"] {
        assert!(!linted.contains(fault), "{linted}");
    }
    let with_all = "--set metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true,\
                    podDisruptionBudget.enabled=true,podLabels.team=storage,commonLabels.team=storage";
    helm.run(&format!("lint --strict CHART {with_all}"));
    let older = helm.refusal("template a CHART --kube-version 1.23.9");
    let told = "requires kubeVersion: >=1.24.0-0";
    assert!(older.contains(told), "{older}");
    helm.run("template a CHART --kube-version 1.24.0-gke.1");
    // The version that a user sees is the version of the release.
    let shown: Value = serde_yaml::from_str(&helm.run("show chart CHART")).unwrap();
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shown["appVersion"], env!("CARGO_PKG_VERSION"));
    assert!(Path::new(CHART).join("values.schema.json").exists());
}
