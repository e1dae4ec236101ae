//! Writes the `windows-services` ConfigMap as planned.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::deadline::{self, CallError};
use crate::objects::Object;
use crate::services::{CONFIG_MAP, Step};
use crate::watch::SharedCluster;

/// Writes the ConfigMap.
pub struct ServicesWriter {
    api: Api<ConfigMap>,
    shared: SharedCluster,
}

impl ServicesWriter {
    /// A writer into that API's namespace.
    pub fn new(api: Api<ConfigMap>, shared: SharedCluster) -> Self {
        Self { api, shared }
    }

    /// Carries out the step. A change that somebody made meanwhile is a conflict: the next pass plans anew from it.
    pub async fn write(&self, step: &Step) -> Result<(), CallError> {
        let written = match step {
            Step::Keep(_) => return Ok(()),
            Step::Create(data) => {
                let object = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(CONFIG_MAP.to_owned()),
                        ..ObjectMeta::default()
                    },
                    data: Some(data.clone()),
                    ..ConfigMap::default()
                };
                deadline::call(
                    "create ConfigMap windows-services",
                    self.api.create(&PostParams::default(), &object),
                )
                .await?
            }
            Step::Update {
                data,
                resource_version,
            } => {
                let patch =
                    json!({"metadata": {"resourceVersion": resource_version}, "data": data});
                deadline::call(
                    "write ConfigMap windows-services",
                    self.api
                        .patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&patch)),
                )
                .await?
            }
        };
        tracing::info!("the csi-proxy entry of ConfigMap windows-services is written");
        if let Some(row) = written.row() {
            self.shared
                .update(|cluster| cluster.config_maps.apply(CONFIG_MAP.to_owned(), row));
        }
        Ok(())
    }
}
