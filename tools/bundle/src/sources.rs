//! Reads the files from which a bundle is made.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_yaml::{Mapping, Value};
use thiserror::Error;

/// Why there is no bundle. Each names the file and what to do.
#[derive(Debug, Error)]
pub enum BundleError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("writing {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not the YAML that it should be.
    #[error("{path}: {source}")]
    Yaml {
        /// The file.
        path: PathBuf,
        /// Why, with the line where it is known.
        source: serde_yaml::Error,
    },
    /// Something that was made cannot be written down.
    #[error("cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A file is well-formed and still of no use.
    #[error("{path}: {problem}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The release itself makes no sense.
    #[error("{0}")]
    Release(String),
}

impl BundleError {
    pub(crate) fn unusable(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Unusable {
            path: path.into(),
            problem: problem.into(),
        }
    }
}

/// A definition: its text as it stands, and what the `ClusterServiceVersion` repeats of it.
pub(crate) struct Crd {
    pub file_name: String,
    pub text: String,
    pub name: String,
    pub kind: String,
    pub version: String,
    pub description: String,
}

/// The definitions, in the order of `crds/kustomization.yaml`.
pub(crate) fn crds(root: &Path) -> Result<Vec<Crd>, BundleError> {
    #[derive(Deserialize)]
    struct Kustomization {
        resources: Vec<String>,
    }
    let kustomization: Kustomization = yaml(root, "crds/kustomization.yaml")?;
    kustomization
        .resources
        .into_iter()
        .map(|file_name| {
            let path = format!("crds/{file_name}");
            let text = text(root, &path)?;
            let crd: Definition = parse(&path, &text)?;
            let [version] = <[_; 1]>::try_from(crd.spec.versions).map_err(|_| {
                BundleError::unusable(
                    &path,
                    "has not just one version: say in tools/bundle which are owned",
                )
            })?;
            Ok(Crd {
                file_name,
                text,
                name: crd.metadata.name,
                kind: crd.spec.names.kind,
                version: version.name,
                description: version.schema.open_api.description,
            })
        })
        .collect()
}

#[derive(Deserialize)]
struct Definition {
    metadata: Name,
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    names: Names,
    versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
struct Names {
    kind: String,
}

#[derive(Deserialize)]
struct DefinitionVersion {
    name: String,
    schema: Schema,
}

#[derive(Deserialize)]
struct Schema {
    #[serde(rename = "openAPIV3Schema")]
    open_api: Described,
}

#[derive(Deserialize)]
struct Described {
    description: String,
}

/// A file as text.
pub(crate) fn text(root: &Path, path: &str) -> Result<String, BundleError> {
    std::fs::read_to_string(root.join(path)).map_err(|source| BundleError::Read {
        path: path.into(),
        source,
    })
}

/// A file with one document.
pub(crate) fn yaml<T: DeserializeOwned>(root: &Path, path: &str) -> Result<T, BundleError> {
    parse(path, &text(root, path)?)
}

/// A file with one or more documents.
pub(crate) fn documents(root: &Path, path: &str) -> Result<Vec<Value>, BundleError> {
    let text = text(root, path)?;
    serde_yaml::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).map_err(|source| yaml_error(path, source)))
        .collect()
}

fn parse<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, BundleError> {
    serde_yaml::from_str(text).map_err(|source| yaml_error(path, source))
}

fn yaml_error(path: &str, source: serde_yaml::Error) -> BundleError {
    BundleError::Yaml {
        path: path.into(),
        source,
    }
}

/// YAML under a line that says where it comes from.
pub(crate) fn generated(value: &impl serde::Serialize, path: &str) -> Result<String, BundleError> {
    Ok(format!("{GENERATED}{}", yaml_text(value, path)?))
}

/// YAML; `path` is where it is going.
pub(crate) fn yaml_text(value: &impl serde::Serialize, path: &str) -> Result<String, BundleError> {
    serde_yaml::to_string(value).map_err(|source| yaml_error(path, source))
}

/// The first line of what can carry a comment.
pub(crate) const GENERATED: &str = "# Generated by make bundle; do not edit.\n";

/// The value at a path of keys and of indices, such as `spec.template.spec.containers`.
pub(crate) fn at<'a>(value: &'a Value, keys: &str, path: &str) -> Result<&'a Value, BundleError> {
    keys.split('.')
        .try_fold(value, |value, key| value.get(key))
        .ok_or_else(|| BundleError::unusable(path, format!("has no {keys}")))
}

/// Like [`at`], for text.
pub(crate) fn text_at<'a>(
    value: &'a Value,
    keys: &str,
    path: &str,
) -> Result<&'a str, BundleError> {
    at(value, keys, path)?
        .as_str()
        .ok_or_else(|| BundleError::unusable(path, format!("{keys} is not text")))
}

/// Like [`at`], for an object that is going to be changed.
pub(crate) fn mapping_at<'a>(
    value: &'a mut Value,
    keys: &str,
    path: &str,
) -> Result<&'a mut Mapping, BundleError> {
    keys.split('.')
        .try_fold(value, |value, key| value.get_mut(key))
        .and_then(Value::as_mapping_mut)
        .ok_or_else(|| BundleError::unusable(path, format!("has no object {keys}")))
}
