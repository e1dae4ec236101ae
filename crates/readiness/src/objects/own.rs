//! This operator's own objects, and others that it reads for its own use.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::IgnoredAny;
use zeroize::Zeroizing;

use crate::api::{
    WindowsNodeStorageStatus, WindowsStorage, WindowsStorageSpec, WindowsStorageStatus,
};
use crate::index::{ConfigMap, Secret};
use crate::objects::Object;

/// The name of the vSphere driver's feature switch `ConfigMap`, in any namespace.
pub const FEATURE_SWITCHES: &str = "internal-feature-states.csi.vsphere.vmware.com";

pub(super) fn settings(
    meta: &ObjectMeta,
    object: Object<WindowsStorageSpec, WindowsStorageStatus>,
) -> WindowsStorage {
    let name = meta.name.as_deref().unwrap_or_default();
    let mut settings = WindowsStorage::new(name, object.spec.unwrap_or_default());
    settings.metadata.generation = meta.generation;
    settings.status = object.status;
    settings
}

pub(super) fn node_status(
    _: &ObjectMeta,
    object: Object<IgnoredAny, WindowsNodeStorageStatus>,
) -> WindowsNodeStorageStatus {
    object.status.unwrap_or_default()
}

pub(super) fn feature_switches(_: &ObjectMeta, object: core::ConfigMap) -> ConfigMap {
    ConfigMap {
        data: object.data.unwrap_or_default(),
        ..ConfigMap::default()
    }
}

pub(super) fn config_map(meta: &ObjectMeta, object: core::ConfigMap) -> ConfigMap {
    ConfigMap {
        data: object.data.unwrap_or_default(),
        immutable: object.immutable.unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
    }
}

impl From<core::Secret> for Secret {
    fn from(object: core::Secret) -> Self {
        let data = object.data.unwrap_or_default().into_iter();
        let data = data.map(|(key, value)| (key, Zeroizing::new(value.0)));
        Self::Data(data.collect())
    }
}
