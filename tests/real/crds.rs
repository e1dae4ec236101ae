//! The committed CRDs match the code.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use serde_json::Value;
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
fn the_definitions_keep_to_the_conventions_of_kubernetes() {
    for (name, text) in custom_resource_definitions() {
        let crd: Value = serde_yaml::from_str(&text).unwrap();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let object = &version["schema"]["openAPIV3Schema"];
            assert_eq!(object["required"], Value::Null, "{name}: spec is optional");
            check(object, &name, false);
        }
    }
}

fn check(schema: &Value, path: &str, of_status: bool) {
    let has = |key: &str| schema.get(key).is_some();
    // A float may change when it is parsed and written again.
    assert_ne!(schema["type"], "number", "{path}");
    match schema["type"].as_str() {
        Some("integer") => {
            let known = matches!(schema["format"].as_str(), Some("int32" | "int64"));
            assert!(known, "{path}: {schema}");
        }
        Some("array") => assert!(has("x-kubernetes-list-type"), "{path}: {schema}"),
        _ => {}
    }
    assert!(!(of_status && has("default")), "{path}: {schema}");
    if path.ends_with(".conditions") {
        assert_eq!(schema["x-kubernetes-list-type"], "map", "{path}");
        let keys = serde_json::json!(["type"]);
        assert_eq!(schema["x-kubernetes-list-map-keys"], keys, "{path}");
    }
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        let is_camel = field.starts_with(|c: char| c.is_ascii_lowercase());
        assert!(is_camel, "{path}: {field} is not camelCase");
        let text = schema["description"].as_str().unwrap_or_default();
        let is_described = !text.is_empty() || path.contains(".conditions[]");
        assert!(is_described, "{path}: {field} has no description");
        let of_status = of_status || field == "status";
        check(schema, &format!("{path}.{field}"), of_status);
    }
    if has("items") {
        check(&schema["items"], &format!("{path}[]"), of_status);
    }
}

#[test]
fn the_defaults_of_the_configuration_page_are_those_of_the_code() {
    let page = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/docs/configuration.md"
    ));
    let (_, block) = page.split_once("# windowsstorage.yaml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let object: serde_json::Value = serde_yaml::from_str(block).unwrap();
    let defaults = serde_json::to_value(WindowsStorageSpec::default()).unwrap();
    assert_eq!(object["spec"], defaults);
}
