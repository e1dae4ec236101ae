//! The kinds of objects that are read, with their API path and their table.

use std::fmt::{self, Debug, Write};
use std::sync::LazyLock;

use k8s_openapi::api::{apps::v1 as apps, batch::v1 as batch, core::v1 as core};
use k8s_openapi::api::{node::v1 as runtime, storage::v1 as storage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ApiResource;
use serde::de::DeserializeOwned;

use crate::api::{GROUP, WindowsNodeStorage, WindowsStorage};
use crate::index::{AnyTable, Cluster, Key, WorkloadKind};
use crate::objects::received::Received;
use crate::objects::{
    FieldError, decode_text, node, own, placement, pod, storage as stored, workloads,
};

/// The group of the `apps` kinds before Kubernetes 1.16, still found in old dumps.
const OLD_APPS_GROUP: &str = "extensions";

/// Which objects of a kind are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All objects in the cluster.
    Cluster,
    /// Objects with this name, in any namespace.
    Named(&'static str),
    /// Objects in the operator's own namespace.
    OwnNamespace,
}

/// How many bytes of an object a row may keep, as its `Debug` shows it. Tenants decide about the number of volumes, the
/// length of selectors and more, up to a megabyte in each object; no workload needs a tenth of this.
const MOST_KEPT: usize = 64 << 10;
/// What counts for each quote around a text: a text takes memory beside its letters.
const QUOTE: usize = 16;

/// Decodes an object and stores its row, which takes so many bytes at most. Returns whether the table changed.
type Put = fn(&mut Cluster, &ObjectMeta, &str, usize) -> Result<bool, FieldError>;

/// A kind of object. A value instead of a type parameter, so that shared code is compiled once, not once per kind.
pub struct Kind {
    /// The API resource.
    pub resource: ApiResource,
    /// Which objects are used.
    pub scope: Scope,
    /// Whether the verdict depends on this kind.
    pub decides: bool,
    pub(super) put: Put,
    table: fn(&Cluster) -> &dyn AnyTable,
    table_mut: fn(&mut Cluster) -> &mut dyn AnyTable,
}

impl Kind {
    /// The kind's name.
    pub fn name(&self) -> &str {
        &self.resource.kind
    }

    /// Whether this is a custom resource of this operator.
    pub fn is_own(&self) -> bool {
        self.resource.group == GROUP
    }

    /// Returns the kind's table.
    pub fn table<'a>(&self, cluster: &'a Cluster) -> &'a dyn AnyTable {
        (self.table)(cluster)
    }

    /// Returns the kind's table for changes.
    pub fn table_mut<'a>(&self, cluster: &'a mut Cluster) -> &'a mut dyn AnyTable {
        (self.table_mut)(cluster)
    }

    /// Decodes an object from the API server and stores its row. Returns whether the table changed.
    pub fn absorb(&self, cluster: &mut Cluster, object: &Received) -> bool {
        let meta = object.meta();
        let is_tenants = !self.is_own() && self.scope != Scope::OwnNamespace;
        let most = if is_tenants { MOST_KEPT } else { usize::MAX };
        let put = (self.put)(cluster, meta, object.text(), most);
        put.unwrap_or_else(|error| {
            // The content is unknown, so it must not lead to a positive verdict.
            let table = self.table_mut(cluster);
            let problem = format!(
                "{} {} cannot be read: {error}",
                self.name(),
                table.key(meta)
            );
            tracing::warn!("{problem}");
            table.reject(meta, problem)
        })
    }
}

/// Returns the group of an apiVersion; empty for `v1`.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns the kind with this name among those read from the whole cluster.
pub fn kind(api_version: &str, name: &str) -> Option<&'static Kind> {
    let group = group(api_version);
    cluster_kinds().find(|kind| {
        let is_old = kind.resource.group == "apps" && group == OLD_APPS_GROUP;
        (group == kind.resource.group || is_old) && name == kind.name()
    })
}

/// Returns the kind `ConfigMap` as read from the operator's namespace.
pub fn own_config_maps() -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.scope == Scope::OwnNamespace)
}

