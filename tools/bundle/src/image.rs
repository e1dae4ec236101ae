//! Parses image references, and sets the image in `manifests/kustomization.yaml`.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use semver::Version;
use serde_yaml::Value;

use crate::PACKAGE;
use crate::sources::{KUSTOMIZATION, mappings_at, text};

/// Splits a reference into name, tag and digest.
pub(crate) fn parse(image: &str) -> Result<(&str, Option<&str>, Option<&str>)> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to the registry's port.
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    let is_plain = |text: &str| {
        let mut letters = text.chars();
        !text.is_empty() && letters.all(|c| c.is_ascii_alphanumeric() || "._-/:".contains(c))
    };
    let names_content = tag.is_some() || digest.is_some();
    let mut parts = [Some(name), tag, digest].into_iter().flatten();
    ensure!(
        names_content && parts.all(is_plain),
        "image {image:?} is not NAME:TAG or NAME@DIGEST"
    );
    Ok((name, tag, digest))
}

/// Returns the default image, which is in no registry: it is the one that `make image` builds locally.
pub(crate) fn default_image(version: &Version) -> String {
    format!("localhost/{PACKAGE}:{version}")
}

/// Returns the reference of an image next to the operator's, such as that of the bundle or for `oc adm must-gather`.
pub(crate) fn beside(image: &str, what: &str, version: &Version) -> Result<String> {
    let (name, ..) = parse(image)?;
    Ok(format!("{name}-{what}:{version}"))
}

/// Returns whether a reference has a digest, so that a mirror can replace it on every OpenShift version.
pub(crate) fn has_digest(image: &str) -> Result<bool> {
    let (.., digest) = parse(image)?;
    Ok(digest.is_some())
}

/// Returns `manifests/kustomization.yaml` with another image. Everything before `images:` is written by hand and kept.
pub(crate) fn set_in_kustomization(root: &Path, image: &str) -> Result<String> {
    let (name, tag, digest) = parse(image)?;
    let text = text(root, KUSTOMIZATION)?;
    let (before, _) = text.split_once("\nimages:\n").with_context(|| {
        format!("{KUSTOMIZATION}: has no line images:, after which the image is set")
    })?;
    let mut text = format!("{before}\nimages:\n  - name: {PACKAGE}\n    newName: {name}\n");
    for (key, value) in [("newTag", tag), ("digest", digest)] {
        if let Some(value) = value {
            // Without quotes, a tag such as 1.0 would be a number.
            writeln!(text, "    {key}: \"{value}\"")?;
        }
    }
    Ok(text)
}

/// Sets the image of each container in a Deployment, and returns the containers' names.
pub(crate) fn set_in_deployment(
    deployment: &mut Value,
    image: &str,
    path: &str,
) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for container in mappings_at(deployment, "spec.template.spec.containers", path)? {
        let text = |key: &str| {
            let value = container.get(key).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let name = text("name");
        ensure!(
            text("image") == PACKAGE,
            "{path}: container {name} has another image than {PACKAGE}, which is the one that a release sets"
        );
        container.insert("image".into(), image.into());
        names.push(name);
    }
    Ok(names)
}
