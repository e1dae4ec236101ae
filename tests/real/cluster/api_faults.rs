//! Faults between the operator and the API server, injected by a proxy. In every case, memory stays bounded, no
//! decision is lost, and the gate is not opened by the fault.

mod bursts;
mod dead;
mod gone;
mod late;
mod order;
mod refused;
mod silent;
mod torn;

use std::ops::Deref;
use std::path::Path;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use testbed::api_proxy::{ApiProxy, End, Verb};
use testbed::objects;
use testbed::sandbox::Operator;

use crate::cluster::harness::{Harness, client_of};

/// How much the peak of the resident set may grow through any fault: what one page of any kind takes while it is read,
/// in an unoptimized program.
const HEADROOM: u64 = 24 << 20;
/// Namespace of pods that only serve as load. In a list, it comes before that of the workload.
const CROWD: &str = "crowd";
/// Number of concurrent writes.
const WRITERS: usize = 32;

/// A cluster with two Windows nodes and a pod whose volume lacks its driver on both; the operator runs behind a proxy.
struct Rig {
    harness: Harness,
    proxy: ApiProxy,
}

impl Deref for Rig {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

impl Rig {
    fn new() -> Self {
        let mut harness = Harness::held();
        harness.sandbox.add_node("win-2", None).unwrap();
        harness.register("win-2", false);
        let proxy = ApiProxy::start(harness.command.kubeconfig()).unwrap();
        harness.command = harness.command.with_kubeconfig(proxy.kubeconfig());
        Self { harness, proxy }
    }

    /// Starts the operator and waits until it holds upgrades for both nodes.
    fn start(&self) -> Running {
        let operator = self.start_with_arguments(&["--serve-address=127.0.0.1:0"]);
        self.expect_missing("win-1, win-2");
        for resource in ["csinodes", "persistentvolumes", "pods"] {
            self.eventually("its watches run", || {
                self.proxy.count(Verb::Watch, resource) > 0
            });
        }
        let peak = operator.peak_memory().unwrap();
        Running { operator, peak }
    }

    /// Ends the watches of one resource, or all, and waits until the watch of pods is back.
    fn end_watches(&self, resource: Option<&str>, end: End) {
        let before = self.proxy.count(Verb::Watch, "pods");
        self.proxy.end_watches(resource, end);
        self.eventually("the watch of pods is back", || {
            self.proxy.count(Verb::Watch, "pods") > before
        });
    }

    /// Creates this many pods without volumes.
    fn crowd(&self, pods: usize) -> Crowd {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {CROWD}}}\n");
        let control_plane = self.control_plane();
        control_plane.apply(&namespace).unwrap();
        let crowd = Crowd::new(control_plane.kubeconfig(), pods);
        crowd.create();
        crowd
    }
}

/// The operator, and its peak memory before the fault.
struct Running {
    operator: Operator,
    peak: u64,
}

impl Running {
    /// Asserts that its memory has stayed within bounds.
    fn assert_memory(&self) {
        let peak = self.operator.peak_memory().unwrap();
        println!(
            "peak memory: {} KiB, before the faults {} KiB",
            peak >> 10,
            self.peak >> 10
        );
        assert!(peak <= self.peak + HEADROOM, "{peak} after {}", self.peak);
    }

    /// Asserts that it is still running, with its memory within bounds.
    fn assert_well(mut self) {
        assert_eq!(self.operator.ended().unwrap(), None);
        self.assert_memory();
    }
}

/// Many pods, written concurrently.
struct Crowd {
    runtime: tokio::runtime::Runtime,
    api: Api<Pod>,
    names: Vec<String>,
}

impl Crowd {
    fn new(kubeconfig: &Path, pods: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(client_of(kubeconfig));
        let api = Api::namespaced(client, CROWD);
        let names = (0..pods).map(|number| format!("one-{number:05}")).collect();
        Self {
            runtime,
            api,
            names,
        }
    }

    fn create(&self) {
        let parameters = PostParams::default();
        let each = self.names.iter().map(|name| {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {
                    "nodeName": "win-1", "os": {"name": "windows"},
                    "containers": [{"name": "main", "image": "example.com/nothing"}],
                },
            });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let (api, parameters) = (&self.api, &parameters);
            async move { api.create(parameters, &pod).await.map(drop).unwrap() }
        });
        self.runtime
            .block_on(stream::iter(each).buffer_unordered(WRITERS).collect::<()>());
    }

    /// Changes every pod in an irrelevant way, which causes one event each.
    fn touch(&self, round: usize) {
        let patch =
            Patch::Merge(json!({"metadata": {"annotations": {"round": round.to_string()}}}));
        let parameters = PatchParams::default();
        let each = self.names.iter().map(|name| {
            let (api, patch, parameters) = (&self.api, &patch, &parameters);
            async move { api.patch(name, parameters, patch).await.map(drop).unwrap() }
        });
        self.runtime
            .block_on(stream::iter(each).buffer_unordered(WRITERS).collect::<()>());
    }
}

/// Returns a pod on `win-1` with its own volume, whose driver is not `DRIVER`.
fn pod_that_needs_another_driver() -> String {
    format!(
        r"apiVersion: v1
kind: Pod
metadata: {{name: late, namespace: {}}}
spec:
  nodeName: win-1
  os: {{name: windows}}
  containers: [{{name: main, image: example.com/nothing}}]
  volumes:
  - name: share
    azureFile: {{secretName: none, shareName: none}}
",
        objects::WORKLOADS
    )
}
