//! Renders everything that installs the operator, each part from a single source: the OLM bundle, the Helm chart, and
//! `manifests/install.yaml`.
//!
//! Sources of the bundle: rules from `manifests/rbac.yaml`, the Deployment from `manifests/deployment.yaml`, CRDs from
//! `crds/`, the objects of `manifests/metrics.yaml` and `manifests/viewer.yaml` unchanged, and OLM-specific parts from
//! `manifests/olm/`. The chart and `install.yaml` have the objects that `manifests/kustomization.yaml` lists;
//! Helm-specific parts are in `manifests/helm/`.

mod advisories;
mod carried;
mod catalog;
mod chart;
mod csv;
mod image;
mod install;
mod metadata;
mod permissions;
mod reference;
mod release;
mod releases;
mod sources;
mod template;
mod values;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use semver::Version;

pub use catalog::{newest_bundle_image, without_newest_bundle};
pub use release::cut_release;
pub use releases::{Published, Release, Releases};
pub use write::{differences, write};

/// The name of the package, of the Deployment and of the image.
pub const PACKAGE: &str = "windows-storage-operator";

/// Returns the generated pages of the documentation, by their paths relative to `root`, the project's folder.
///
/// # Errors
/// Fails if a source cannot be read, or if a field has no description.
pub fn reference(root: &Path) -> Result<[(&'static str, String); 2]> {
    Ok([
        (reference::PAGE, reference::configuration(root)?),
        (advisories::PAGE, advisories::advisories()),
    ])
}

/// Returns the name of a version's `ClusterServiceVersion`.
pub fn csv_name(version: &Version) -> String {
    format!("{PACKAGE}.v{version}")
}

/// Returns all generated files, with paths relative to `root`, the project's folder. It only reads files.
///
/// # Errors
/// Fails if a source cannot be read, or contains something that does not fit into a bundle.
pub fn render(root: &Path, release: &Release) -> Result<BTreeMap<PathBuf, String>> {
    let manifests = Path::new("bundle/manifests");
    let crds = sources::crds(root)?;
    let mut files = metadata::render(root, release)?;
    let csv = csv::render(root, &crds, release)?;
    files.insert(
        manifests.join(format!("{PACKAGE}.clusterserviceversion.yaml")),
        csv,
    );
    for crd in crds {
        files.insert(manifests.join(crd.file_name), crd.text);
    }
    for (file_name, text) in carried::render(root)? {
        files.insert(manifests.join(file_name), text);
    }
    files.insert(
        "catalog/template.yaml".into(),
        catalog::template(root, release)?,
    );
    files.extend(chart::render(root, release)?);
    files.insert(install::PATH.into(), install::render(root, &release.image)?);
    files.insert(
        "catalog/imageset-config.yaml".into(),
        catalog::image_set(release)?,
    );
    let kustomization = image::set_in_kustomization(root, &release.image)?;
    files.insert(sources::KUSTOMIZATION.into(), kustomization);
    Ok(files)
}
