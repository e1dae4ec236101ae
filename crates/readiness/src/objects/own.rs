//! This operator's own objects, and others that it reads for its own use.

use k8s_openapi::api::core::v1 as core;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::api::{
    WindowsNodeStorageStatus, WindowsStorage, WindowsStorageSpec, WindowsStorageStatus,
};
use crate::index::{ConfigMap, Secret};

/// The name of the vSphere driver's feature switch `ConfigMap`, in any namespace.
pub const FEATURE_SWITCHES: &str = "internal-feature-states.csi.vsphere.vmware.com";

/// Its `spec` is optional.
#[derive(Deserialize)]
pub(super) struct SettingsObject {
    metadata: Generation,
    spec: Option<WindowsStorageSpec>,
    status: Option<WindowsStorageStatus>,
}

#[derive(Deserialize)]
struct Generation {
    name: String,
    generation: Option<i64>,
}

pub(super) fn settings(object: SettingsObject) -> WindowsStorage {
    let Generation { name, generation } = object.metadata;
    let mut settings = WindowsStorage::new(&name, object.spec.unwrap_or_default());
    settings.metadata.generation = generation;
    settings.status = object.status;
    settings
}

#[derive(Deserialize)]
pub(super) struct NodeStatusObject {
    status: Option<WindowsNodeStorageStatus>,
}

pub(super) fn node_status(object: NodeStatusObject) -> WindowsNodeStorageStatus {
    object.status.unwrap_or_default()
}

pub(super) fn feature_switches(object: core::ConfigMap) -> ConfigMap {
    ConfigMap {
        data: object.data.unwrap_or_default(),
        ..ConfigMap::default()
    }
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
