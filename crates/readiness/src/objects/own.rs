//! Objects of this operator, and those that it reads for a purpose of its own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::api::{WindowsNodeStorage, WindowsNodeStorageStatus, WindowsStorage};
use crate::index::{ConfigMap, Secret};

/// The name of the `ConfigMap` with the feature switches of the vSphere driver, whatever its namespace.
pub const FEATURE_SWITCHES: &str = "internal-feature-states.csi.vsphere.vmware.com";

pub(super) fn settings(_: &ObjectMeta, mut object: WindowsStorage) -> WindowsStorage {
    object.metadata.managed_fields = None;
    object
}

pub(super) fn node_status(_: &ObjectMeta, object: WindowsNodeStorage) -> WindowsNodeStorageStatus {
    object.status.unwrap_or_default()
}

#[derive(Deserialize)]
pub(super) struct FeatureSwitches {
    data: Option<BTreeMap<String, String>>,
}

pub(super) fn feature_switches(_: &ObjectMeta, object: FeatureSwitches) -> ConfigMap {
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
        Self {
            data: data.collect(),
        }
    }
}
