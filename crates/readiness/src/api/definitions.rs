//! The custom resource definitions as Kubernetes' conventions want them, out of what the types of this program say.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::api::{GROUP, WindowsNodeStorage, WindowsStorage};

/// The operator's custom resource definitions with the file name of each.
///
/// # Panics
/// Never: the definitions are data of this program that always serialize.
pub fn custom_resource_definitions() -> [(String, String); 2] {
    [WindowsStorage::crd(), WindowsNodeStorage::crd()].map(|mut crd| {
        schemas(&mut crd).for_each(conventional);
        #[expect(
            clippy::expect_used,
            reason = "a definition made by the derive macro always serializes"
        )]
        let text = serde_yaml::to_string(&crd).expect("a CRD serializes");
        (format!("{GROUP}_{}.yaml", crd.spec.names.plural), text)
    })
}

fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let versions = crd.spec.versions.iter_mut();
    versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// An object may come without `spec`, and what nobody but the operator writes has no defaults.
fn conventional(object: &mut JSONSchemaProps) {
    object.required = None;
    each(object, &mut |schema| {
        // The API server knows no other formats of integers.
        match schema.format.as_deref() {
            Some("uint8" | "uint16" | "uint32") => schema.format = Some("int32".to_owned()),
            Some("uint64") => schema.format = Some("int64".to_owned()),
            _ => {}
        }
        // A null counts as a field that is not there, with and without this; Go's types do not say it either.
        schema.nullable = None;
        if schema.type_.as_deref() == Some("array") {
            let list_type = &mut schema.x_kubernetes_list_type;
            list_type.get_or_insert_with(|| "atomic".to_owned());
        }
    });
    for (field, schema) in object.properties.iter_mut().flatten() {
        match field.as_str() {
            "spec" => schema.default = Some(JSON(json!({}))),
            _ => each(schema, &mut |schema| schema.default = None),
        }
    }
}

/// Does that to a schema and to all within it.
fn each(schema: &mut JSONSchemaProps, change: &mut dyn FnMut(&mut JSONSchemaProps)) {
    change(schema);
    let fields = schema.properties.iter_mut().flatten();
    fields.for_each(|(_, field)| each(field, change));
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut schema.items {
        each(item, change);
    }
}
