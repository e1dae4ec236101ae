//! Writes a cluster's objects within seconds. Through the API, a pod takes the API server milliseconds, mostly for
//! managedFields, so 20,000 pods take minutes. Therefore only the first object of each shape goes through the API, as a
//! controller and a kubelet write it. The others are copies of what the API server stored for the first one, with the
//! differences put in, and go directly to etcd. The API server reads JSON from etcd as well as its own encoding.

use std::collections::HashMap;

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use http::{Method, Request};
use k8s_openapi::ByteString;
use kube::{Client, Config};
use serde_json::{Value, json};
use testbed::control_plane::ControlPlane;
use testbed::realistic::{self as objects, Os};

use super::{Size, client};

const PODS_OF_SET: usize = 5;
const PODS_OF_DEPLOYMENT: usize = 10;
/// Earlier revisions that a Deployment keeps, one ReplicaSet each.
const OLD_REPLICA_SETS: usize = 2;
/// Puts per transaction. etcd's default limits are 128 operations and 1.5 MiB.
const BATCH: usize = 64;
/// Transactions in flight at a time.
const IN_FLIGHT: usize = 4;
const CONTROLLERS: &str = "kube-controller-manager";
const KUBELET: &str = "kubelet";

/// Writes objects to the API server and to etcd.
pub struct Loader {
    api: Client,
    etcd: Client,
    shapes: HashMap<String, Shape>,
    batch: Vec<Value>,
    batches: Vec<Value>,
    uids: u64,
}

/// The first object of a shape: of its kind, operating system and role.
struct Shape {
    given: [Value; 2],
    stored: Value,
}

/// An object to write.
struct New {
    /// Name of the shape. Objects of one shape differ only in names, numbers and addresses.
    shape: String,
    /// API path of the object's collection.
    path: String,
    /// Path of the collection in etcd.
    registry: String,
    object: Value,
    /// The status to write, or null.
    status: Value,
}

impl Loader {
    pub async fn new(control_plane: &ControlPlane) -> Result<Self> {
        Ok(Self {
            api: client(control_plane.kubeconfig()).await?,
            etcd: Client::try_from(Config::new(control_plane.etcd().parse()?))?,
            shapes: HashMap::new(),
            batch: Vec::new(),
            batches: Vec::new(),
            uids: 0,
        })
    }

    /// Writes the namespaces and the other objects that all workloads share.
    pub async fn shared(&mut self) -> Result<()> {
        for (path, object) in objects::shared() {
            self.post(path, &object, CONTROLLERS).await?;
        }
        for number in 0..objects::NAMESPACES {
            let namespace = objects::namespace_object(number);
            self.post("/api/v1/namespaces", &namespace, "helm").await?;
        }
        Ok(())
    }

    /// Writes a whole cluster. Only the shared objects may have been written before.
    pub async fn cluster(&mut self, size: &Size) -> Result<()> {
        for (os, part) in [(Os::Windows, size.windows), (Os::Linux, size.linux)] {
            self.nodes(os, part.nodes).await?;
            self.stateful(os, part.stateful_pods, part.nodes).await?;
            self.stateless(os, part.stateless_pods, part.nodes).await?;
        }
        Ok(())
    }

    /// Writes nodes with their CSINodes and one driver pod each. The last Windows node lacks the driver.
    async fn nodes(&mut self, os: Os, count: usize) -> Result<()> {
        let path = "/apis/apps/v1/namespaces/kube-system/daemonsets";
        let set = self.post(path, &objects::driver_set(os), "helm").await?;
        let set = uid(&set).to_owned();
        for number in 0..count {
            let node = self
                .write(New {
                    shape: format!("{os:?} node"),
                    path: "/api/v1/nodes".to_owned(),
                    registry: "minions".to_owned(),
                    object: objects::node(os, number),
                    status: objects::node_status(os, number),
                })
                .await?;
            let has_driver = os == Os::Linux || number + 1 < count;
            self.write(New {
                shape: format!("{os:?} CSINode {has_driver}"),
                path: "/apis/storage.k8s.io/v1/csinodes".to_owned(),
                registry: "csinodes".to_owned(),
                object: objects::csi_node(os, number, &node, has_driver),
                status: Value::Null,
            })
            .await?;
            let pod = objects::driver_pod(os, number, &set);
            self.pod(format!("{os:?} driver"), "kube-system", pod, number)
                .await?;
        }
        self.flush().await
    }

    /// Writes each `StatefulSet` and its pods, each pod with a claim and its volume.
    async fn stateful(&mut self, os: Os, pods: usize, nodes: usize) -> Result<()> {
        for set in 0..pods / PODS_OF_SET {
            let namespace = &objects::namespace(set);
            let object = objects::stateful_set(os, set, PODS_OF_SET);
            let uid = self.workload(os, "statefulsets", namespace, object).await?;
            let name = &objects::workload_name(os, true, set);
            let owner = objects::Owner {
                kind: "StatefulSet",
                name,
                uid: &uid,
            };
            for ordinal in 0..PODS_OF_SET {
                self.write(New {
                    shape: format!("{os:?} volume"),
                    path: "/api/v1/persistentvolumes".to_owned(),
                    registry: "persistentvolumes".to_owned(),
                    object: objects::volume(os, set, ordinal),
                    status: objects::volume_status(),
                })
                .await?;
                self.write(New {
                    shape: format!("{os:?} claim"),
                    path: format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"),
                    registry: format!("persistentvolumeclaims/{namespace}"),
                    object: objects::claim(os, set, ordinal),
                    status: objects::claim_status(),
                })
                .await?;
                let number = set * PODS_OF_SET + ordinal;
                let node = objects::node_name(os, number % nodes);
                let pod = objects::stateful_pod(os, set, ordinal, &node, &owner);
                self.pod(format!("{os:?} stateful"), namespace, pod, number)
                    .await?;
            }
        }
        self.flush().await
    }

