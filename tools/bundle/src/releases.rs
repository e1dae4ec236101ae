//! What was released, in `manifests/olm/releases.yaml`, and the step to the next release.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::image::default_image;
use crate::sources::{BundleError, yaml, yaml_text};
use crate::{Release, render_published};

pub(crate) const PATH: &str = "manifests/olm/releases.yaml";

const ABOUT: &str = "\
# All releases, newest first. make release-bundle adds one; make bundle sets image, repository and maxOpenShiftVersion of the
# newest to what its variables say.
";

/// All releases, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Releases {
    releases: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    version: Version,
    created_at: String,
    image: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    replaces: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    skip_range: Option<String>,
    #[serde(
        rename = "maxOpenShiftVersion",
        skip_serializing_if = "Option::is_none",
        default
    )]
    max_openshift_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    repository: Option<String>,
}

impl Entry {
    fn release(&self) -> Release {
        Release {
            version: self.version.clone(),
            image: self.image.clone(),
            replaces: self.replaces.clone(),
            skip_range: self.skip_range.clone(),
            max_openshift_version: self.max_openshift_version.clone(),
            created_at: self.created_at.clone(),
        }
    }
}

/// Where a release is to be had; what `make bundle` is told by its variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The operator's image. None: the one that `make image` builds, which is in no registry.
    pub image: Option<String>,
    /// See [`Release::max_openshift_version`].
    pub max_openshift_version: Option<String>,
    /// The address of the source. None: the bundle names none.
    pub repository: Option<String>,
}

impl Releases {
    /// The releases of the project in `root`.
    ///
    /// # Errors
    /// Where the file cannot be read, is not as it should be, or is empty.
    pub fn read(root: &Path) -> Result<Self, BundleError> {
        let releases: Self = yaml(root, PATH)?;
        if releases.releases.is_empty() {
            return Err(BundleError::unusable(PATH, "names no release"));
        }
        Ok(releases)
    }

    /// Every release, newest first.
    pub fn all(&self) -> impl Iterator<Item = Release> {
        self.releases.iter().map(Entry::release)
    }

    /// The newest release, and the address of its source.
    #[must_use]
    pub fn newest(&self) -> (Release, Option<&str>) {
        // `read` lets no empty list pass.
        let newest = &self.releases[0];
        (newest.release(), newest.repository.as_deref())
    }

    /// The first release of that major version.
    pub(crate) fn oldest_of_major(&self, major: u64) -> Option<&Version> {
        self.releases
            .iter()
            .map(|release| &release.version)
            .filter(|version| version.major == major)
            .min()
    }

    /// Adds a release, which is the newest from now on.
    pub(crate) fn add(
        &mut self,
        version: Version,
        created_at: String,
        replaces: Version,
        skip_range: Option<String>,
    ) {
        let entry = Entry {
            image: default_image(&version),
            version,
            created_at,
            replaces: Some(replaces),
            skip_range,
            max_openshift_version: None,
            repository: None,
        };
        self.releases.insert(0, entry);
    }

    /// Says where the newest release is to be had.
    pub fn publish(&mut self, published: Published) {
        let Published {
            image,
            max_openshift_version,
            repository,
        } = published;
        let newest = &mut self.releases[0];
        newest.image = image.unwrap_or_else(|| default_image(&newest.version));
        newest.max_openshift_version = max_openshift_version;
        newest.repository = repository;
    }

    /// All generated files of the newest release, this list with them.
    ///
    /// # Errors
    /// Like [`crate::render`].
    pub fn render(&self, root: &Path) -> Result<BTreeMap<PathBuf, String>, BundleError> {
        let (release, repository) = self.newest();
        let mut files = render_published(root, &release, repository)?;
        let list = yaml_text(self, PATH)?;
        files.insert(PATH.into(), format!("{ABOUT}{list}"));
        Ok(files)
    }
}
