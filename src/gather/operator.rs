//! What is the operator's own: its ConfigMaps, the key to connect with, its logs, events.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{ListParams, LogParams};
use kube::core::ApiResource;
use kube::{Api, Client};

use crate::deadline::{self, CallError, Patience};
use crate::gather::folder::{self, FolderError};
use crate::gather::objects::Objects;
use crate::index::Cluster;
use crate::listing::{self, Step};
use crate::node::{HOST_KEYS_CONFIG_MAP, INSTANCES_CONFIG_MAP, SSH_SECRET};
use crate::objects::{Object, Received, absorb};
use crate::services;

/// The name of the operator's Deployment, and of the label on its pods.
pub const OPERATOR: &str = "windows-storage-operator";
const SELECTOR: &str = "app.kubernetes.io/name=windows-storage-operator";
/// The most of one container's log, in lines and in bytes.
const LINES: i64 = 50_000;
const BYTES: u64 = 10 * 1024 * 1024;
/// How long one log may take.
const LOG: Duration = Duration::from_secs(120);
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
    let events = resource("", "v1", "Event", "events");
    let mut reading = Others {
        client,
        objects,
        patience,
        problems,
    };
    reading.kind(&conditions, Some(namespace), all).await;
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

/// The logs of the operator's pods, those of containers that ended before as well: how many there were.
pub async fn logs(
    client: &Client,
    (namespace, since): (&str, Option<Timestamp>),
    root: &Path,
    problems: &mut Vec<String>,
) -> Result<u64, FolderError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selected = ListParams::default().labels(SELECTOR);
    let listed = match deadline::call("list the operator's pods", pods.list(&selected)).await {
        Ok(listed) => listed,
        Err(error) => {
            problems.push(format!("logs of the operator: {}", error.answer()));
            return Ok(0);
        }
    };
    if listed.items.is_empty() {
        problems.push(format!(
            "logs of the operator: namespace {namespace} has no pods with the label {SELECTOR}; --namespace names another"
        ));
    }
    let mut count = 0;
    for pod in listed.items {
        let name = pod.metadata.name.clone().unwrap_or_default();
        for (container, restarted) in containers(&pod) {
            for previous in [false, true] {
                if previous && !restarted {
                    continue;
                }
                let parameters = LogParams {
                    container: Some(container.clone()),
                    previous,
                    tail_lines: Some(LINES),
                    // The kubelet knows when each line was written.
                    since_time: since,
                    timestamps: false,
                    ..LogParams::default()
                };
                let read = match tokio::time::timeout(LOG, log(&pods, &name, &parameters)).await {
                    Ok(read) => read,
                    Err(_) => Err(format!("it took longer than {} s", LOG.as_secs())),
                };
                let end = if previous {
                    "previous.log"
                } else {
                    "current.log"
                };
                let path = format!(
                    "operator/{}/{}/{end}",
                    folder::file_name(&name),
                    folder::file_name(&container)
                );
                match read {
                    Ok(content) => {
                        let mut file = folder::create(root, &path)?;
                        file.write_all(&content)
                            .and_then(|()| file.flush())
                            .map_err(folder::not_written(root, &path))?;
                        count += 1;
                    }
                    Err(problem) => problems.push(format!(
                        "{end} of pod {name}, container {container}: {problem}"
                    )),
                }
            }
        }
    }
    Ok(count)
}

/// The containers of a pod, and whether they were started again.
fn containers(pod: &Pod) -> Vec<(String, bool)> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let restarted = |name: &str| {
        let mut statuses = statuses.into_iter().flatten();
        statuses.any(|status| status.name == name && status.restart_count > 0)
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .map(|container| (container.name.clone(), restarted(&container.name)))
        .collect()
}

/// The end of a log.
async fn log(pods: &Api<Pod>, name: &str, parameters: &LogParams) -> Result<Vec<u8>, String> {
    let stream = deadline::call("read the log", pods.log_stream(name, parameters)).await;
    let stream = stream.map_err(|error: CallError| error.answer())?;
    tail(stream, BYTES).await.map_err(|error| error.to_string())
}

/// The last bytes of what comes, from the beginning of a line on.
async fn tail(stream: impl AsyncRead, most: u64) -> std::io::Result<Vec<u8>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut stream = std::pin::pin!(stream);
    let mut kept = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let mut is_cut = false;
    loop {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            break;
        }
        kept.extend_from_slice(&piece[..read]);
        // Twice as much, so that not each piece moves all of it.
        if kept.len() > most.saturating_mul(2) {
            kept.drain(..kept.len() - most);
            is_cut = true;
        }
    }
    if kept.len() > most {
        kept.drain(..kept.len() - most);
        is_cut = true;
    }
    if is_cut && let Some(end) = kept.iter().position(|byte| *byte == b'\n') {
        kept.drain(..=end);
    }
    Ok(kept)
}

/// Where the operator is: where it was said to be, else where its Deployment is, else where it is by default.
#[must_use]
pub fn namespace(cluster: &Cluster, given: Option<&str>) -> (String, &'static str) {
    if let Some(given) = given {
        return (given.to_owned(), "as given");
    }
    let mut found = (cluster.owners.deployments.iter()).filter(|(key, _)| &*key.name == OPERATOR);
    match (found.next(), found.next()) {
        (Some((key, _)), None) => (
            key.namespace.to_string(),
            "where the operator's Deployment is",
        ),
        (Some(_), Some(_)) => (
            OPERATOR.to_owned(),
            "by default, for there are Deployments of that name in more than one",
        ),
        (None, _) => (
            OPERATOR.to_owned(),
            "by default, for no Deployment of the operator was found",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{ObjectKey, Owner};

    #[tokio::test]
    async fn only_the_end_of_a_log_is_kept_and_whole_lines_of_it() {
        let text = "line 1\nline 2\nline 3\n";
        let kept = |most| tail(text.as_bytes(), most);
        assert_eq!(kept(100).await.unwrap(), text.as_bytes());
        assert_eq!(kept(10).await.unwrap(), b"line 3\n");
        let long = "x\n".repeat(1 << 20);
        let kept = tail(long.as_bytes(), 1000).await.unwrap();
        assert!(kept.len() <= 1000 && kept.len() > 990, "{}", kept.len());
    }

    #[test]
    fn the_namespace_is_where_the_operator_is() {
        let mut cluster = Cluster::default();
        assert_eq!(namespace(&cluster, None).0, OPERATOR);
        let mut add = |namespace: &str| {
            let key = ObjectKey::new(namespace, OPERATOR);
            cluster.owners.deployments.apply(key, Owner::default());
            cluster.clone()
        };
        assert_eq!(namespace(&add("storage"), None).0, "storage");
        assert_eq!(namespace(&add("storage"), Some("a")).0, "a");
        assert_eq!(namespace(&add("other"), None).0, OPERATOR);
    }
}
