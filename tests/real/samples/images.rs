//! The versions of all images are defined in one place.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::samples::catalogue::{all, documents, root};

const PINS: &str = "images/kustomization.yaml";

fn pins() -> Vec<Value> {
    let text = std::fs::read_to_string(root().join(PINS)).unwrap();
    let component = documents(&text).remove(0);
    component["images"].as_array().unwrap().clone()
}

/// Collects all images of an object, at any depth.
fn images(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(image) if name == "image" => {
                        found.insert(image.clone());
                    }
                    _ => images(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| images(item, found)),
        _ => {}
    }
}

#[test]
fn every_image_has_its_version_from_the_one_list_and_every_entry_is_used() {
    let pinned = pins().into_iter().map(|pin| {
        let [name, tag] = ["newName", "newTag"].map(|key| pin[key].as_str().unwrap().to_owned());
        let is_version = tag.contains(|c: char| c.is_ascii_digit());
        assert!(tag != "latest" && is_version, "{tag}");
        format!("{name}:{tag}")
    });
    let mut used = BTreeSet::new();
    for object in all().flat_map(|sample| sample.objects()) {
        images(&object, &mut used);
    }
    assert_eq!(used, pinned.collect());
}
