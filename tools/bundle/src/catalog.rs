//! The template of a file-based catalog: which versions there are, and how OLM goes from one to the next.

use std::path::Path;

use serde::Serialize;

use crate::releases::Releases;
use crate::sources::{BundleError, generated};
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
    Bundle { image: String },
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

/// All releases up to this one, oldest first.
pub(crate) fn render(root: &Path, release: &Release) -> Result<String, BundleError> {
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
    let mut blobs = vec![
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
    for release in &releases {
        blobs.push(Blob::Bundle {
            image: image::of_bundle(&release.image, &release.version)?,
        });
    }
    let template = Template {
        schema: "olm.template.basic",
        entries: blobs,
    };
    generated(&template, "catalog/template.yaml")
}
