//! Reads and writes the list of releases in `manifests/olm/releases.yaml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use semver::Version;
use serde::{Deserialize, Serialize};

use crate::image::{self, default_image};
use crate::sources::yaml;
use crate::{csv_name, render};

const PATH: &str = "manifests/olm/releases.yaml";

const ABOUT: &str = "\
# All releases, newest first. make release-bundle adds one; make bundle sets images, repository and maxOpenShiftVersion of
# the newest to what its variables say.
";

/// All releases, newest first.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Releases {
    pub(crate) releases: Vec<Release>,
}

/// The properties that differ between bundles.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Release {
    /// The operator's version.
    pub version: Version,
    /// The release time, in RFC 3339. It is stored, not the time of rendering, so that the result is reproducible.
    pub created_at: String,
    /// The operator's image, with tag or digest.
    pub image: String,
    /// The image for `oc adm must-gather`, with tag or digest. `None`: next to the operator's, tagged with the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub must_gather_image: Option<String>,
    /// The version that OLM replaces with this one. `None` for the first version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Version>,
    /// Versions from which OLM may upgrade directly to this one, as a semver range such as `>=0.1.0 <0.3.0`. `None`:
    /// only from `replaces`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<String>,
    /// The last OpenShift minor version, such as `4.21`, to which a cluster with this bundle may be upgraded. `None`:
    /// OLM does not block cluster upgrades for this bundle.
    #[serde(
        rename = "maxOpenShiftVersion",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_openshift_version: Option<String>,
    /// The URL of the source. `None`: the bundle does not name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

impl Release {
    /// Returns the name of the release's `ClusterServiceVersion`.
    pub fn csv_name(&self) -> String {
        csv_name(&self.version)
    }

    /// Returns the image of the bundle.
    pub(crate) fn bundle(&self) -> Result<String> {
        image::beside(&self.image, "bundle", &self.version)
    }

    /// Returns the image for `oc adm must-gather`.
    pub(crate) fn must_gather(&self) -> Result<String> {
        match &self.must_gather_image {
            Some(image) => Ok(image.clone()),
            None => image::beside(&self.image, "must-gather", &self.version),
        }
    }
}

/// Where a release is published. An empty value counts as unset, so that a Makefile can pass on an unset variable.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Published {
    /// The operator's image, with tag or digest
    #[arg(long, value_name = "NAME:TAG")]
    image: Option<String>,
    /// The image for oc adm must-gather, with tag or digest
    #[arg(long, value_name = "NAME:TAG")]
    must_gather_image: Option<String>,
    /// The last OpenShift minor version to which a cluster with this bundle may be upgraded
    #[arg(long, value_name = "MAJOR.MINOR")]
    max_openshift_version: Option<String>,
    /// The URL of the source
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
}

impl Releases {
    /// Reads the releases of the project in `root`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is invalid, or is empty.
    pub fn read(root: &Path) -> Result<Self> {
        let releases: Self = yaml(root, PATH)?;
        ensure!(!releases.releases.is_empty(), "{PATH}: names no release");
        Ok(releases)
    }

    /// Returns the newest release.
    pub fn newest(&self) -> &Release {
        // `read` rejects an empty list.
        &self.releases[0]
    }

    /// Returns the first release of this major version.
    pub(crate) fn oldest_of_major(&self, major: u64) -> Option<&Version> {
        let versions = self.releases.iter().map(|release| &release.version);
        versions.filter(|version| version.major == major).min()
    }

    /// Sets where the newest release is published. Without an image, it is the local one of `make image`.
    pub fn publish(&mut self, published: Published) {
        let given = |value: Option<String>| value.filter(|value| !value.is_empty());
        let newest = &mut self.releases[0];
        newest.image = given(published.image).unwrap_or_else(|| default_image(&newest.version));
        newest.must_gather_image = given(published.must_gather_image);
        newest.max_openshift_version = given(published.max_openshift_version);
        newest.repository = given(published.repository);
    }

    /// Renders all generated files of the newest release, including this list.
    ///
    /// # Errors
    /// Like [`crate::render`].
    pub fn render(&self, root: &Path) -> Result<BTreeMap<PathBuf, String>> {
        let mut files = render(root, self.newest())?;
        let list = serde_yaml::to_string(self)?;
        files.insert(PATH.into(), format!("{ABOUT}{list}"));
        Ok(files)
    }
}
