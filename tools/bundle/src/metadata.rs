//! Renders the rest of a bundle: annotations, properties, the scorecard's configuration and the Dockerfile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_yaml::Value;

use crate::releases::Release;
use crate::sources::{GENERATED, generated, mapping_at, object, text, yaml};

const ANNOTATIONS: &str = "manifests/olm/annotations.yaml";

pub(crate) fn render(root: &Path, release: &Release) -> Result<BTreeMap<PathBuf, String>> {
    let properties = max_openshift_version(release)?.into_iter().collect();
    let scorecard = text(root, "manifests/olm/scorecard.yaml")?;
    let annotations: Value = yaml(root, ANNOTATIONS)?;
    Ok([
        ("bundle.Dockerfile", dockerfile(root)?),
        ("bundle/metadata/annotations.yaml", generated(&annotations)?),
        (
            "bundle/metadata/properties.yaml",
            generated(&object([("properties", properties)]))?,
        ),
        (
            "bundle/tests/scorecard/config.yaml",
            format!("{GENERATED}{scorecard}"),
        ),
    ]
    .map(|(path, text)| (path.into(), text))
    .into())
}

/// OLM accepts only a minor version: if it has a patch version, OLM blocks all upgrades of the cluster.
fn max_openshift_version(release: &Release) -> Result<Option<Value>> {
    let Some(version) = &release.max_openshift_version else {
        return Ok(None);
    };
    // OLM v1 accepts no leading zeros.
    let is_number = |text: &str| {
        let number = text.parse::<u32>();
        number.is_ok_and(|number| number.to_string() == text)
    };
    let parts = version.split_once('.');
    ensure!(
        parts.is_some_and(|(major, minor)| is_number(major) && is_number(minor)),
        "MAX_OPENSHIFT_VERSION {version:?} is not MAJOR.MINOR, such as 5.0"
    );
    let property = [
        ("type", "olm.maxOpenShiftVersion".into()),
        ("value", version.as_str().into()),
    ];
    Ok(Some(object(property)))
}

/// Returns the package and channel in `annotations.yaml`.
pub(crate) fn channel(root: &Path) -> Result<(String, String)> {
    let annotations: Value = yaml(root, ANNOTATIONS)?;
    let of = |key: &str| {
        let key = format!("operators.operatorframework.io.bundle.{key}.v1");
        let value = annotations["annotations"][key.as_str()]
            .as_str()
            .map(str::to_owned);
        value.with_context(|| format!("{ANNOTATIONS}: has no annotation {key}"))
    };
    Ok((of("package")?, of("channel.default")?))
}

/// Returns the Dockerfile. Registries and opm read its labels, OLM reads the file; both contain the same.
fn dockerfile(root: &Path) -> Result<String> {
    let mut annotations: Value = yaml(root, ANNOTATIONS)?;
    let mut text = format!("{GENERATED}FROM scratch\n\n");
    for (key, value) in mapping_at(&mut annotations, "annotations", ANNOTATIONS)? {
        let (Some(key), Some(value)) = (key.as_str(), value.as_str()) else {
            bail!("{ANNOTATIONS}: {key:?}: {value:?} is not text: put it into quotes");
        };
        writeln!(text, "LABEL {key}={value}")?;
    }
    text.push_str(
        "\nCOPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\nCOPY bundle/tests/scorecard /tests/scorecard/\n",
    );
    Ok(text)
}
