//! Gathers the operator's own data: `ConfigMap`s, the `OperatorCondition`, the Lease, events. Never writes the SSH key.

use kube::api::ListParams;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;

use crate::client::deadline::{self, Budget, CallError};
use crate::client::listing::{self, Step};
use crate::gather::objects::Objects;
use crate::index::{AnyTable, Cluster};
use crate::node::HOST_KEYS_CONFIG_MAP;
use crate::objects::{Received, own_config_maps};
use crate::services;
use crate::status::INSTANCES_CONFIG_MAP;
use crate::watch::read_secret;

/// The ConfigMaps that configure work on nodes. No others are read.
const CONFIG_MAPS: [&str; 3] = [
    services::CONFIG_MAP,
    INSTANCES_CONFIG_MAP,
    HOST_KEYS_CONFIG_MAP,
];

/// Reads objects from the API server that the assessment does not use.
pub struct Reader<'a, 'b> {
    /// The client.
    pub client: &'a Client,
    /// The operator's namespace.
    pub namespace: &'a str,
    /// The output.
    pub objects: &'a mut Objects<'b>,
    /// The time limit for requests.
    pub budget: &'a mut Budget,
}

impl Reader<'_, '_> {
    /// Reads what is needed to connect to nodes. Writes the ConfigMaps, but never the SSH key.
    pub async fn settings(&mut self, cluster: &mut Cluster) {
        let namespace = self.namespace;
        let Some(kind) = own_config_maps() else {
            return;
        };
        let api = Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
        cluster.config_maps.begin();
        self.objects.begin();
        let mut is_complete = true;
        // One by one: permission to list them would include all others.
        for name in CONFIG_MAPS {
            let reading = deadline::call("read ConfigMap", api.get_opt(name));
            let read = self.budget.ask(reading).await;
            match self.noted(&format!("ConfigMap {name} of namespace {namespace}"), read) {
                Some(Some(map)) => {
                    kind.absorb(cluster, &map);
                    self.objects.put(&kind.resource, [&map]);
                }
                Some(None) => {}
                None => is_complete = false,
            }
        }
        self.objects.end();
        if is_complete {
            cluster.config_maps.finish();
        }
        let secrets = Api::namespaced(self.client.clone(), namespace);
        for name in cluster.wanted().secrets() {
            let read = self.budget.ask(read_secret(&secrets, name)).await;
            let what = format!("Secret {name} of namespace {namespace}, which opens the nodes");
            // Without the Secret, each node reports that its key is missing.
            if let Some(secret) = self.noted(&what, read) {
                cluster.secrets.insert(name.to_owned(), secret);
            }
        }
    }

    /// Writes further objects that help with troubleshooting. Skips kinds that the server does not serve.
    pub async fn others(&mut self) {
        /// The namespace where Kubernetes stores events about cluster-scoped objects.
        const OF_CLUSTER: &str = "default";
        let own = Some(self.namespace);
        let all: fn(&Received) -> bool = |_| true;
        let kind = GroupVersionKind::gvk;
        let condition = kind("operators.coreos.com", "v2", "OperatorCondition");
        let lease = kind("coordination.k8s.io", "v1", "Lease");
        let attachment = kind("storage.k8s.io", "v1", "VolumeAttachment");
        let event = kind("", "v1", "Event");
        self.list(&condition, own, all).await;
        self.list(&lease, own, all).await;
        self.list(&attachment, None, all).await;
        self.list(&event, own, all).await;
        if self.namespace != OF_CLUSTER {
            self.list(&event, Some(OF_CLUSTER), is_about_nodes).await;
        }
    }

    async fn list(
        &mut self,
        kind: &GroupVersionKind,
        namespace: Option<&str>,
        is_wanted: fn(&Received) -> bool,
    ) {
        let resource = ApiResource::from_gvk(kind);
        let api: Api<Received> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let objects = &mut *self.objects;
        let all = ListParams::default();
        let mut take = |step| match step {
            Step::Begin => objects.begin(),
            Step::Ask => {}
            Step::Page(page) => {
                objects.put(&resource, page.iter().filter(|object| is_wanted(object)));
            }
        };
        let listing = listing::list(&api, &all, &mut take);
        let listed = self.budget.ask(listing).await;
        self.objects.end();
        let place = namespace.map(|name| format!(" of namespace {name}"));
        let what = format!("{}s{}", kind.kind, place.unwrap_or_default());
        if !listed.as_ref().is_err_and(CallError::is_not_found) {
            self.noted(&what, listed);
        }
    }

    /// Returns the API server's response. Notes a failure as a problem.
    fn noted<T>(&mut self, what: &str, answer: Result<T, CallError>) -> Option<T> {
        let problems = &mut self.objects.problems;
        let noted = |error: CallError| problems.push(format!("{what}: {}", error.answer()));
        answer.map_err(noted).ok()
    }
}

/// Whether an event is about a Node or one of this operator's kinds.
fn is_about_nodes(event: &Received) -> bool {
    let event: Value = serde_json::from_str(event.text()).unwrap_or_default();
    let kind = event["involvedObject"]["kind"].as_str();
    kind.is_some_and(|kind| ["Node", "WindowsNodeStorage", "WindowsStorage"].contains(&kind))
}
