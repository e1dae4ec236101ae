//! Why a driver that is needed is not registered, as far as the API shows it.
//!
//! Each cause is a small function from what is known to a finding; a driver may have several.

pub mod csi_proxy;
mod no_pod;
mod of_driver;
mod on_node;

pub use of_driver::{not_for_version, of_driver};
pub use on_node::{stale_entry, why_missing};

use crate::assess::assessment::Assessment;
use crate::assess::drivers;
use crate::index::{
    AnyTable, Cluster, CsiNode, Name, Node, NodeSide, ObjectKey, Owner, Pod, ReadFrom, System,
    WorkloadKind,
};

/// The DaemonSets that name a driver.
#[derive(Clone, Debug, Default)]
pub struct DaemonSets<'a> {
    /// Those for Windows nodes, by name, then namespace.
    pub windows: Vec<DaemonSet<'a>>,
    /// All others.
    pub others: Vec<DaemonSet<'a>>,
}

/// One DaemonSet of a driver.
#[derive(Clone, Copy, Debug)]
pub struct DaemonSet<'a> {
    /// Its key.
    pub key: &'a ObjectKey,
    /// What is known of it.
    pub owner: &'a Owner,
    /// What its template shows.
    pub node_side: &'a NodeSide,
}

impl<'a> DaemonSets<'a> {
    /// The DaemonSets that name that driver.
    #[must_use]
    pub fn of_driver(assessment: &Assessment, cluster: &'a Cluster, driver: &str) -> Self {
        let mut sets = Self::default();
        for (key, owner) in cluster.owners[WorkloadKind::DaemonSet].iter() {
            let node_side = owner.node_side.as_deref();
            let Some(node_side) = node_side.filter(|side| side.names.contains(driver)) else {
                continue;
            };
            let list = match assessment.asked(cluster, &owner.placement) {
                Some(System::Windows) => &mut sets.windows,
                _ => &mut sets.others,
            };
            list.push(DaemonSet {
                key,
                owner,
                node_side,
            });
        }
        let by_name = |set: &DaemonSet<'a>| (set.key.name.clone(), set.key.namespace.clone());
        sets.windows.sort_by_key(by_name);
        sets.others.sort_by_key(by_name);
        sets
    }
}

impl DaemonSet<'_> {
    /// The object of a finding on it.
    fn object(&self) -> String {
        format!("DaemonSet/{}", self.key)
    }

    /// Whether that pod is one of its pods.
    fn has_made(&self, pod: &Pod) -> bool {
        pod.controller.is_some() && pod.controller == self.owner.uid
    }

    /// The command that shows its events.
    fn describe(&self) -> String {
        let ObjectKey { namespace, name } = self.key;
        format!("kubectl describe daemonset -n {namespace} {name}")
    }
}

/// One node, as far as one driver is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Everything.
    pub cluster: &'a Cluster,
    /// The driver.
    pub driver: &'a str,
    /// Its DaemonSets.
    pub sets: &'a DaemonSets<'a>,
    /// The node's name.
    pub name: &'a Name,
    /// The node.
    pub node: &'a Node,
    /// Its CSINode.
    pub csi_node: Option<&'a CsiNode>,
    /// The pods that are bound to it.
    pub pods: &'a [(&'a ObjectKey, &'a Pod)],
}

impl Place<'_> {
    /// Whether files were read that have no DaemonSet at all, so that nothing follows from the lack of one.
    fn has_no_daemon_sets(&self) -> bool {
        self.cluster.read_from == ReadFrom::Files
            && self.cluster.owners[WorkloadKind::DaemonSet].is_empty()
    }
}

/// What to do where nothing brings the driver to Windows nodes.
fn deploy(driver: &str) -> String {
    match drivers::by_name(driver) {
        Some(known) => format!(
            "deploy it (upstream DaemonSet {}, see {})",
            known.daemon_set, known.home
        ),
        None => {
            "ask its vendor for one, or move the data to a driver that has one, such as smb.csi.k8s.io"
                .to_owned()
        }
    }
}

/// Whether files that were read have no pod of that namespace, so that nothing follows from the lack of one.
fn lacks_pods_of(cluster: &Cluster, namespace: &Name) -> bool {
    let first = ObjectKey::new(namespace.clone(), "");
    let next = cluster.pods.from(&first).next();
    cluster.read_from == ReadFrom::Files && next.is_none_or(|(key, _)| key.namespace != *namespace)
}
