//! Renders the `ClusterServiceVersion`: the base in `manifests/olm/`, filled from the other sources.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_yaml::Value;

use crate::releases::Release;
use crate::sources::{
    Crd, at, documents, generated, mapping_at, mappings_at, object, text, text_at, yaml,
};
use crate::{csv_name, image, permissions};

const BASE: &str = "manifests/olm/clusterserviceversion.yaml";
const DEPLOYMENT: &str = "manifests/deployment.yaml";
const NAMESPACE: &str = "manifests/namespace.yaml";

pub(crate) fn render(root: &Path, crds: &[Crd], release: &Release) -> Result<String> {
    let mut csv: Value = yaml(root, BASE)?;
    mapping_at(&mut csv, "metadata", BASE)?.insert("name".into(), release.csv_name().into());
    annotate(root, &mut csv, release)?;
    own(&mut csv, crds)?;

    let icon = object([
        (
            "base64data",
            STANDARD
                .encode(text(root, "manifests/olm/icon.svg")?)
                .into(),
        ),
        ("mediatype", "image/svg+xml".into()),
    ]);
    let (deployment, mut related_images) = deployment(root, &release.image)?;
    let must_gather = release.must_gather()?;
    related_images.push(object([
        ("name", "must-gather".into()),
        ("image", must_gather.into()),
    ]));
    let permissions = permissions::read(root)?;
    let install = object([
        ("clusterPermissions", permissions.cluster.into()),
        ("permissions", permissions.namespaced.into()),
        ("deployments", vec![deployment].into()),
    ]);
    let install = object([("strategy", "deployment".into()), ("spec", install)]);
    let spec = mapping_at(&mut csv, "spec", BASE)?;
    let mut set = |key: &str, value: Value| spec.insert(key.into(), value);
    set("version", release.version.to_string().into());
    if let Some(replaces) = &release.replaces {
        set("replaces", csv_name(replaces).into());
    }
    set(
        "description",
        text(root, "manifests/olm/description.md")?.into(),
    );
    set("icon", vec![icon].into());
    set("install", install);
    set("relatedImages", related_images.into());
    generated(&csv)
}

fn annotate(root: &Path, csv: &mut Value, release: &Release) -> Result<()> {
    let namespace: Value = yaml(root, NAMESPACE)?;
    let examples = documents(root, "manifests/olm/examples.yaml")?;
    let annotations = mapping_at(csv, "metadata.annotations", BASE)?;
    let mut set = |key: &str, value: &str| annotations.insert(key.into(), value.into());
    set("alm-examples", &serde_json::to_string_pretty(&examples)?);
    set("containerImage", &release.image);
    set("createdAt", &release.created_at);
    // `oc adm must-gather --all-images` looks for this annotation.
    let must_gather = release.must_gather()?;
    set("operators.openshift.io/must-gather-image", &must_gather);
    // The programs for nodes are in the image, so only images are pulled. OpenShift before 4.13 mirrors only by digest.
    let have_digests = [
        image::has_digest(&release.image)?,
        image::has_digest(&must_gather)?,
    ];
    let is_for_mirrors = have_digests == [true; 2];
    let disconnected = "features.operators.openshift.io/disconnected";
    set(disconnected, &is_for_mirrors.to_string());
    if is_for_mirrors {
        // The annotation before OpenShift 4.14.
        let features = "operators.openshift.io/infrastructure-features";
        set(features, r#"["disconnected"]"#);
    }
    let suggested = "operatorframework.io/suggested-namespace";
    set(suggested, text_at(&namespace, "metadata.name", NAMESPACE)?);
    set(
        &format!("{suggested}-template"),
        &serde_json::to_string(&namespace)?,
    );
    if let Some(range) = &release.skip_range {
        set("olm.skipRange", range);
    }
    if let Some(repository) = &release.repository {
        set("repository", repository);
    }
    Ok(())
}

/// Fills the base's list of owned CRDs from the CRDs themselves.
fn own(csv: &mut Value, crds: &[Crd]) -> Result<()> {
    let mut owned = mappings_at(csv, "spec.customresourcedefinitions.owned", BASE)?;
    for crd in crds {
        let name = Some(crd.name.as_str());
        let mut entries = owned.iter_mut();
        let entry = entries
            .find(|entry| entry.get("name").and_then(Value::as_str) == name)
            .with_context(|| format!("{BASE}: owns no {}: add it with a displayName", crd.name))?;
        entry.insert("kind".into(), crd.kind.as_str().into());
        entry.insert("version".into(), crd.version.as_str().into());
        entry.insert("description".into(), crd.description.as_str().into());
    }
    ensure!(
        owned.len() == crds.len(),
        "{BASE}: owns a definition that is not in crds/, or one twice: take it out"
    );
    Ok(())
}

/// Returns the Deployment with `image`, and the list of all images in it.
fn deployment(root: &Path, image: &str) -> Result<(Value, Vec<Value>)> {
    let mut deployment: Value = yaml(root, DEPLOYMENT)?;
    let containers = image::set_in_deployment(&mut deployment, image, DEPLOYMENT)?;
    let related = |name: String| object([("name", name.into()), ("image", image.into())]);
    let related_images = containers.into_iter().map(related).collect();
    let of = |keys| at(&deployment, keys, DEPLOYMENT).cloned();
    let rendered = object([
        ("name", of("metadata.name")?),
        ("label", of("metadata.labels")?),
        ("spec", of("spec")?),
    ]);
    Ok((rendered, related_images))
}
