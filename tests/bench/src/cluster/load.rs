//! Writes a cluster's objects as fast as the API server takes them, many at a time over connections that stay open.

use std::fmt::Display;
use std::future::Future;

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use http::{Method, Request};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use testbed::realistic::{self as objects, Os};

use super::Size;

/// Groups of objects that are being written at a time.
const GROUPS: usize = 24;
const PODS_OF_SET: usize = 5;
const PODS_OF_DEPLOYMENT: usize = 10;
/// Deployments keep some ReplicaSets of earlier revisions.
const OLD_REPLICA_SETS: usize = 2;
const CONTROLLERS: &str = "kube-controller-manager";
const KUBELET: &str = "kubelet";

/// Writes objects.
#[derive(Clone)]
pub struct Loader {
    client: Client,
}

#[derive(Deserialize)]
struct Created {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

impl Loader {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Namespaces and what all share.
    pub async fn shared(&self) -> Result<()> {
        for (path, object) in objects::shared() {
            self.create(path, &object, CONTROLLERS).await?;
        }
        let namespaces = (0..objects::NAMESPACES).map(objects::namespace_object);
        all(namespaces.map(|namespace| async move {
            self.create("/api/v1/namespaces", &namespace, "helm").await
        }))
        .await
    }

    /// All of a cluster, to which nothing has been written but what is shared.
    pub async fn cluster(&self, size: &Size) -> Result<()> {
        for os in [Os::Windows, Os::Linux] {
            let part = size.of(os);
            self.nodes(os, part.nodes, size.without_driver).await?;
            self.stateful(os, 0..part.stateful_pods, part.nodes).await?;
            self.stateless(os, 0..part.stateless_pods, part.nodes)
                .await?;
        }
        Ok(())
    }

    /// Nodes with their CSINodes and a pod of the driver on each. The last Windows nodes lack the driver.
    async fn nodes(&self, os: Os, count: usize, without_driver: usize) -> Result<()> {
        let set = objects::driver_set(os);
        let path = "/apis/apps/v1/namespaces/kube-system/daemonsets";
        let set = &self.create(path, &set, "helm").await?;
        all((0..count).map(|number| async move {
            let node = objects::node(os, number);
            let uid = self.create("/api/v1/nodes", &node, KUBELET).await?;
            let name = objects::node_name(os, number);
            let status = objects::node_status(os, number);
            self.status(&format!("/api/v1/nodes/{name}"), &status)
                .await?;
            let has_driver = os == Os::Linux || number + without_driver < count;
            let csi_node = objects::csi_node(os, number, &uid, has_driver);
            self.create("/apis/storage.k8s.io/v1/csinodes", &csi_node, KUBELET)
                .await?;
            self.pod("kube-system", &objects::driver_pod(os, number, set), number)
                .await
        }))
        .await
    }

    /// Pods of StatefulSets, each with a claim and its volume.
    pub async fn stateful(&self, os: Os, pods: std::ops::Range<usize>, nodes: usize) -> Result<()> {
        let sets = groups(pods, PODS_OF_SET)?;
        all(sets.map(|set| async move {
            let namespace = objects::namespace(set);
            let apps = format!("/apis/apps/v1/namespaces/{namespace}/statefulsets");
            let object = objects::stateful_set(os, set, PODS_OF_SET);
            let uid = self.create(&apps, &object, "helm").await?;
            let name = objects::workload_name(os, true, set);
            let owner = objects::Owner {
                kind: "StatefulSet",
                name: &name,
                uid: &uid,
            };
            for ordinal in 0..PODS_OF_SET {
                let volume = objects::volume(os, set, ordinal);
                self.create("/api/v1/persistentvolumes", &volume, CONTROLLERS)
                    .await?;
                let volume = objects::volume_name(os, set, ordinal);
                let path = format!("/api/v1/persistentvolumes/{volume}");
                self.status(&path, &objects::volume_status()).await?;
                let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
                let claim = objects::claim(os, set, ordinal);
                self.create(&claims, &claim, CONTROLLERS).await?;
                let path = format!("{claims}/data-{name}-{ordinal}");
                self.status(&path, &objects::claim_status()).await?;
                let number = set * PODS_OF_SET + ordinal;
                let node = objects::node_name(os, number % nodes);
                let pod = objects::stateful_pod(os, set, ordinal, &node, &owner);
                self.pod(&namespace, &pod, number).await?;
            }
            Ok(())
        }))
        .await
    }

