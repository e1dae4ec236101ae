//! Renders the OLM bundle, each part of it from its one source: rules from `manifests/rbac.yaml`, the Deployment from
//! `manifests/deployment.yaml`, definitions from `crds/`, the objects of `manifests/metrics.yaml` and
//! `manifests/viewer.yaml` as they are, and what only OLM asks for from `manifests/olm/`.

mod carried;
mod catalog;
mod csv;
mod image;
mod metadata;
mod permissions;
mod release;
mod releases;
mod sources;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semver::Version;

pub use catalog::{newest_bundle_image, without_newest_bundle};
pub use release::{NewRelease, Skip, cut_release};
pub use releases::{Published, Releases};
pub use sources::BundleError;
pub use write::{differences, write};

/// The name of the package, of the Deployment and of the image.
pub const PACKAGE: &str = "windows-storage-operator";

/// What differs from one bundle to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The operator's version.
    pub version: Version,
    /// The operator's image, with tag or digest.
    pub image: String,
    /// The version that OLM replaces by this one. None: this one is the first.
    pub replaces: Option<Version>,
    /// Versions from which OLM may go straight to this one, as a semver range such as `>=0.1.0 <0.3.0`. None: no others
    /// than `replaces`.
    pub skip_range: Option<String>,
    /// The last OpenShift minor version, such as `4.21`, to which a cluster with this bundle may be upgraded. None: OLM
    /// holds no upgrade of the cluster on its account.
    pub max_openshift_version: Option<String>,
    /// When this was released, in RFC 3339. Given, and not the time of rendering, so that the result stays the same.
    pub created_at: String,
}

impl Release {
    /// The name of the release's `ClusterServiceVersion`.
    #[must_use]
    pub fn csv_name(&self) -> String {
        csv_name(&self.version)
    }
}

/// The name of the `ClusterServiceVersion` of that version.
#[must_use]
pub fn csv_name(version: &Version) -> String {
    format!("{PACKAGE}.v{version}")
}

/// All generated files, with their paths relative to `root`, the project's folder. Reads files; writes none.
///
/// # Errors
/// Where a source cannot be read, or has something for which a bundle has no place.
pub fn render(root: &Path, release: &Release) -> Result<BTreeMap<PathBuf, String>, BundleError> {
    render_published(root, release, None)
}

/// Like [`render`], for a project whose source is at the address `repository`.
///
/// # Errors
/// Like [`render`].
pub fn render_published(
    root: &Path,
    release: &Release,
    repository: Option<&str>,
) -> Result<BTreeMap<PathBuf, String>, BundleError> {
    let manifests = Path::new("bundle/manifests");
    let crds = sources::crds(root)?;
    let mut files = BTreeMap::new();
    files.insert(
        manifests.join(format!("{PACKAGE}.clusterserviceversion.yaml")),
        csv::render(root, &crds, release, repository)?,
    );
    for crd in crds {
        files.insert(manifests.join(crd.file_name), crd.text);
    }
    for (file_name, text) in carried::render(root)? {
        files.insert(manifests.join(file_name), text);
    }
    metadata::render(root, release, &mut files)?;
    files.insert(
        PathBuf::from("catalog/template.yaml"),
        catalog::template(root, release)?,
    );
    files.insert(
        PathBuf::from("manifests/kustomization.yaml"),
        image::set_in_kustomization(root, &release.image)?,
    );
    Ok(files)
}
