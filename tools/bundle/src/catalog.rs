//! The file-based catalog: which versions there are, and how OLM goes from one to the next.

use std::path::Path;

use serde::Serialize;

use crate::releases::Releases;
use crate::sources::{BundleError, generated, yaml_text};
use crate::{Release, csv_name, image, metadata};

/// The document that `opm alpha render-template basic` takes.
#[derive(Serialize)]
struct Template {
    schema: &'static str,
    entries: Vec<Blob>,
}

#[derive(Serialize)]
#[serde(tag = "schema")]
enum Blob {
    #[serde(rename = "olm.package", rename_all = "camelCase")]
    Package {
        name: String,
        default_channel: String,
    },
    #[serde(rename = "olm.channel")]
    Channel {
        package: String,
        name: String,
        entries: Vec<Entry>,
    },
    #[serde(rename = "olm.bundle")]
    Bundle {
        image: String,
        #[serde(flatten)]
        rendered: Option<Rendered>,
    },
}

/// What opm finds out of a bundle's image; a template has none of it.
#[derive(Serialize)]
struct Rendered {
    name: String,
    package: String,
    properties: Vec<Property>,
}

#[derive(Serialize)]
struct Property {
    r#type: &'static str,
    value: PackageVersion,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageVersion {
    package_name: String,
    version: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_range: Option<String>,
}

/// The template for a release and all before it.
pub(crate) fn template(root: &Path, release: &Release) -> Result<String, BundleError> {
    let (mut entries, releases) = graph(root, release)?;
    for release in &releases {
        entries.push(Blob::Bundle {
            image: image::of_bundle(&release.image, &release.version)?,
            rendered: None,
        });
    }
    let template = Template {
        schema: "olm.template.basic",
        entries,
    };
    generated(&template, "catalog/template.yaml")
}

/// The catalog itself without the newest bundle, which opm adds from `bundle/`. Of the bundles before it, which are
/// nothing but images any more, it has name and version: enough to validate how OLM goes from one to the next, not to
/// install one.
///
/// # Errors
/// Like [`crate::render`].
pub fn without_newest_bundle(root: &Path) -> Result<String, BundleError> {
    let (newest, _) = Releases::read(root)?.newest();
    let (mut blobs, releases) = graph(root, &newest)?;
    let (package, _) = metadata::channel(root)?;
    for release in releases.iter().filter(|release| **release != newest) {
        blobs.push(Blob::Bundle {
            image: image::of_bundle(&release.image, &release.version)?,
            rendered: Some(Rendered {
                name: release.csv_name(),
                package: package.clone(),
                properties: vec![Property {
                    r#type: "olm.package",
                    value: PackageVersion {
                        package_name: package.clone(),
                        version: release.version.to_string(),
                    },
                }],
            }),
        });
    }
    let path = "target/catalog";
    let mut text = String::new();
    for blob in &blobs {
        text.push_str("---\n");
        text.push_str(&yaml_text(blob, path)?);
    }
    Ok(text)
}

/// The image of the newest release's bundle.
///
/// # Errors
/// Where there is no release, or its image makes no sense.
pub fn newest_bundle_image(root: &Path) -> Result<String, BundleError> {
    let (newest, _) = Releases::read(root)?.newest();
    image::of_bundle(&newest.image, &newest.version)
}

/// Package and channel, and the releases that are in it, oldest first.
fn graph(root: &Path, release: &Release) -> Result<(Vec<Blob>, Vec<Release>), BundleError> {
    let (package, channel) = metadata::channel(root)?;
    let mut releases: Vec<Release> = Releases::read(root)?
        .all()
        .filter(|earlier| earlier.version < release.version)
        .collect();
    releases.push(release.clone());
    releases.sort_by(|one, other| one.version.cmp(&other.version));
    let entries = releases
        .iter()
        .map(|release| Entry {
            name: release.csv_name(),
            replaces: release.replaces.as_ref().map(csv_name),
            skip_range: release.skip_range.clone(),
        })
        .collect();
    let blobs = vec![
        Blob::Package {
            name: package.clone(),
            default_channel: channel.clone(),
        },
        Blob::Channel {
            package,
            name: channel,
            entries,
        },
    ];
    Ok((blobs, releases))
}
