//! What is the operator's own: its ConfigMaps, the key to connect with, events.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::{Api, Client};

use crate::deadline::{self, Patience};
use crate::gather::objects::Objects;
use crate::index::Cluster;
use crate::installed::{self, OPERATOR, SELECTOR};
use crate::lease::LEASE;
use crate::listing::{self, Step};
use crate::node::{HOST_KEYS_CONFIG_MAP, INSTANCES_CONFIG_MAP, SSH_SECRET};
use crate::objects::{Object, Received, absorb};
use crate::services;

/// ConfigMaps that say how nodes are worked on. Others are nobody's business.
const CONFIG_MAPS: [&str; 3] = [
    services::CONFIG_MAP,
    INSTANCES_CONFIG_MAP,
    HOST_KEYS_CONFIG_MAP,
];

/// Reads what is needed to connect to nodes, keeps the ConfigMaps, and never the key.
pub async fn settings(
    client: &Client,
    cluster: &mut Cluster,
    objects: &mut Objects<'_>,
    patience: &mut Patience,
    problems: &mut Vec<String>,
) {
    let namespace = cluster.namespace.clone();
    let resource = ApiResource::erase::<ConfigMap>(&());
    let api: Api<Received> = Api::namespaced_with(client.clone(), &namespace, &resource);
    cluster.config_maps.begin();
    objects.begin();
    let mut is_complete = true;
    // One by one: the right to list them would be that to read all others too.
    for name in CONFIG_MAPS {
        let reading = deadline::call("read ConfigMap", api.get_opt(name));
        match patience.ask(reading).await {
            Ok(Some(map)) => {
                absorb::<ConfigMap>(cluster, &map);
                objects.put(&resource, &map);
            }
            Ok(None) => {}
            Err(error) => {
                is_complete = false;
                problems.push(format!(
                    "ConfigMap {name} of namespace {namespace}: {}",
                    error.answer()
                ));
            }
        }
    }
    objects.end();
    if is_complete {
        cluster.config_maps.finish();
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let reading = deadline::call("read Secret", secrets.get_opt(SSH_SECRET));
    match patience.ask(reading).await {
        Ok(Some(secret)) => {
            if let Some(row) = secret.row() {
                cluster.secrets.apply(SSH_SECRET.to_owned(), row);
            }
        }
        // That the nodes could not be logged in to is said of them.
        Ok(None) => {}
        Err(error) => problems.push(format!(
            "Secret {SSH_SECRET} of namespace {namespace}, which opens the nodes: {}",
            error.answer()
        )),
    }
}

/// What people look for beside what the judgement goes by. Kinds that the server does not know are left out.
pub async fn others(
    client: &Client,
    namespace: &str,
    objects: &mut Objects<'_>,
    patience: &mut Patience,
    problems: &mut Vec<String>,
) {
    let all: fn(&Received) -> bool = |_| true;
    let conditions = resource(
        "operators.coreos.com",
        "v2",
        "OperatorCondition",
        "operatorconditions",
    );
    let attachments = resource(
        "storage.k8s.io",
        "v1",
        "VolumeAttachment",
        "volumeattachments",
    );
    let leases = resource("coordination.k8s.io", "v1", "Lease", "leases");
    let events = resource("", "v1", "Event", "events");
    let mut reading = Others {
        client,
        objects,
        patience,
        problems,
    };
    reading.kind(&conditions, Some(namespace), all).await;
    reading.kind(&leases, Some(namespace), is_of_election).await;
    reading.kind(&attachments, None, all).await;
    reading.kind(&events, Some(namespace), all).await;
    if namespace != EVENTS_OF_CLUSTER {
        reading
            .kind(&events, Some(EVENTS_OF_CLUSTER), is_about_nodes)
            .await;
    }
}

struct Others<'a, 'b> {
    client: &'a Client,
    objects: &'a mut Objects<'b>,
    patience: &'a mut Patience,
    problems: &'a mut Vec<String>,
}

impl Others<'_, '_> {
    async fn kind(
        &mut self,
        resource: &ApiResource,
        namespace: Option<&str>,
        is_wanted: fn(&Received) -> bool,
    ) {
        let api: Api<Received> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        };
        let objects = &mut *self.objects;
        let all = ListParams::default();
        let mut take = |step| match step {
            Step::Begin => objects.begin(),
            Step::Ask => {}
            Step::Page(page) => {
                let wanted = page.iter().filter(|object| is_wanted(object));
                wanted.for_each(|object| objects.put(resource, object));
            }
        };
        let listed = listing::list(&api, &all, &mut take);
        let listed = self.patience.ask(listed).await;
        self.objects.end();
        match listed {
            Err(error) if !error.is_not_found() => {
                let place = namespace.map(|name| format!(" of namespace {name}"));
                let (kind, place) = (&resource.kind, place.unwrap_or_default());
                self.problems
                    .push(format!("{kind}s{place}: {}", error.answer()));
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Whether a Lease says which of several operators acts.
fn is_of_election(lease: &Received) -> bool {
    kube::Resource::meta(lease).name.as_deref() == Some(LEASE)
}

/// Where Kubernetes keeps events about objects that are in no namespace.
const EVENTS_OF_CLUSTER: &str = "default";

/// Whether an event is about a Node or about one of our kinds.
fn is_about_nodes(event: &Received) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Event {
        involved_object: About,
    }
    #[derive(serde::Deserialize)]
    struct About {
        kind: Option<String>,
    }
    let about = serde_json::from_str(event.text()).ok();
    let kind = about.and_then(|Event { involved_object }| involved_object.kind);
    kind.is_some_and(|kind| ["Node", "WindowsNodeStorage", "WindowsStorage"].contains(&&*kind))
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
    ApiResource::from_gvk_with_plural(&gvk, plural)
}

/// Where the operator is: where it was said to be, else where its Deployment is, else where it is by default.
pub async fn namespace(client: &Client, given: Option<&str>) -> (String, String) {
    if let Some(given) = given {
        return (given.to_owned(), "as given".to_owned());
    }
    match installed::namespaces(client).await {
        Ok(found) => chosen(found),
        Err(error) => {
            let why = format!(
                "by default, for Deployments could not be read: {}",
                error.answer()
            );
            (OPERATOR.to_owned(), why)
        }
    }
}

fn chosen(found: BTreeSet<String>) -> (String, String) {
    match found.len() {
        0 => (
            OPERATOR.to_owned(),
            format!("by default, for no Deployment {OPERATOR} with the label {SELECTOR} was found"),
        ),
        1 => (
            found.into_iter().collect(),
            format!("where the operator's Deployment with the label {SELECTOR} is"),
        ),
        _ => {
            let all: Vec<String> = found.into_iter().collect();
            let why = format!(
                "by default, for the operator's Deployment is in {}; --namespace names one",
                all.join(", ")
            );
            (OPERATOR.to_owned(), why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_where_the_operator_is() {
        let chosen = |found: &[&str]| chosen(found.iter().map(ToString::to_string).collect());
        assert_eq!(chosen(&[]).0, OPERATOR);
        assert_eq!(chosen(&["storage"]).0, "storage");
        let (namespace, why) = chosen(&["storage", "other"]);
        assert_eq!(namespace, OPERATOR);
        assert!(why.contains("other, storage"), "{why}");
    }
}