    /// Writes Deployments and their pods, without storage.
    async fn stateless(&mut self, os: Os, pods: usize, nodes: usize) -> Result<()> {
        for number in 0..pods / PODS_OF_DEPLOYMENT {
            let namespace = &objects::namespace(number);
            let object = objects::deployment(os, number, PODS_OF_DEPLOYMENT);
            let deployment = self.workload(os, "deployments", namespace, object).await?;
            let mut owner = (String::new(), String::new());
            for revision in 0..=OLD_REPLICA_SETS {
                let replicas = match revision {
                    OLD_REPLICA_SETS => PODS_OF_DEPLOYMENT,
                    _ => 0,
                };
                let set = objects::replica_set(os, number, replicas, revision, &deployment);
                owner.0 = name(&set).to_owned();
                owner.1 = self.workload(os, "replicasets", namespace, set).await?;
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
                self.pod(format!("{os:?} stateless"), namespace, pod, pod_number)
                    .await?;
            }
        }
        self.flush().await
    }

    async fn pod(
        &mut self,
        shape: String,
        namespace: &str,
        pod: Value,
        number: usize,
    ) -> Result<()> {
        let new = New {
            shape,
            path: format!("/api/v1/namespaces/{namespace}/pods"),
            registry: format!("pods/{namespace}"),
            object: pod,
            status: objects::pod_status(number),
        };
        self.write(new).await.map(drop)
    }

    async fn workload(
        &mut self,
        os: Os,
        resource: &str,
        namespace: &str,
        object: Value,
    ) -> Result<String> {
        self.write(New {
            shape: format!("{os:?} {resource}"),
            path: format!("/apis/apps/v1/namespaces/{namespace}/{resource}"),
            registry: format!("{resource}/{namespace}"),
            object,
            status: Value::Null,
        })
        .await
    }

    /// Writes an object, or queues it for the next batch. Returns its uid.
    async fn write(&mut self, new: New) -> Result<String> {
        let given = [new.object, new.status];
        let Some(shape) = self.shapes.get(&new.shape) else {
            let stored = self.write_first(&new.path, &given).await?;
            let of_it = uid(&stored).to_owned();
            self.shapes.insert(new.shape, Shape { given, stored });
            return Ok(of_it);
        };
        let mut object = shape.stored.clone();
        for (first, this) in shape.given.iter().zip(&given) {
            put_differences(&mut object, first, this);
        }
        self.uids += 1;
        let uid = format!("5eed0000-0000-4000-8000-{:012x}", self.uids);
        object["metadata"]["uid"] = json!(uid);
        let key = format!("/registry/{}/{}", new.registry, name(&object));
        self.batch.push(json!({"requestPut": {
            "key": ByteString(key.into_bytes()), "value": ByteString(serde_json::to_vec(&object)?)}}));
        if self.batch.len() == BATCH {
            self.batches.push(std::mem::take(&mut self.batch).into());
        }
        if self.batches.len() == IN_FLIGHT {
            self.send_batches().await?;
        }
        Ok(uid)
    }

    async fn flush(&mut self) -> Result<()> {
        let last = std::mem::take(&mut self.batch);
        if !last.is_empty() {
            self.batches.push(last.into());
        }
        self.send_batches().await
    }

    async fn send_batches(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.batches);
        stream::iter(batches)
            .map(|batch| {
                let body = json!({"success": batch});
                send(
                    &self.etcd,
                    Method::POST,
                    "/v3/kv/txn",
                    "application/json",
                    body,
                )
            })
            .buffer_unordered(IN_FLIGHT)
            .try_for_each(|_| std::future::ready(Ok(())))
            .await
    }

    /// Writes an object through the API. Returns what etcd then stores, without its resourceVersion.
    async fn write_first(&self, path: &str, [object, status]: &[Value; 2]) -> Result<Value> {
        let mut stored = self.post(path, object, CONTROLLERS).await?;
        if !status.is_null() {
            let path = format!("{path}/{}/status?fieldManager={KUBELET}", name(object));
            let merge = "application/strategic-merge-patch+json";
            stored = send(&self.api, Method::PATCH, &path, merge, status.clone()).await?;
        }
        if let Some(metadata) = stored["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        Ok(stored)
    }

    async fn post(&self, path: &str, object: &Value, manager: &str) -> Result<Value> {
        let path = format!("{path}?fieldManager={manager}");
        let json = "application/json";
        send(&self.api, Method::POST, &path, json, object.clone()).await
    }
}

/// Sends a request with a body and returns the answer.
pub async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Value,
) -> Result<Value> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", content_type)
        .body(serde_json::to_vec(&body)?)?;
    let answer = client.request(request).await;
    answer.with_context(|| format!("writing {path}"))
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Applies the differences between the first object of a shape and this one to a copy of what was stored for the first.
/// The API server appends what it adds to a list, so the positions of list items still match.
fn put_differences(object: &mut Value, first: &Value, this: &Value) {
    match (object, first, this) {
        (Value::Object(object), Value::Object(first), Value::Object(this)) => {
            for (field, value) in this {
                if let Some(of_object) = object.get_mut(field) {
                    put_differences(of_object, &first[field], value);
                }
            }
        }
        (Value::Array(object), Value::Array(first), Value::Array(this)) => {
            for (item, (first, this)) in object.iter_mut().zip(first.iter().zip(this)) {
                put_differences(item, first, this);
            }
        }
        (object, first, this) => {
            if first != this {
                object.clone_from(this);
            }
        }
    }
}