    /// Pods of Deployments, without storage.
    pub async fn stateless(
        &self,
        os: Os,
        pods: std::ops::Range<usize>,
        nodes: usize,
    ) -> Result<()> {
        let deployments = groups(pods, PODS_OF_DEPLOYMENT)?;
        all(deployments.map(|number| async move {
            let namespace = objects::namespace(number);
            let apps = format!("/apis/apps/v1/namespaces/{namespace}");
            let object = objects::deployment(os, number, PODS_OF_DEPLOYMENT);
            let deployment = self
                .create(&format!("{apps}/deployments"), &object, "helm")
                .await?;
            let mut owner = (String::new(), String::new());
            for revision in 0..=OLD_REPLICA_SETS {
                let replicas = match revision {
                    OLD_REPLICA_SETS => PODS_OF_DEPLOYMENT,
                    _ => 0,
                };
                let set = objects::replica_set(os, number, replicas, revision, &deployment);
                let path = format!("{apps}/replicasets");
                let uid = self.create(&path, &set, CONTROLLERS).await?;
                let name = set["metadata"]["name"].as_str().unwrap_or_default();
                owner = (name.to_owned(), uid);
            }
            let owner = objects::Owner {
                kind: "ReplicaSet",
                name: &owner.0,
                uid: &owner.1,
            };
            for ordinal in 0..PODS_OF_DEPLOYMENT {
                let pod_number = number * PODS_OF_DEPLOYMENT + ordinal;
                let node = objects::node_name(os, pod_number % nodes);
                let pod = objects::stateless_pod(os, number, ordinal, &node, &owner);
                self.pod(&namespace, &pod, pod_number).await?;
            }
            Ok(())
        }))
        .await
    }

    async fn pod(&self, namespace: &str, pod: &Value, number: usize) -> Result<()> {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        self.create(&path, pod, CONTROLLERS).await?;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        self.status(&format!("{path}/{name}"), &objects::pod_status(number))
            .await
    }

    /// Returns the uid.
    async fn create(&self, path: &str, object: &Value, manager: &str) -> Result<String> {
        let path = format!("{path}?fieldManager={manager}");
        let answer = self
            .send(Method::POST, &path, "application/json", object)
            .await?;
        let created: Created = serde_json::from_str(&answer)?;
        Ok(created.metadata.uid)
    }

    async fn status(&self, path: &str, status: &Value) -> Result<()> {
        let path = format!("{path}/status?fieldManager={KUBELET}");
        let patch = "application/strategic-merge-patch+json";
        self.send(Method::PATCH, &path, patch, status)
            .await
            .map(drop)
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content_type)
            .body(serde_json::to_vec(body)?)?;
        let answer = self.client.request_text(request).await;
        answer.with_context(|| format!("writing {path}"))
    }
}

/// The workloads that have these pods.
fn groups(
    pods: std::ops::Range<usize>,
    size: usize,
) -> Result<impl Iterator<Item = usize> + use<>> {
    let whole = |pods: usize| pods.is_multiple_of(size);
    ensure!(
        whole(pods.start) && whole(pods.end),
        "{pods:?} are not workloads of {size} pods"
    );
    Ok(pods.start / size..pods.end / size)
}

async fn all<T, E: Display + Send>(
    work: impl Iterator<Item = impl Future<Output = Result<T, E>>>,
) -> Result<(), E> {
    stream::iter(work)
        .buffer_unordered(GROUPS)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await
}
