//! What upgrades a cluster, with its definitions reduced to what the policies read. Names and types are those of openshift/api
//! (config/v1), rancher/system-upgrade-controller (pkg/crds), kubernetes-sigs/cluster-api (core, controlplane/kubeadm) and
//! rancher/rancher (pkg/crds), as of August 2026.

use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;

/// The namespace of objects about the cluster itself, by its label.
const OURS: &str = "capi";
/// The annotation that lets an upgrade pass.
pub const ANYWAY: &str = "windowsstorage.dev/upgrade-anyway";
/// API paths of what is changed.
pub const OPENSHIFT: &str = "config.openshift.io/v1/clusterversions/version";
pub const CHANNEL: &str = "upgrade.cattle.io/v1/namespaces/capi/plans/channel/status";

fn definition(group: &str, kind: &str, versions: &[&str], spec: &Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let scope = if kind == "ClusterVersion" {
        "Cluster"
    } else {
        "Namespaced"
    };
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions = versions.iter().enumerate().map(|(index, name)| {
        let schema = json!({"type": "object", "properties": {"spec": open(spec), "status": any}});
        json!({"name": name, "served": true, "storage": index == 0, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}})
    });
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {"group": group, "scope": scope, "versions": versions.collect::<Vec<_>>(),
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")}}})
}

/// The schema of an object with these fields, and any others.
fn open(fields: &Value) -> Value {
    json!({"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": true})
}

fn definitions() -> Vec<Value> {
    let text = json!({"type": "string"});
    let update = json!({"type": "object", "properties": {"architecture": text, "version": text, "image": text,
        "force": {"type": "boolean"}, "mode": text}});
    let version = json!({"version": text});
    let template = json!({"template": open(&json!({"spec": open(&version)}))});
    let both = ["v1beta2", "v1beta1"];
    vec![
        definition(
            "config.openshift.io",
            "ClusterVersion",
            &["v1"],
            &json!({"desiredUpdate": update}),
        ),
        definition(
            "upgrade.cattle.io",
            "Plan",
            &["v1"],
            &json!({"version": text, "channel": text}),
        ),
        definition(
            "cluster.x-k8s.io",
            "Cluster",
            &both,
            &json!({"topology": open(&version)}),
        ),
        definition("cluster.x-k8s.io", "MachineDeployment", &both, &template),
        definition("cluster.x-k8s.io", "MachinePool", &both, &template),
        definition(
            "controlplane.cluster.x-k8s.io",
            "KubeadmControlPlane",
            &both,
            &version,
        ),
        definition(
            "provisioning.cattle.io",
            "Cluster",
            &["v1"],
            &json!({"kubernetesVersion": text}),
        ),
    ]
}

/// Returns a new Plan, as in the examples of its controller.
pub fn plan(version: &Value) -> Value {
    let mut plan = listed("plan");
    let spec = plan["spec"].as_object_mut().unwrap();
    spec.extend(version.as_object().unwrap().clone());
    plan
}

/// What the operators of these objects have written before an upgrade.
fn statuses() -> [(&'static str, Value); 2] {
    [
        (
            "/apis/config.openshift.io/v1/clusterversions/version/status",
            json!({"status": {"availableUpdates": [], "observedGeneration": 1, "versionHash": "h",
                "desired": {"version": "4.17.5", "image": "quay.io/ocp@sha256:aa"}}}),
        ),
        (
            "/apis/upgrade.cattle.io/v1/namespaces/capi/plans/channel/status",
            json!({"status": {"latestVersion": "v1.30.4-rke2r1"}}),
        ),
    ]
}

/// Adds everything to a control plane.
pub fn install(control_plane: &ControlPlane) {
    let add = |all: Value| {
        let list = json!({"items": all}).to_string();
        control_plane.apply(&list).unwrap();
    };
    add(definitions().into());
    control_plane.await_definitions().unwrap();
    add(listed("objects"));
    for (path, status) in statuses() {
        control_plane.patch(path, &status).unwrap();
    }
}

/// Returns the API path of an object in the namespace of this cluster.
pub fn ours(group: &str, object: &str) -> String {
    let (plural, name) = object.split_once('/').unwrap();
    format!("{group}/namespaces/{OURS}/{plural}/{name}")
}

pub fn core(object: &str) -> String {
    ours("cluster.x-k8s.io/v1beta2", object)
}

pub fn plans(name: &str) -> String {
    ours("upgrade.cattle.io/v1", &format!("plans/{name}"))
}

pub fn kubeadm(name: &str) -> String {
    let group = "controlplane.cluster.x-k8s.io/v1beta1";
    ours(group, &format!("kubeadmcontrolplanes/{name}"))
}

pub fn rancher(cluster: &str) -> String {
    let (namespace, name) = cluster.split_once('/').unwrap();
    format!("provisioning.cattle.io/v1/namespaces/{namespace}/clusters/{name}")
}

/// An upgrade of each target to another minor version, which no API server of the tests has: path, change and that version.
pub fn upgrades() -> Vec<(String, Value, &'static str)> {
    let (plain, rke2, k3s) = ("v1.99.2", "v1.99.2+rke2r1", "v1.99.2+k3s1");
    let template = json!({"spec": {"template": {"spec": {"version": plain}}}});
    let topology = json!({"spec": {"topology": {"version": plain}}});
    let cluster = json!({"spec": {"kubernetesVersion": rke2}});
    vec![
        (OPENSHIFT.to_owned(), order("4.18.3"), "4.18.3"),
        (plans("server"), json!({"spec": {"version": rke2}}), rke2),
        (plans("agent"), json!({"spec": {"version": k3s}}), k3s),
        (
            CHANNEL.to_owned(),
            json!({"status": {"latestVersion": "v1.99.2-rke2r1"}}),
            "v1.99.2-rke2r1",
        ),
        (core("clusters/c"), topology, plain),
        (core("machinedeployments/c"), template.clone(), plain),
        (core("machinepools/c"), template, plain),
        (kubeadm("c"), json!({"spec": {"version": plain}}), plain),
        (rancher("fleet-local/local"), cluster, rke2),
    ]
}

/// The order of an update, as `oc adm upgrade` writes it.
pub fn order(version: &str) -> Value {
    json!({"spec": {"desiredUpdate": {"architecture": "", "force": false, "image": "quay.io/ocp@sha256:bb", "version": version}}})
}

/// Adds the annotation that lets an upgrade to this version pass.
pub fn anyway(mut change: Value, version: &str) -> Value {
    change["metadata"]["annotations"][ANYWAY] = version.into();
    change
}

/// What passes while upgrades to another minor version do not.
pub fn harmless() -> Vec<(String, Value)> {
    let listed: Vec<(String, Value)> = serde_json::from_value(listed("harmless")).unwrap();
    // An annotation cannot be given with the status.
    let of_spec = upgrades().into_iter().filter(|(path, ..)| path != CHANNEL);
    let anyway = of_spec.map(|(path, change, version)| (path, anyway(change, version)));
    listed.into_iter().chain(anyway).collect()
}

/// Reads a part of the file beside this one.
fn listed(part: &str) -> Value {
    let mut all: serde_yaml::Value = serde_yaml::from_str(include_str!("targets.yaml")).unwrap();
    all.apply_merge().unwrap();
    serde_json::to_value(&all[part]).unwrap()
}
