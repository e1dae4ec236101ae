//! `manifests/install.yaml`: everything that `kubectl apply -k manifests` applies, in one file.

use std::path::Path;

use anyhow::Result;

use crate::image;
use crate::sources::{GENERATED, crds, listed, text_at};

pub(crate) const PATH: &str = "manifests/install.yaml";

pub(crate) fn render(root: &Path, image: &str) -> Result<String> {
    let mut documents = Vec::new();
    for (path, mut object) in listed(root)? {
        let kind = text_at(&object, "kind", &path)?.to_owned();
        if kind == "Deployment" {
            image::set_in_deployment(&mut object, image, &path)?;
        }
        let document = serde_yaml::to_string(&object)?;
        match kind.as_str() {
            // The namespace must be created before the objects in it.
            "Namespace" => documents.insert(0, document),
            _ => documents.push(document),
        }
    }
    let definitions = crds(root)?.into_iter().map(|crd| crd.text);
    documents.extend(definitions);
    Ok(GENERATED.to_owned() + &documents.join("---\n"))
}
