//! This operator's own objects, and others that it reads for its own use.

use k8s_openapi::api::core::v1 as core;
use serde::Deserialize;
use serde::de::IgnoredAny;
use zeroize::Zeroizing;

use crate::api::{
    WindowsNodeStorageStatus, WindowsStorage, WindowsStorageSpec, WindowsStorageStatus,
};
use crate::index::{ConfigMap, Secret};

/// The name of the vSphere driver's feature switch `ConfigMap`, in any namespace.
pub const FEATURE_SWITCHES: &str = "internal-feature-states.csi.vsphere.vmware.com";

/// Of their metadata, only what is used is decoded. Their `spec` is optional.
#[derive(Deserialize)]
pub(super) struct OwnObject<S, T> {
    metadata: Generation,
    spec: Option<S>,
    status: Option<T>,
}

#[derive(Deserialize)]
struct Generation {
    name: String,
    generation: Option<i64>,
}

pub(super) fn settings(
    object: OwnObject<WindowsStorageSpec, WindowsStorageStatus>,
) -> WindowsStorage {
    let Generation { name, generation } = object.metadata;
    let mut settings = WindowsStorage::new(&name, object.spec.unwrap_or_default());
    settings.metadata.generation = generation;
    settings.status = object.status;
    settings
}

pub(super) fn node_status(
    object: OwnObject<IgnoredAny, WindowsNodeStorageStatus>,
) -> WindowsNodeStorageStatus {
    object.status.unwrap_or_default()
}

pub(super) fn config_map(object: core::ConfigMap) -> ConfigMap {
    object.into()
}

impl From<core::ConfigMap> for ConfigMap {
    fn from(object: core::ConfigMap) -> Self {
        Self {
            data: object.data.unwrap_or_default(),
            immutable: object.immutable.unwrap_or_default(),
            resource_version: object.metadata.resource_version.unwrap_or_default(),
        }
    }
}

impl From<core::Secret> for Secret {
    fn from(object: core::Secret) -> Self {
        let data = object.data.unwrap_or_default().into_iter();
        let data = data.map(|(key, value)| (key, Zeroizing::new(value.0)));
        Self::Data(data.collect())
    }
}
