//! What upgrades a cluster, with its definitions reduced to what the policies read. Names and types are those of openshift/api
//! (config/v1), rancher/system-upgrade-controller (pkg/crds), kubernetes-sigs/cluster-api (core, controlplane/kubeadm) and
//! rancher/rancher (pkg/crds), as of August 2026.

use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;

/// The namespace of objects about the cluster itself, by its label, and one about other clusters.
pub const OURS: &str = "capi";
pub const OTHERS: &str = "fleet-default";
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

/// Returns a Plan, as in the examples of its controller.
pub fn plan(name: &str, version: &Value) -> Value {
    let mut plan = json!({"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": {"name": name, "namespace": OURS},
        "spec": {"concurrency": 1, "serviceAccountName": "system-upgrade", "upgrade": {"image": "rancher/rke2-upgrade"}}});
    let members = version.as_object().unwrap().clone();
    plan["spec"].as_object_mut().unwrap().extend(members);
    plan
}

fn cluster_api(group: &str, kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{group}/v1beta2"), "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

/// What there is before an upgrade.
fn objects() -> Vec<Value> {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "MachineTemplate", "name": "m"});
    let machines = json!({"clusterName": "c", "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"clusterName": "c", "version": "v1.30.4",
            "bootstrap": {"dataSecretName": "b"}, "infrastructureRef": reference}}});
    let mut pool = machines.clone();
    pool.as_object_mut().unwrap().remove("selector");
    let control_plane = json!({"version": "v1.30.4", "replicas": 3, "machineTemplate": {"spec": {"infrastructureRef": reference}}});
    let cluster = json!({"topology": {"classRef": {"name": "t"}, "version": "v1.30.4"}});
    let (core, of_kubeadm) = ("cluster.x-k8s.io", "controlplane.cluster.x-k8s.io");
    let mut owned = cluster_api(
        of_kubeadm,
        "KubeadmControlPlane",
        OURS,
        "owned",
        &control_plane,
    );
    owned["metadata"]["labels"] = json!({"topology.cluster.x-k8s.io/owned": ""});
    let rancher = |namespace: &str, name: &str| {
        json!({"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": {"name": name, "namespace": namespace},
            "spec": {"kubernetesVersion": "v1.30.4+rke2r1"}})
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OURS, "labels": {"windowsstorage.dev/this-cluster": "true"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHERS}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-local"}}),
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": {"clusterID": "5f2c8a1e-0000-4000-8000-000000000001"}}),
        plan("server", &json!({"version": "v1.30.4+rke2r1"})),
        plan(
            "channel",
            &json!({"channel": "https://update.rke2.io/v1-release/channels/stable"}),
        ),
        plan("agent", &json!({"version": "v0.3.14-suc"})),
        cluster_api(core, "Cluster", OURS, "c", &cluster),
        cluster_api(core, "Cluster", OTHERS, "c", &cluster),
        cluster_api(core, "MachineDeployment", OURS, "c", &machines),
        cluster_api(core, "MachinePool", OURS, "c", &pool),
        cluster_api(of_kubeadm, "KubeadmControlPlane", OURS, "c", &control_plane),
        owned,
        rancher("fleet-local", "local"),
        rancher(OTHERS, "downstream"),
    ]
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
    let add = |all: Vec<Value>| {
        let list = json!({"items": all}).to_string();
        control_plane.apply(&list).unwrap();
    };
    add(definitions());
    control_plane.await_definitions().unwrap();
    add(objects());
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
    let openshift = |change: Value| (OPENSHIFT.to_owned(), change);
    let with = |member: &str, value: Value| {
        let mut change = order("4.18.3");
        change["spec"]["desiredUpdate"][member] = value;
        openshift(change)
    };
    let mut all = vec![
        // Patches, the same, and versions before.
        openshift(order("4.17.9")),
        openshift(order("4.17.5")),
        openshift(order("4.16.30")),
        openshift(
            json!({"spec": {"desiredUpdate": {"architecture": "Multi", "version": "4.17.5"}}}),
        ),
        openshift(
            json!({"spec": {"desiredUpdate": {"image": "quay.io/ocp@sha256:aa", "version": ""}}}),
        ),
        (
            plans("server"),
            json!({"spec": {"version": "v1.30.9+rke2r1"}}),
        ),
        (
            plans("server"),
            json!({"spec": {"version": "v1.29.9+rke2r1"}}),
        ),
        (
            CHANNEL.to_owned(),
            json!({"status": {"latestVersion": "v1.30.9-rke2r1"}}),
        ),
        (
            core("clusters/c"),
            json!({"spec": {"topology": {"version": "v1.30.9"}}}),
        ),
        (
            core("machinedeployments/c"),
            json!({"spec": {"template": {"spec": {"version": "v1.30.9"}}}}),
        ),
        (kubeadm("c"), json!({"spec": {"version": "v1.29.9"}})),
        (
            rancher("fleet-local/local"),
            json!({"spec": {"kubernetesVersion": "v1.30.9+rke2r1"}}),
        ),
        // Forced, or not meant.
        with("force", true.into()),
        with("mode", "Preflight".into()),
        // What is not for the policies to hold.
        openshift(json!({"spec": {"channel": "stable-4.18", "desiredUpdate": null}})),
        (
            format!("{OPENSHIFT}/status"),
            json!({"status": {"desired": {"version": "4.18.3"}}}),
        ),
        (
            plans("server"),
            json!({"spec": {"concurrency": 2, "version": null, "channel": "https://update.rke2.io/v1-release/channels/v1.30"}}),
        ),
        (plans("agent"), json!({"spec": {"version": "v0.4.0-suc"}})),
        (core("clusters/c"), json!({"spec": {"paused": true}})),
        (
            core("machinedeployments/c"),
            json!({"spec": {"replicas": 5}}),
        ),
        (
            core("machinedeployments/c"),
            json!({"spec": {"template": {"spec": {"version": null}}}}),
        ),
        (kubeadm("c"), json!({"spec": {"replicas": 5}})),
        (kubeadm("owned"), json!({"spec": {"version": "v1.99.2"}})),
        (
            rancher("fleet-local/local"),
            json!({"spec": {"rkeConfig": {"provisionGeneration": 1}}}),
        ),
        // Other clusters.
        (
            core("clusters/c").replace(OURS, OTHERS),
            json!({"spec": {"topology": {"version": "v1.99.2"}}}),
        ),
        (
            rancher("fleet-default/downstream"),
            json!({"spec": {"kubernetesVersion": "v1.99.2+rke2r1"}}),
        ),
    ];
    for (path, change, version) in upgrades() {
        // An annotation cannot be given with the status.
        if path != CHANNEL {
            all.push((path, anyway(change, version)));
        }
    }
    all
}
