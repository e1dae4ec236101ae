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
        self.kubectl(&format!("delete crd {name}"));
    }
}

#[test]
fn a_definition_that_goes_with_its_objects_opens_nothing_and_all_is_well_once_it_is_back() {
    let scene = Scene::new();
    let mut operator = scene.start();
    let calm = scene.calm();
    let nodes = NODES.map(|node| scene.node(node));
    for plural in ["windowsnodestorages", "windowsstorages"] {
        let (mark, openings) = (scene.mark(), scene.openings());
        scene.undefine(plural);
        // The gate depends neither on statuses nor on settings, whose defaults hold meanwhile.
        scene.register(NODES[0], false);
        scene.expect_missing("win-000, win-001");
        scene.eventually("the operator says what is wrong", || {
            let told = scene.told_since(mark);
            told.contains("are the custom resource definitions installed?")
        });
        scene.register(NODES[0], true);
        scene.expect_missing(NODES[1]);
        // With the default settings, the nodes cannot be reached, and nothing is removed from them.
        assert_eq!(NODES.map(|node| scene.node(node)), nodes);
        assert_eq!(scene.openings(), openings);
        scene.define(plural);
        scene.simulation.want(&json!({}));
        scene.expect_as_calm(&calm);
        scene.register(NODES[1], false);
    }
    assert_eq!(operator.ended().unwrap(), None);
}
