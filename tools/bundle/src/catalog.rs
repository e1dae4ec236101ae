//! Renders the file-based catalog: the versions, and how OLM upgrades from one to the next.

use std::path::Path;

use anyhow::Result;
use serde_yaml::Value;

use crate::releases::{Release, Releases};
use crate::sources::{generated, object};
use crate::{csv_name, metadata};

/// Returns the template for a release and all earlier ones, for `opm alpha render-template basic`.
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

/// Returns the catalog without the newest bundle, which opm adds from `bundle/`. Earlier bundles exist only as images,
/// so the catalog has just their names and versions: enough to validate the upgrade graph, but not to install them.
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

/// Returns all images of a release, as a list for `oc mirror --v2`. The drivers' samples have their own list.
pub(crate) fn image_set(release: &Release) -> Result<String> {
    let images = [
        release.image.clone(),
        release.must_gather()?,
        release.bundle()?,
    ];
    let images = images.map(|image| object([("name", image.into())]));
    let mirror = object([("additionalImages", images.to_vec().into())]);
    generated(&object([
        ("apiVersion", "mirror.openshift.io/v2alpha1".into()),
        ("kind", "ImageSetConfiguration".into()),
        ("mirror", mirror),
    ]))
}

/// Returns the image of the newest release's bundle.
///
/// # Errors
/// Fails if there is no release, or if its image is invalid.
pub fn newest_bundle_image(root: &Path) -> Result<String> {
    Releases::read(root)?.newest().bundle()
}

/// Returns package and channel, and the releases in the channel, oldest first.
fn graph(root: &Path, release: &Release) -> Result<(Vec<Value>, Vec<Release>)> {
    let (package, channel) = metadata::channel(root)?;
    let mut releases = Releases::read(root)?.releases;
    releases.retain(|earlier| earlier.version < release.version);
    releases.push(release.clone());
    releases.sort_by(|one, other| one.version.cmp(&other.version));
    let entries = releases.iter().map(|release| {
        let replaces = release.replaces.as_ref().map(csv_name);
        let members = [
            ("name", Some(release.csv_name())),
            ("replaces", replaces),
            ("skipRange", release.skip_range.clone()),
        ];
        object(
            members
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?.into()))),
        )
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

/// Returns a bundle by its image. With a package, it also has what opm would read from the image, unlike a template.
fn bundle(release: &Release, package: Option<&str>) -> Result<Value> {
    let image = release.bundle()?;
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
