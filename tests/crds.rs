//! The committed CRDs are those of the code.

use std::path::Path;

use windows_storage_operator::api::custom_resource_definitions;

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
