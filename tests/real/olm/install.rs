//! Installs the operator from its CSVs, as OLM's catalog operator does.

use std::path::Path;

use bundler::Release;
use serde_json::{Value, json};

use crate::olm::cluster::{CSV, Cluster};

/// Returns the name of a version's CSV.
pub fn csv_name(version: &str) -> String {
    format!("windows-storage-operator.v{version}")
}

/// Returns the objects in the bundle of a version: the CSV, the CRDs, and the objects it includes unchanged.
fn bundle(version: &str, replaces: Option<&str>) -> Vec<Value> {
    let release = Release {
        version: version.parse().unwrap(),
        image: format!("localhost/windows-storage-operator:{version}"),
        replaces: replaces.map(|version| version.parse().unwrap()),
        skip_range: None,
        must_gather_image: None,
        max_openshift_version: None,
        repository: None,
        created_at: "2026-01-01T00:00:00Z".to_owned(),
    };
    let files = bundler::render(Path::new(env!("CARGO_MANIFEST_DIR")), &release).unwrap();
    files
        .iter()
        .filter(|(path, _)| path.starts_with("bundle/manifests"))
        .map(|(_, text)| serde_yaml::from_str(text).unwrap())
        .collect()
}

/// Installs a version as an `InstallPlan` does. OLM does the rest.
pub fn install(cluster: &Cluster, namespace: &str, version: &str, replaces: Option<&str>) {
    cluster.apply_all(&objects(namespace, version, replaces));
}

/// Returns what an `InstallPlan` creates: the objects of the bundle, the ServiceAccount, and the RBAC that the CSV requests.
pub fn objects(namespace: &str, version: &str, replaces: Option<&str>) -> Vec<Value> {
    let (mut csvs, mut others): (Vec<Value>, Vec<Value>) = bundle(version, replaces)
        .into_iter()
        .partition(|object| object["kind"] == CSV);
    assert_eq!((csvs.len(), others.len()), (1, 5));
    let namespaced = others
        .iter_mut()
        .filter(|object| object["kind"] == "Service");
    for object in namespaced.chain(&mut csvs) {
        object["metadata"]["namespace"] = namespace.into();
    }
    let rights = rights(&csvs[0]);
    [others, rights, csvs].concat()
}

/// Returns the RBAC objects that the catalog operator creates for the permissions in a CSV. Names of cluster-wide
/// objects contain the namespace, because there may be several operators.
fn rights(csv: &Value) -> Vec<Value> {
    let (csv_name, namespace) = (&csv["metadata"]["name"], &csv["metadata"]["namespace"]);
    let name = format!(
        "{}-{}",
        namespace.as_str().unwrap(),
        csv_name.as_str().unwrap()
    );
    let metadata = json!({"name": name, "namespace": namespace});
    let version = "rbac.authorization.k8s.io/v1";
    let strategy = &csv["spec"]["install"]["spec"];
    let mut objects = Vec::new();
    for (field, kind) in [
        ("permissions", "Role"),
        ("clusterPermissions", "ClusterRole"),
    ] {
        for permission in strategy[field].as_array().unwrap() {
            let account = &permission["serviceAccountName"];
            let subject =
                json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
            objects.extend([
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}}),
                json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": permission["rules"]}),
                json!({"apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata, "roleRef": role, "subjects": [subject]}),
            ]);
        }
    }
    objects
}
