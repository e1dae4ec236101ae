//! The `ClusterServiceVersion`: the base of `manifests/olm/`, filled from the other sources.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_yaml::{Mapping, Value};

use crate::sources::{BundleError, Crd, at, documents, generated, mapping_at, text, text_at, yaml};
use crate::{Release, csv_name, permissions};

const BASE: &str = "manifests/olm/clusterserviceversion.yaml";
const DEPLOYMENT: &str = "manifests/deployment.yaml";
const DESCRIPTION: &str = "manifests/olm/description.md";
const EXAMPLES: &str = "manifests/olm/examples.yaml";
const ICON: &str = "manifests/olm/icon.svg";
const NAMESPACE: &str = "manifests/namespace.yaml";

pub(crate) fn render(
    root: &Path,
    crds: &[Crd],
    release: &Release,
    repository: Option<&str>,
) -> Result<String, BundleError> {
    let mut csv: Value = yaml(root, BASE)?;
    mapping_at(&mut csv, "metadata", BASE)?.insert("name".into(), release.csv_name().into());
    annotate(root, &mut csv, release, repository)?;
    own(&mut csv, crds)?;

    let icon = text(root, ICON)?;
    let (deployment, related_images) = deployment(root, &release.image)?;
    let permissions = permissions::read(root)?;
    let spec = mapping_at(&mut csv, "spec", BASE)?;
    spec.insert("version".into(), release.version.to_string().into());
    if let Some(replaces) = &release.replaces {
        spec.insert("replaces".into(), csv_name(replaces).into());
    }
    spec.insert("description".into(), text(root, DESCRIPTION)?.into());
    spec.insert(
        "icon".into(),
        Value::Sequence(vec![object([
            ("base64data", STANDARD.encode(icon).into()),
            ("mediatype", "image/svg+xml".into()),
        ])]),
    );
    spec.insert(
        "install".into(),
        object([
            ("strategy", "deployment".into()),
            (
                "spec",
                object([
                    ("clusterPermissions", permissions.cluster.into()),
                    ("permissions", permissions.namespaced.into()),
                    ("deployments", Value::Sequence(vec![deployment])),
                ]),
            ),
        ]),
    );
    spec.insert("relatedImages".into(), related_images.into());
    generated(&csv, BASE)
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Mapping(
        members
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect::<Mapping>(),
    )
}

fn annotate(
    root: &Path,
    csv: &mut Value,
    release: &Release,
    repository: Option<&str>,
) -> Result<(), BundleError> {
    let namespace: Value = yaml(root, NAMESPACE)?;
    let examples = documents(root, EXAMPLES)?;
    let Release {
        version: _,
        image,
        replaces: _,
        skip_range,
        max_openshift_version: _,
        created_at,
    } = release;
    let annotations = mapping_at(csv, "metadata.annotations", BASE)?;
    let mut set = |key: &str, value: String| annotations.insert(key.into(), value.into());
    set("alm-examples", serde_json::to_string_pretty(&examples)?);
    set("containerImage", image.clone());
    set("createdAt", created_at.clone());
    set(
        "operatorframework.io/suggested-namespace",
        text_at(&namespace, "metadata.name", NAMESPACE)?.to_owned(),
    );
    set(
        "operatorframework.io/suggested-namespace-template",
        serde_json::to_string(&namespace)?,
    );
    if let Some(range) = skip_range {
        set("olm.skipRange", range.clone());
    }
    if let Some(repository) = repository {
        set("repository", repository.to_owned());
    }
    Ok(())
}

/// Fills the base's list of owned definitions from the definitions themselves.
fn own(csv: &mut Value, crds: &[Crd]) -> Result<(), BundleError> {
    let owned = mapping_at(csv, "spec.customresourcedefinitions", BASE)?
        .get_mut("owned")
        .and_then(Value::as_sequence_mut)
        .ok_or_else(|| {
            BundleError::unusable(BASE, "has no list spec.customresourcedefinitions.owned")
        })?;
    for crd in crds {
        let entry = owned
            .iter_mut()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some(&crd.name))
            .and_then(Value::as_mapping_mut)
            .ok_or_else(|| {
                BundleError::unusable(
                    BASE,
                    format!("owns no {}: add it with a displayName", crd.name),
                )
            })?;
        entry.insert("kind".into(), crd.kind.as_str().into());
        entry.insert("version".into(), crd.version.as_str().into());
        entry.insert("description".into(), crd.description.as_str().into());
    }
    if owned.len() != crds.len() {
        return Err(BundleError::unusable(
            BASE,
            "owns a definition that is not in crds/, or one twice: take it out",
        ));
    }
    Ok(())
}

/// The Deployment with `image`, and the list of all images in it.
fn deployment(root: &Path, image: &str) -> Result<(Value, Vec<Value>), BundleError> {
    let mut deployment: Value = yaml(root, DEPLOYMENT)?;
    let containers = mapping_at(&mut deployment, "spec.template.spec", DEPLOYMENT)?
        .get_mut("containers")
        .and_then(Value::as_sequence_mut)
        .ok_or_else(|| BundleError::unusable(DEPLOYMENT, "has no containers"))?;
    let mut related_images = Vec::new();
    for container in containers {
        let name = text_at(container, "name", DEPLOYMENT)?.to_owned();
        if text_at(container, "image", DEPLOYMENT)? != crate::PACKAGE {
            return Err(BundleError::unusable(
                DEPLOYMENT,
                format!(
                    "container {name} has another image than {}, which is the one that a release sets",
                    crate::PACKAGE
                ),
            ));
        }
        if let Some(container) = container.as_mapping_mut() {
            container.insert("image".into(), image.into());
        }
        related_images.push(object([("name", name.into()), ("image", image.into())]));
    }
    let rendered = object([
        (
            "name",
            at(&deployment, "metadata.name", DEPLOYMENT)?.clone(),
        ),
        (
            "label",
            at(&deployment, "metadata.labels", DEPLOYMENT)?.clone(),
        ),
        ("spec", at(&deployment, "spec", DEPLOYMENT)?.clone()),
    ]);
    Ok((rendered, related_images))
}
