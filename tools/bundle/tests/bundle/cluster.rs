//! A real API server accepts the bundle's objects.

use std::collections::BTreeSet;

use testbed::control_plane::ControlPlane;
use testbed::olm::Olm;

use crate::project::{CSV, at, list, newest, rendered, root, text};

#[test]
fn a_real_api_server_takes_everything_in_the_bundle_and_its_examples() {
    let control_plane = ControlPlane::start().unwrap();
    Olm::install_definitions(&control_plane).unwrap();
    let manifests = root().join("bundle/manifests");
    // Strict: a field that OLM's CRDs do not define is an error rather than pruned.
    let strict = ["apply", "--server-side", "--validate=strict", "-f"];
    let apply = [&strict[..], &[manifests.to_str().unwrap()]].concat();
    let applied = control_plane.kubectl(&apply).unwrap();
    assert_eq!(applied.lines().count(), 6, "{applied}");
    control_plane.await_definitions().unwrap();

    let (_, csv) = rendered(&newest());
    let examples = text(&csv, "metadata/annotations/alm-examples");
    let examples: Vec<serde_json::Value> = serde_json::from_str(examples).unwrap();
    let owned = list(&csv, "spec/customresourcedefinitions/owned").iter();
    let owned: BTreeSet<_> = owned.map(|owned| text(owned, "kind")).collect();
    let kinds = examples
        .iter()
        .map(|example| example["kind"].as_str().unwrap());
    assert_eq!(kinds.collect::<BTreeSet<_>>(), owned);
    for example in examples {
        let text = example.to_string();
        control_plane
            .kubectl_with_input(&["create", "--validate=strict", "-f", "-"], &text)
            .unwrap();
    }

    // OLM checks the Deployment inside the CSV only when it creates it.
    let object =
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: of-the-csv, namespace: default}}";
    let mut object: serde_yaml::Value = serde_yaml::from_str(object).unwrap();
    object["spec"] = at(&csv, "spec/install/spec/deployments/0/spec").clone();
    let object = serde_yaml::to_string(&object).unwrap();
    control_plane
        .kubectl_with_input(&["create", "--validate=strict", "-f", "-"], &object)
        .unwrap();
    let path = "/apis/operators.coreos.com/v1alpha1/namespaces/default/clusterserviceversions";
    let stored = control_plane.read(&format!("{path}/{}", newest().csv_name()));
    let stored = stored.unwrap().unwrap();
    assert_eq!(
        stored["metadata"]["annotations"]["createdAt"],
        newest().created_at,
        "{CSV}"
    );
}
