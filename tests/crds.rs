//! The committed CRDs are those of the code.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use windows_storage_operator::api::{WindowsStorageSpec, custom_resource_definitions};

#[test]
fn the_committed_crds_are_those_of_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for (name, text) in custom_resource_definitions() {
        let committed = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(
            committed == text,
            "crds/{name} is not what the code says: run make crds"
        );
    }
}

#[test]
fn the_defaults_of_the_install_page_are_all_of_them() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/install.md"));
    let (_, block) = page.split_once("# windowsstorage.yaml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let object: serde_json::Value = serde_yaml::from_str(block).unwrap();
    let defaults = serde_json::to_value(WindowsStorageSpec::default()).unwrap();
    assert_eq!(object["spec"], defaults);
}
