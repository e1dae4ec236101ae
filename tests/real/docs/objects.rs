//! YAML and JSON in the pages parse, and a real API server accepts the objects among them.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use testbed::control_plane::ControlPlane;
use testbed::olm::Olm;

use crate::docs::blocks::{Block, pages};

/// API groups that the test's API server does not serve.
const NOT_SERVED: [(&str, &str); 5] = [
    ("kustomize.config.k8s.io", "kubectl reads these itself"),
    ("kustomize.toolkit.fluxcd.io", "needs Flux"),
    ("olm.operatorframework.io", "needs OLM v1"),
    ("operator.openshift.io", "needs OpenShift"),
    (
        "snapshot.storage.k8s.io",
        "needs the snapshot controller's definitions",
    ),
];

fn blocks_of(language: &str) -> Vec<Block> {
    let pages = pages();
    let blocks = pages.into_iter().flat_map(|page| page.blocks);
    blocks.filter(|block| block.language == language).collect()
}

/// Returns the documents of a YAML block.
fn documents(block: &Block) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(&block.code)
        .map(|document| {
            Value::deserialize(document)
                .unwrap_or_else(|error| panic!("{}: {error}\n{}", block.place, block.code))
        })
        .collect()
}

#[test]
fn json_parses() {
    for block in blocks_of("json") {
        let parsed: Result<Value, _> = serde_json::from_str(&block.code);
        assert!(parsed.is_ok(), "{}: {:?}", block.place, parsed.err());
    }
}

#[test]
fn yaml_parses_and_its_objects_are_taken_by_the_api_server() {
    let control_plane = ControlPlane::start().unwrap();
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
    control_plane.kubectl(&["apply", "-k", crds]).unwrap();
    Olm::install_definitions(&control_plane).unwrap();
    let mut namespaces = BTreeSet::new();
    let mut taken = 0;
    for block in blocks_of("yaml") {
        for object in documents(&block) {
            let (Some(version), Some(_)) = (object["apiVersion"].as_str(), object["kind"].as_str())
            else {
                continue;
            };
            let group = version.rsplit_once('/').map_or("", |(group, _)| group);
            if NOT_SERVED.iter().any(|(other, _)| *other == group) {
                continue;
            }
            if let Some(namespace) = object["metadata"]["namespace"].as_str()
                && namespaces.insert(namespace.to_owned())
            {
                let namespace =
                    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
                control_plane.apply(&namespace).unwrap();
            }
            let (place, code) = (&block.place, &block.code);
            let applied = control_plane.try_apply(&object);
            applied.unwrap_or_else(|error| panic!("{place}: {error:#}\n{code}"));
            taken += 1;
        }
    }
    assert!(taken > 5, "only {taken} objects were found");
}
