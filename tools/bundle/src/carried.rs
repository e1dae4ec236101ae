//! The objects of `manifests/metrics.yaml` and `manifests/viewer.yaml`, which a bundle includes as separate manifests.
//!
//! A `ServiceMonitor` and a `PrometheusRule` could be included as well, but are not: OLM does not install a bundle with
//! kinds that the cluster does not have.

use std::path::Path;

use anyhow::Result;

use crate::sources::{documents, generated, mapping_at, text_at};

const PATHS: [&str; 2] = ["manifests/metrics.yaml", "manifests/viewer.yaml"];

/// Returns each object with the file name that operator-sdk would give it.
pub(crate) fn render(root: &Path) -> Result<Vec<(String, String)>> {
    let mut objects = Vec::new();
    for path in PATHS {
        for mut object in documents(root, path)? {
            let kind = text_at(&object, "kind", path)?.to_lowercase();
            let version = text_at(&object, "apiVersion", path)?.replace('/', "_");
            let name = text_at(&object, "metadata.name", path)?.to_owned();
            // OLM installs it into the namespace of the Subscription.
            mapping_at(&mut object, "metadata", path)?.remove("namespace");
            objects.push((format!("{name}_{version}_{kind}.yaml"), generated(&object)?));
        }
    }
    Ok(objects)
}
