//! Writes the `windows-services` ConfigMap as planned.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::client::deadline::{self, CallError};
use crate::services::{CONFIG_MAP, ServicesPlan};

/// Carries out the plan, and returns the ConfigMap's resourceVersion if it was written. A concurrent change by another
/// client is a conflict: the next pass plans again from it.
pub async fn write(api: &Api<ConfigMap>, step: &ServicesPlan) -> Result<Option<u64>, CallError> {
    let written = match step {
        ServicesPlan::Keep(_) => return Ok(None),
        ServicesPlan::Create(data) => {
            let mut object = ConfigMap {
                data: Some(data.clone()),
                ..ConfigMap::default()
            };
            object.metadata.name = Some(CONFIG_MAP.to_owned());
            let parameters = PostParams::default();
            let creating = api.create(&parameters, &object);
            deadline::call("create ConfigMap windows-services", creating).await?
        }
        ServicesPlan::Update {
            data,
            resource_version,
        } => {
            let metadata = json!({"resourceVersion": resource_version});
            let patch = Patch::Merge(json!({"metadata": metadata, "data": data}));
            let parameters = PatchParams::default();
            let writing = api.patch(CONFIG_MAP, &parameters, &patch);
            deadline::call("write ConfigMap windows-services", writing).await?
        }
    };
    tracing::info!("the csi-proxy entry of ConfigMap windows-services is written");
    let version = written.metadata.resource_version;
    Ok(version.and_then(|version| version.parse().ok()))
}
