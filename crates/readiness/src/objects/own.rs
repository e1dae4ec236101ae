//! Objects of this operator, and those that it reads for a purpose of its own.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::api::{WindowsNodeStorage, WindowsNodeStorageStatus, WindowsStorage};
use crate::index::{Cluster, ConfigMap, ObjectKey, Secret, Table};
use crate::objects::{Object, metadata::metadata, object_key};

fn own_name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

impl Object for WindowsStorage {
    type Key = String;
    type Row = WindowsStorage;

    fn key(meta: &ObjectMeta) -> String {
        own_name(meta)
    }

    fn row(mut self) -> Option<WindowsStorage> {
        self.metadata.managed_fields = None;
        Some(self)
    }

    fn table(cluster: &mut Cluster) -> &mut Table<String, WindowsStorage> {
        &mut cluster.settings
    }
}

impl Object for WindowsNodeStorage {
    type Key = String;
    type Row = WindowsNodeStorageStatus;

    fn key(meta: &ObjectMeta) -> String {
        own_name(meta)
    }

    fn row(self) -> Option<WindowsNodeStorageStatus> {
        Some(self.status.unwrap_or_default())
    }

    fn table(cluster: &mut Cluster) -> &mut Table<String, WindowsNodeStorageStatus> {
        &mut cluster.node_statuses
    }
}

impl Object for core::ConfigMap {
    type Key = String;
    type Row = ConfigMap;

    fn key(meta: &ObjectMeta) -> String {
        own_name(meta)
    }

    fn row(self) -> Option<ConfigMap> {
        Some(ConfigMap {
            data: self.data.unwrap_or_default(),
            immutable: self.immutable.unwrap_or_default(),
            resource_version: self.metadata.resource_version.unwrap_or_default(),
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<String, ConfigMap> {
        &mut cluster.config_maps
    }
}

impl Object for core::Secret {
    type Key = String;
    type Row = Secret;

    fn key(meta: &ObjectMeta) -> String {
        own_name(meta)
    }

    fn is_secret() -> bool {
        true
    }

    fn row(self) -> Option<Secret> {
        let data = self.data.unwrap_or_default();
        Some(Secret {
            data: data
                .into_iter()
                .map(|(key, value)| (key, Zeroizing::new(value.0)))
                .collect(),
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<String, Secret> {
        &mut cluster.secrets
    }
}

/// The `ConfigMap` with the feature switches of the vSphere driver; all others are of no interest.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = core::ConfigMap)]
pub struct FeatureSwitchObject {
    #[serde(deserialize_with = "metadata")]
    metadata: ObjectMeta,
    data: Option<std::collections::BTreeMap<String, String>>,
}

impl FeatureSwitchObject {
    /// Its name, whatever the namespace.
    pub const NAME: &'static str = "internal-feature-states.csi.vsphere.vmware.com";
}

impl Object for FeatureSwitchObject {
    type Key = ObjectKey;
    type Row = ConfigMap;

    fn field_selector() -> Option<String> {
        Some(format!("metadata.name={}", Self::NAME))
    }

    fn is_of_interest(object: &Value) -> bool {
        object.pointer("/metadata/name") == Some(&Value::from(Self::NAME))
    }

    fn key(meta: &ObjectMeta) -> ObjectKey {
        object_key(meta)
    }

    fn row(self) -> Option<ConfigMap> {
        Some(ConfigMap {
            data: self.data.unwrap_or_default(),
            ..ConfigMap::default()
        })
    }

    fn table(cluster: &mut Cluster) -> &mut Table<ObjectKey, ConfigMap> {
        &mut cluster.feature_switches
    }
}
