//! The operator's CRDs are deleted, together with all their objects, and installed again.

use serde_json::json;

use super::{NODES, Scene};

const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");

impl Scene {
    pub fn define(&self, plural: &str) {
        let path = format!("{CRDS}/windowsstorage.dev_{plural}.yaml");
        let definition = std::fs::read_to_string(path).unwrap();
        let control_plane = self.control_plane();
        control_plane.apply(&definition).unwrap();
        control_plane.await_definitions().unwrap();
    }

    fn undefine(&self, plural: &str) {
        let name = format!("{plural}.windowsstorage.dev");
        self.harness().kubectl(&format!("delete crd {name}"));
    }
}

#[test]
fn statuses_of_nodes_come_back_with_their_definition() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    let (mark, openings) = (scene.mark(), scene.openings());
    scene.undefine("windowsnodestorages");
    // The gate does not depend on the deleted objects.
    scene.register(NODES[0], false);
    scene.expect_missing("win-000, win-001");
    scene
        .harness()
        .eventually("the operator says what is wrong", || {
            let told = scene.told_since(mark);
            told.contains("are the custom resource definitions installed?")
        });
    scene.register(NODES[0], true);
    scene.expect_missing(NODES[1]);
    assert_eq!(scene.openings(), openings);
    scene.define("windowsnodestorages");
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}

#[test]
fn settings_that_go_with_their_definition_are_the_defaults_until_they_are_back() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    let nodes = NODES.map(|node| scene.node(node));
    let (mark, openings) = (scene.mark(), scene.openings());
    scene.undefine("windowsstorages");
    scene.register(NODES[0], false);
    scene.expect_missing("win-000, win-001");
    scene
        .harness()
        .eventually("the operator says what is wrong", || {
            let told = scene.told_since(mark);
            told.contains("are the custom resource definitions installed?")
        });
    scene.register(NODES[0], true);
    scene.expect_missing(NODES[1]);
    // With the default settings, the nodes cannot be reached, and nothing is removed from them.
    assert_eq!(NODES.map(|node| scene.node(node)), nodes);
    assert_eq!(scene.openings(), openings);
    scene.define("windowsstorages");
    scene.simulation.want(&json!({}));
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}
