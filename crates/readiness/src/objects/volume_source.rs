//! Decodes what a volume is, in a pod as in a `PersistentVolume`.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};

use crate::assess::plugins::{self, Plugin};
use crate::index::{Name, VolumeType};
use crate::objects::interned;

/// A CSI volume's source. Only the driver is used.
#[derive(Deserialize)]
pub(super) struct CsiSource {
    #[serde(deserialize_with = "interned")]
    pub(super) driver: Name,
}

/// The in-tree volume whose field is set in a volume.
#[derive(Clone, Default)]
pub(super) struct InTreeSource(pub(super) Option<VolumeType>);

/// An in-tree volume. Only whether an Azure disk is managed matters.
#[derive(Deserialize)]
struct Fields {
    kind: Option<String>,
    #[serde(rename = "diskURI")]
    disk_uri: Option<String>,
}

const AZURE_DISK: &str = "azureDisk";
/// The only kind of Azure disk that its CSI driver takes over.
///
/// Source: Kubernetes' release notes on `CSIMigrationAzureDisk` (kubernetes/kubernetes#103439).
pub(super) const MANAGED: &str = "Managed";

impl<'de> Deserialize<'de> for InTreeSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyField;
        impl<'de> Visitor<'de> for AnyField {
            type Value = InTreeSource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a volume")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InTreeSource, A::Error> {
                let mut found = InTreeSource::default();
                while let Some(field) = map.next_key::<String>()? {
                    let Some(plugin) = plugins::by_field(&field) else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    let source: Option<Fields> = map.next_value().map_err(|error| {
                        de::Error::custom(format_args!("field {field}: {error}"))
                    })?;
                    if let Some(source) = source {
                        found.0.get_or_insert(source.of(plugin));
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(AnyField)
    }
}

impl Fields {
    fn of(&self, plugin: &'static Plugin) -> VolumeType {
        let uri = self.disk_uri.as_deref().unwrap_or_default();
        let is_taken_over = match self.kind.as_deref() {
            // The API server writes `Shared` here, but refuses it for a managed disk: then a manifest has left out the kind.
            None | Some("") => !uri.to_ascii_lowercase().starts_with("http"),
            Some(kind) => kind == MANAGED,
        };
        if plugin.field == AZURE_DISK && !is_taken_over {
            VolumeType::NotTakenOver(plugin)
        } else {
            VolumeType::InTree(plugin)
        }
    }
}

/// Returns the driver or plugin of a volume. A volume with a CSI driver is not in-tree, whatever other fields are set.
pub(super) fn volume_type(csi: Option<&CsiSource>, in_tree: InTreeSource) -> Option<VolumeType> {
    match csi {
        Some(csi) => Some(VolumeType::Csi(csi.driver.clone())),
        None => in_tree.0,
    }
}
