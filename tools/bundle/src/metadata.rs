//! What stands beside a bundle's manifests: annotations, properties, the scorecard's configuration and the Dockerfile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Release;
use crate::sources::{BundleError, GENERATED, generated, text, yaml};

const ANNOTATIONS: &str = "manifests/olm/annotations.yaml";
const SCORECARD: &str = "manifests/olm/scorecard.yaml";

/// The document of `annotations.yaml`.
#[derive(Deserialize, Serialize)]
struct Annotations {
    annotations: serde_yaml::Mapping,
}

/// The document of `properties.yaml`.
#[derive(Serialize)]
struct Properties {
    properties: Vec<Property>,
}

#[derive(Serialize)]
struct Property {
    r#type: &'static str,
    value: String,
}

pub(crate) fn render(
    root: &Path,
    release: &Release,
    files: &mut BTreeMap<PathBuf, String>,
) -> Result<(), BundleError> {
    let annotations: Annotations = yaml(root, ANNOTATIONS)?;
    files.insert(
        "bundle.Dockerfile".into(),
        dockerfile(&annotations.annotations)?,
    );
    files.insert(
        "bundle/metadata/annotations.yaml".into(),
        generated(&annotations, ANNOTATIONS)?,
    );
    let properties = Properties {
        properties: max_openshift_version(release)?.into_iter().collect(),
    };
    let path = "bundle/metadata/properties.yaml";
    files.insert(path.into(), generated(&properties, path)?);
    files.insert(
        "bundle/tests/scorecard/config.yaml".into(),
        format!("{GENERATED}{}", text(root, SCORECARD)?),
    );
    Ok(())
}

/// OLM takes a minor version only: it refuses to let the cluster be upgraded at all where there is a patch in it.
fn max_openshift_version(release: &Release) -> Result<Option<Property>, BundleError> {
    let Some(version) = &release.max_openshift_version else {
        return Ok(None);
    };
    let number = |text: &str| text.parse::<u32>().is_ok() && !text.starts_with('+');
    match version.split_once('.') {
        Some((major, minor)) if number(major) && number(minor) => Ok(Some(Property {
            r#type: "olm.maxOpenShiftVersion",
            value: version.clone(),
        })),
        _ => Err(BundleError::Release(format!(
            "MAX_OPENSHIFT_VERSION {version:?} is not MAJOR.MINOR, such as 4.21"
        ))),
    }
}

/// The package and channel that `annotations.yaml` names.
pub(crate) fn channel(root: &Path) -> Result<(String, String), BundleError> {
    let Annotations { annotations } = yaml(root, ANNOTATIONS)?;
    let of = |key: &str| {
        annotations
            .get(format!("operators.operatorframework.io.bundle.{key}.v1"))
            .and_then(|value| value.as_str())
            .map(str::to_owned)
            .ok_or_else(|| {
                BundleError::unusable(ANNOTATIONS, format!("has no annotation of {key}"))
            })
    };
    Ok((of("package")?, of("channel.default")?))
}

/// Registries and opm read the labels, OLM the file: both say the same.
fn dockerfile(annotations: &serde_yaml::Mapping) -> Result<String, BundleError> {
    let mut text = format!("{GENERATED}FROM scratch\n\n");
    for (key, value) in annotations {
        let (Some(key), Some(value)) = (key.as_str(), value.as_str()) else {
            return Err(BundleError::unusable(
                ANNOTATIONS,
                format!("{key:?}: {value:?} is not text: put it into quotes"),
            ));
        };
        // Writing to a String does not fail.
        let _ = writeln!(text, "LABEL {key}={value}");
    }
    text.push_str(
        "\nCOPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\nCOPY bundle/tests/scorecard /tests/scorecard/\n",
    );
    Ok(text)
}