/// Returns the kinds that the verdict depends on or that help to explain it.
pub fn cluster_kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS
        .iter()
        .filter(|kind| kind.scope != Scope::OwnNamespace)
}

/// Builds a [`Kind`] from a resource, its table, a function from object to row and, optionally, a store function.
macro_rules! kind {
    ($resource:ty, $table:ident $([$owner:ident])?, $row:expr) => {
        kind!($resource, $table $([$owner])?, $row, |cluster: &mut Cluster, key, row| {
            cluster.$table$([WorkloadKind::$owner])?.apply(key, row)
        })
    };
    ($resource:ty, $table:ident $([$owner:ident])?, $row:expr, $store:expr) => {
        Kind {
            resource: ApiResource::erase::<$resource>(&()),
            scope: Scope::Cluster,
            decides: true,
            put: |cluster, meta, text, most| {
                let key = Key::of(meta);
                Ok(match row(text, most, $row)? {
                    Some(row) => ($store)(cluster, key, row),
                    None => cluster.$table$([WorkloadKind::$owner])?.delete(&key),
                })
            },
            table: |cluster| &cluster.$table$([WorkloadKind::$owner])?,
            table_mut: |cluster| &mut cluster.$table$([WorkloadKind::$owner])?,
        }
    };
}

/// All kinds.
pub static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let beside = |kind: Kind, scope: Scope| Kind {
        scope,
        decides: false,
        ..kind
    };
    let switches = kind!(core::ConfigMap, feature_switches, own::config_map);
    let node_statuses = kind!(WindowsNodeStorage, node_statuses, own::node_status);
    let config_maps = kind!(core::ConfigMap, config_maps, own::config_map);
    vec![
        kind!(storage::CSINode, csi_nodes, node::csi_node),
        kind!(storage::CSIDriver, csi_drivers, node::csi_driver),
        kind!(core::Pod, pods, pod::row, pod::store),
        // After the pods, so that a pod's node is known even if it joined in between.
        kind!(core::Node, nodes, node::row),
        kind!(batch::CronJob, owners[CronJob], workloads::owner),
        kind!(apps::DaemonSet, owners[DaemonSet], workloads::daemon_set),
        kind!(apps::Deployment, owners[Deployment], workloads::owner),
        kind!(batch::Job, owners[Job], workloads::job),
        kind!(apps::ReplicaSet, owners[ReplicaSet], workloads::revision),
        kind!(
            core::ReplicationController,
            owners[ReplicationController],
            workloads::revision
        ),
        kind!(apps::StatefulSet, owners[StatefulSet], workloads::owner),
        kind!(core::PersistentVolumeClaim, claims, stored::claim),
        kind!(core::PersistentVolume, volumes, stored::volume),
        kind!(storage::StorageClass, classes, stored::class),
        kind!(core::Namespace, namespaces, placement::namespace),
        kind!(runtime::RuntimeClass, runtime_classes, node::runtime_class),
        beside(switches, Scope::Named(own::FEATURE_SWITCHES)),
        kind!(WindowsStorage, settings, own::settings),
        beside(node_statuses, Scope::Cluster),
        beside(config_maps, Scope::OwnNamespace),
    ]
});

/// Decodes an object and makes its row, which takes so many bytes at most.
fn row<O: DeserializeOwned, V: Debug, R: Into<Option<V>>>(
    text: &str,
    most: usize,
    row: fn(O) -> R,
) -> Result<Option<V>, FieldError> {
    let row = row(decode_text(text)?).into();
    // A short text leaves a small row, even if each of its letters counted for a quote.
    if text.len() > most / QUOTE && write!(Room(most), "{row:?}").is_err() {
        return Err(FieldError {
            field: "of the object".to_owned(),
            what: format!("what is used of it takes more than {} KiB", most >> 10),
        });
    }
    Ok(row)
}

/// Takes so many bytes of text, and no more.
struct Room(usize);

impl Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let size = if text == "\"" { QUOTE } else { text.len() };
        self.0 = self.0.checked_sub(size).ok_or(fmt::Error)?;
        Ok(())
    }
}
