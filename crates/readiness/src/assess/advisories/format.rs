//! The form of the files in `advisories/`.

use semver::Version;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// One product, and what is known of its versions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    /// A driver, the last part of an image's name, `csi-proxy`, `kubelet`, or `windows`, whose versions are its builds.
    #[serde(rename = "product")]
    pub name: String,
    /// The versions of Kubernetes that its vendor lists for its versions. A version without an entry is not judged.
    #[serde(default)]
    pub supports: Vec<Support>,
    /// What is wrong with some of its versions.
    #[serde(default)]
    pub advisories: Vec<Advisory>,
}

/// What a vendor lists for a range of versions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Support {
    /// The product's versions, by minor version.
    pub versions: Range,
    /// The supported minor versions of Kubernetes.
    pub kubernetes: Range,
}

/// A trouble that some versions of a product have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advisory {
    /// The finding's code.
    pub code: String,
    /// The affected versions: at least one range.
    pub versions: Vec<Range>,
    /// The affected form of a driver's DaemonSet; absent for all.
    #[serde(default)]
    pub form: Option<Form>,
    /// The builds of Windows on which it matters; absent for all.
    #[serde(default)]
    pub windows: Option<Range>,
    /// The platform whose nodes are affected; absent for all.
    #[serde(default)]
    pub platform: Option<String>,
    /// The versions of Kubernetes at which it matters; absent for all.
    #[serde(default)]
    pub kubernetes: Option<Range>,
    /// The driver's feature switch that must be on.
    #[serde(default)]
    pub switch: Option<Switch>,
    /// What happens, as the end of a sentence.
    pub happens: String,
    /// What to do, as an order.
    pub remedy: String,
    /// The page that says so.
    pub source: String,
}

/// How a driver runs on Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Form {
    /// In HostProcess containers.
    HostProcess,
    /// In plain containers, through the pipes of csi-proxy.
    CSIProxy,
}

/// A key of a driver's `ConfigMap`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Switch {
    /// The key.
    pub name: String,
    /// What reads it.
    pub read_by: Reader,
}

/// The part of a driver that reads a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Reader {
    /// The pods on Windows nodes.
    Node,
    /// The controller, for in-tree volumes.
    Controller,
}

/// A range of versions: from the first one on, and before the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Range {
    /// The first version, if there is one.
    #[serde(deserialize_with = "version")]
    pub from: Option<Version>,
    /// The first version after them, if there is one.
    #[serde(deserialize_with = "version")]
    pub before: Option<Version>,
}

/// Reads a version, of which the last parts may be left out.
fn version<'de, D: Deserializer<'de>>(text: D) -> Result<Option<Version>, D::Error> {
    let text = String::deserialize(text)?;
    let parts = text.split('.').count();
    let full = format!("{text}{}", ".0".repeat(3_usize.saturating_sub(parts)));
    let version = Version::parse(&full);
    let version = version.map_err(|error| D::Error::custom(format!("version {text:?}: {error}")));
    version.map(Some)
}

impl Range {
    /// Whether the version is in the range. What a vendor adds to a number does not count.
    pub fn contains(&self, version: &Version) -> bool {
        let number = Version::new(version.major, version.minor, version.patch);
        self.from.as_ref().is_none_or(|from| *from <= number)
            && (self.before.as_ref()).is_none_or(|before| number < *before)
    }
}
