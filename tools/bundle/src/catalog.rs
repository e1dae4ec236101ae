//! Renders the file-based catalog: the versions, and how OLM upgrades from one to the next.

use std::path::Path;

use anyhow::Result;
use serde_yaml::Value;

use crate::releases::{Release, Releases};
use crate::sources::{generated, object};
use crate::{csv_name, image, metadata};

/// The template for a release and all before it, which `opm alpha render-template basic` takes.
pub(crate) fn template(root: &Path, release: &Release) -> Result<String> {
    let (mut entries, releases) = graph(root, release)?;
    for release in &releases {
        entries.push(bundle(release, None)?);
    }
    let entries = Value::Sequence(entries);
    generated(&object([
        ("schema", "olm.template.basic".into()),
        ("entries", entries),
    ]))
}

/// The catalog itself without the newest bundle, which opm adds from `bundle/`. Of the bundles before it, which are
/// nothing but images any more, it has name and version: enough to validate how OLM goes from one to the next, not to
/// install one.
///
/// # Errors
/// Like [`crate::render`].
pub fn without_newest_bundle(root: &Path) -> Result<String> {
    let releases = Releases::read(root)?;
    let newest = releases.newest();
    let (mut blobs, releases) = graph(root, newest)?;
    let (package, _) = metadata::channel(root)?;
    for release in releases.iter().filter(|release| *release != newest) {
        blobs.push(bundle(release, Some(&package))?);
    }
    let mut text = String::new();
    for blob in &blobs {
        text.extend(["---\n", &serde_yaml::to_string(blob)?]);
    }
    Ok(text)
}

/// All images of a release, as `oc mirror --v2` takes the list. The drivers' samples have a list of their own.
pub(crate) fn image_set(release: &Release) -> Result<String> {
    let images = [
        release.image.clone(),
        release.must_gather()?,
        image::of_bundle(&release.image, &release.version)?,
    ];
    let images = images.map(|image| object([("name", image.into())]));
    let mirror = object([("additionalImages", images.to_vec().into())]);
    generated(&object([
        ("apiVersion", "mirror.openshift.io/v2alpha1".into()),
        ("kind", "ImageSetConfiguration".into()),
        ("mirror", mirror),
    ]))
}

/// The image of the newest release's bundle.
///
/// # Errors
/// Where there is no release, or its image makes no sense.
pub fn newest_bundle_image(root: &Path) -> Result<String> {
    let releases = Releases::read(root)?;
    image::of_bundle(&releases.newest().image, &releases.newest().version)
}

/// Package and channel, and the releases that are in it, oldest first.
fn graph(root: &Path, release: &Release) -> Result<(Vec<Value>, Vec<Release>)> {
    let (package, channel) = metadata::channel(root)?;
    let mut releases = Releases::read(root)?.releases;
    releases.retain(|earlier| earlier.version < release.version);
    releases.push(release.clone());
    releases.sort_by(|one, other| one.version.cmp(&other.version));
    let entries = releases.iter().map(|release| {
        let replaces = release.replaces.as_ref().map(csv_name);
        let name = ("name", release.csv_name().into());
        let replaces = replaces.map(|before| ("replaces", before.into()));
        let range = release
            .skip_range
            .clone()
            .map(|range| ("skipRange", range.into()));
        object([name].into_iter().chain(replaces).chain(range))
    });
    let blobs = vec![
        object([
            ("schema", "olm.package".into()),
            ("name", package.clone().into()),
            ("defaultChannel", channel.clone().into()),
        ]),
        object([
            ("schema", "olm.channel".into()),
            ("package", package.into()),
            ("name", channel.into()),
            ("entries", entries.collect()),
        ]),
    ];
    Ok((blobs, releases))
}

/// A bundle by its image; with its package also what opm finds out of the image, which a template has none of.
fn bundle(release: &Release, package: Option<&str>) -> Result<Value> {
    let image = image::of_bundle(&release.image, &release.version)?;
    let mut members = vec![("schema", "olm.bundle".into()), ("image", image.into())];
    if let Some(package) = package {
        let version = release.version.to_string();
        let value = object([("packageName", package.into()), ("version", version.into())]);
        let property = object([("type", "olm.package".into()), ("value", value)]);
        members.extend([
            ("name", release.csv_name().into()),
            ("package", package.into()),
            ("properties", vec![property].into()),
        ]);
    }
    Ok(object(members))
}
