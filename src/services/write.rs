//! Writes the `windows-services` ConfigMap as planned.

use std::time::{Duration, Instant};

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

/// How far writes are apart: another client may change the entry each time.
const APART: Duration = Duration::from_secs(10);

/// Writes the csi-proxy entry.
pub struct ServicesWriter {
    api: Api<ConfigMap>,
    /// "An answer to a write never replaces what a watch has delivered": the resourceVersion that was written last.
    written: u64,
    /// "Steady state writes nothing", and neither do two that disagree write all the time: when it was last written, or another
    /// client was faster.
    tried: Option<Instant>,
}

impl ServicesWriter {
    /// Creates a writer for the ConfigMap in that namespace.
    pub fn new(client: &Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            written: 0,
            tried: None,
        }
    }

    /// Carries out the plan, unless it is from before the last write. A concurrent change by another client is a conflict,
    /// which is no fault: the next plan starts from it. Returns when it may write again, if it has just written or would.
    pub async fn reconcile(
        &mut self,
        read_up_to: u64,
        plan: &Result<ServicesPlan, ServicesError>,
    ) -> Result<Option<Instant>, Unwritten> {
        let now = Instant::now();
        let again = self.tried.map(|tried| tried + APART);
        let again = again.filter(|again| *again > now);
        if read_up_to < self.written {
            return Ok(None);
        }
        let written = match plan {
            Ok(ServicesPlan::Unneeded | ServicesPlan::Keep { .. }) => return Ok(None),
            Ok(_) if again.is_some() => return Ok(again),
            Err(error) => {
                tracing::debug!(%error, "ConfigMap windows-services cannot be used");
                return Ok(None);
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
            Err(error) if error.is_conflict() => {}
            written => {
                self.written = version(&written.map_err(unwritten)?);
                tracing::info!(
                    "the csi-proxy entry of ConfigMap windows-services is written, as spec.csiProxy of WindowsStorage says"
                );
            }
        }
        self.tried = Some(now);
        Ok(Some(now + APART))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::client::answering::answering;

    /// Another client changes the entry each time: the next plan is to write it again.
    #[tokio::test]
    async fn an_entry_is_not_written_again_and_again_without_a_pause() {
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        let client = answering(move |_, _, _| {
            let version = counter.fetch_add(1, Ordering::Relaxed) + 1;
            let metadata = json!({"name": CONFIG_MAP, "resourceVersion": version.to_string()});
            (
                200,
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
            )
        });
        let mut writer = ServicesWriter::new(&client, "default");
        let change = Ok(ServicesPlan::Update {
            data: BTreeMap::new(),
            resource_version: "1".to_owned(),
        });
        let now = Instant::now();
        for read_up_to in 1..9 {
            let again = writer.reconcile(read_up_to, &change).await.unwrap();
            assert!(again.is_some_and(|again| again >= now + APART));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        writer.tried = writer.tried.and_then(|it| it.checked_sub(APART));
        writer.reconcile(9, &change).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
