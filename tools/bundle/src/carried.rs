//! The objects of `manifests/metrics.yaml` and `manifests/viewer.yaml`, which a bundle carries as manifests of their own.
//!
//! A `ServiceMonitor` and a `PrometheusRule` could be among them, and are not: OLM does not install a bundle with kinds that the
//! cluster does not have.

use std::path::Path;

use serde_yaml::Value;

use crate::sources::{BundleError, documents, generated, mapping_at, text_at};

const PATHS: [&str; 2] = ["manifests/metrics.yaml", "manifests/viewer.yaml"];

/// Each object under the name that operator-sdk gives to its file.
pub(crate) fn render(root: &Path) -> Result<Vec<(String, String)>, BundleError> {
    let mut objects = Vec::new();
    for path in PATHS {
        for document in documents(root, path)? {
            objects.push(object(document, path)?);
        }
    }
    Ok(objects)
}

fn object(mut object: Value, path: &str) -> Result<(String, String), BundleError> {
    let kind = text_at(&object, "kind", path)?.to_lowercase();
    let version = text_at(&object, "apiVersion", path)?.replace('/', "_");
    let name = text_at(&object, "metadata.name", path)?.to_owned();
    // OLM puts it into the namespace of the Subscription.
    mapping_at(&mut object, "metadata", path)?.remove("namespace");
    let file_name = format!("{name}_{version}_{kind}.yaml");
    let text = generated(&object, &file_name)?;
    Ok((file_name, text))
}
