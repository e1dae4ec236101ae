//! What is judged of a cluster, and what can be asked of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use crate::api::BlockingVolume;
use crate::assess::judgement::needs::Needs;
use crate::assess::partial::Lacking;
use crate::assess::plugins::Plugin;
use crate::assess::redirection::Loss;
use crate::assess::report::Verdict;
use crate::assess::versions::Release;
use crate::assess::volumes::{Resolved, Used};
use crate::index::{Cluster, Name, ObjectKey, Pod, System, WorkloadKey};

/// The volumes that hold upgrades.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockingVolumes {
    /// The number of such volumes.
    pub count: usize,
    /// The first volumes, as the status names them.
    pub first: Vec<BlockingVolume>,
}

/// What is judged of a cluster.
#[derive(Clone, Debug)]
pub struct Report {
    /// The verdict. Incomplete inputs make it `ReadinessUnknown`.
    pub verdict: Verdict,
    /// The volumes that hold upgrades.
    pub blocking: BlockingVolumes,
    /// The Windows nodes.
    pub windows: BTreeSet<Name>,
    /// The cluster's version.
    pub(in crate::assess) today: Option<Release>,
    pub(in crate::assess) target: Option<Release>,
    /// The plugins whose volumes are served in-tree at the target.
    pub(in crate::assess) served: Vec<&'static Plugin>,
    /// When the volumes of each plugin need their driver; empty if the cluster's version is unknown.
    pub(in crate::assess) losses: Vec<(&'static Plugin, Loss)>,
    pub(in crate::assess) without_csi_node: BTreeSet<Name>,
    pub(in crate::assess) workloads: BTreeMap<WorkloadKey, Used>,
    /// What files have nothing of that the workloads use.
    pub(in crate::assess) lacking: Lacking,
    pub(in crate::assess) needs: Needs,
    pub(in crate::assess) csi_proxy_uses: HashMap<Name, CsiProxyUse>,
    /// The pods on each Windows node.
    pub(in crate::assess) pods: HashMap<Name, Vec<ObjectKey>>,
    /// The operating systems that DaemonSets with the node side of a driver ask for.
    pub(in crate::assess) asked: HashMap<ObjectKey, System>,
}

/// A pod or DaemonSet that uses, or may use, csi-proxy's pipes on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiProxyUse {
    /// The user: `DaemonSet namespace/name` or `pod namespace/name`.
    pub user: String,
    /// Whether it mounts the pipes. Otherwise it is a HostProcess container, which can reach them without a mount.
    pub mounts: bool,
}

impl fmt::Display for CsiProxyUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, mounts } = self;
        match mounts {
            true => write!(f, "{user} mounts pipes of csi-proxy"),
            false => write!(
                f,
                "{user} runs a driver in HostProcess containers that is not known to do without csi-proxy"
            ),
        }
    }
}

impl Report {
    /// Returns the number of volumes that hold upgrades, by driver; `None` for those that no CSI driver takes over.
    pub fn blocking_by_driver(&self) -> impl Iterator<Item = (Option<&str>, usize)> + Clone {
        let holding = self.needs.holding();
        holding
            .map(|(driver, need)| (Some(driver.as_str()), need.volumes()))
            .chain([(None, self.needs.abandoned.values().sum())])
    }

    /// The version that findings are about.
    pub(in crate::assess) fn release(&self) -> Option<Release> {
        self.target.or(self.today)
    }

    /// Returns a user of csi-proxy on this Windows node: a DaemonSet that covers the node, else a pod on it. Picks the
    /// first by namespace and name.
    pub fn csi_proxy_use(&self, node: &str) -> Option<&CsiProxyUse> {
        self.csi_proxy_uses.get(node)
    }

    /// Iterates over all volumes and their workloads, in report order.
    pub(in crate::assess) fn rows(&self) -> impl Iterator<Item = (&WorkloadKey, &Resolved)> {
        let workloads = self.workloads.iter();
        workloads.flat_map(|(key, used)| used.rows.iter().map(move |row| (key, row)))
    }

    /// Whether an in-tree volume needs no driver, at the target or today.
    pub(in crate::assess) fn needs_no_driver(&self, row: &Resolved) -> bool {
        match self.target {
            Some(_) => self.is_served(row),
            None => self.is_redirected(row) == Some(false),
        }
    }

    /// Whether the volume's plugin still serves it at the target.
    pub(in crate::assess) fn is_served(&self, row: &Resolved) -> bool {
        row.plugin()
            .is_some_and(|plugin| self.served.contains(&plugin))
    }

    /// Returns when an in-tree volume needs its driver, if the cluster's version is known.
    pub(in crate::assess) fn loss(&self, row: &Resolved) -> Option<Loss> {
        let plugin = row.plugin()?;
        let mut losses = self.losses.iter();
        let (_, loss) = losses.find(|(of, _)| *of == plugin)?;
        Some(*loss)
    }

    /// Whether an in-tree volume's plugin is redirected or gone today, if the cluster's version is known.
    pub(in crate::assess) fn is_redirected(&self, row: &Resolved) -> Option<bool> {
        Some(self.loss(row)? == Loss::Today)
    }

    pub(in crate::assess) fn pods_on<'a>(
        &'a self,
        cluster: &'a Cluster,
        node: &str,
    ) -> Vec<(&'a ObjectKey, &'a Pod)> {
        let keys = self.pods.get(node).into_iter().flatten();
        keys.filter_map(|key| Some((key, cluster.pods.get(key)?)))
            .collect()
    }
}
