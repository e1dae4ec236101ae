//! Writes the `windows-services` ConfigMap as planned.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::client::deadline::{self, CallError, Unwritten};
use crate::client::version;
use crate::services::{CONFIG_MAP, ServicesError, ServicesPlan};

fn unwritten(error: CallError) -> Unwritten {
    let hint = if error.is_not_found() {
        "; is the operator's namespace there? kubectl apply -f manifests/namespace.yaml"
    } else {
        ""
    };
    Unwritten(error, hint)
}

/// Writes the csi-proxy entry.
pub struct ServicesWriter {
    api: Api<ConfigMap>,
    /// "An answer to a write never replaces what a watch has delivered": the resourceVersion that was written last.
    written: u64,
}

impl ServicesWriter {
    /// Creates a writer for the ConfigMap in that namespace.
    pub fn new(client: &Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            written: 0,
        }
    }

    /// Carries out the plan, unless it is from before the last write. A concurrent change by another client is a conflict,
    /// which is no fault: the next plan starts from it.
    pub async fn reconcile(
        &mut self,
        read_up_to: u64,
        plan: &Result<ServicesPlan, ServicesError>,
    ) -> Result<(), Unwritten> {
        if read_up_to < self.written {
            return Ok(());
        }
        let written = match plan {
            Ok(ServicesPlan::Unneeded | ServicesPlan::Keep { .. }) => return Ok(()),
            Err(error) => {
                tracing::debug!(%error, "ConfigMap windows-services cannot be used");
                return Ok(());
            }
            Ok(ServicesPlan::Create(data)) => {
                let mut object = ConfigMap {
                    data: Some(data.clone()),
                    ..ConfigMap::default()
                };
                object.metadata.name = Some(CONFIG_MAP.to_owned());
                let parameters = PostParams::default();
                let creating = self.api.create(&parameters, &object);
                deadline::call("create ConfigMap windows-services", creating).await
            }
            Ok(ServicesPlan::Update {
                data,
                resource_version,
            }) => {
                let metadata = json!({"resourceVersion": resource_version});
                let patch = Patch::Merge(json!({"metadata": metadata, "data": data}));
                let parameters = PatchParams::default();
                let writing = self.api.patch(CONFIG_MAP, &parameters, &patch);
                deadline::call("write ConfigMap windows-services", writing).await
            }
        };
        match written {
            Err(error) if error.is_conflict() => Ok(()),
            written => {
                self.written = version(&written.map_err(unwritten)?);
                tracing::info!("the csi-proxy entry of ConfigMap windows-services is written");
                Ok(())
            }
        }
    }
}
