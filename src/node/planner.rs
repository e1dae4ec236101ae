//! Derives the plan for each Windows node from the index.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::api::{HostKeys, Install, Management, NodePool, WindowsStorageSpec};
use crate::index::{Cluster, Node};
use crate::node::desired::{check_version, desired};
use crate::node::payload::Payload;
use crate::node::removal::removal;
use crate::node::{
    Absence, Awaited, Desired, HOST_KEYS_CONFIG_MAP, Hold, HostKey, HostKeyPolicy, KNOWN_HOSTS,
    KnownHosts, ManagedBy, Managers, NOT_NEEDED, NodeError, Present, PrivateKey, REMOVED, Reason,
    Removal, check_private_key, found_owner, may_have_agent,
};
use crate::services::{ServicesError, ServicesPlan, csi_proxy_flags};

/// What to do with one Windows node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodePlan {
    /// Another owner manages csi-proxy on the node: who, and the signal that shows it.
    External(String),
    /// The same, but this operator's agent may be there: connect, remove the agent, and leave csi-proxy as it is; or
    /// why that is impossible.
    Release(String, Result<Arc<Target>, NodeError>),
    /// Nothing is installed yet, and nothing is to be installed until this.
    Undecided(Awaited),
    /// csi-proxy and the agent are to be removed, but that waits. Until then, they stay as they are.
    RemovalWaits(Hold),
    /// Connect, and remove csi-proxy and the agent; or why that is impossible.
    Remove(Absence, Result<Arc<Target>, NodeError>),
    /// Neither is installed, and neither is to be installed.
    Absent(Absence),
    /// Wait: an object that the work depends on is being written.
    Waiting,
    /// Connect, and bring the node to its desired state; or why that is impossible.
    Reconcile(Result<Arc<Target>, NodeError>),
}

impl NodePlan {
    /// Returns what to connect to, or why that is impossible, if the plan is to connect.
    pub fn target(&self) -> Option<Result<&Arc<Target>, &NodeError>> {
        match self {
            Self::Reconcile(target) | Self::Release(_, target) | Self::Remove(_, target) => {
                Some(target.as_ref())
            }
            _ => None,
        }
    }

    /// Returns whether this operator manages csi-proxy on the node.
    pub fn is_managed(&self) -> bool {
        !matches!(
            self,
            Self::External(_) | Self::Release(..) | Self::Undecided(_) | Self::Absent(_)
        )
    }

    /// Returns whether the node takes part in the rollout: it is managed, or is to be released in a slot.
    pub fn takes_part(&self) -> bool {
        self.is_managed() || matches!(self, Self::Release(..))
    }

    /// Returns whether something of this operator is to be taken off the node, which needs a rollout slot.
    pub fn takes_away(&self) -> bool {
        matches!(self, Self::Release(..)) || self.removes_csi_proxy()
    }

    /// Returns whether csi-proxy is to be removed from the node.
    pub fn removes_csi_proxy(&self) -> bool {
        matches!(self, Self::Remove(..))
    }
}

/// Why the operator connects to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To bring it to its desired state.
    #[default]
    Reconcile,
    /// To remove the agent, and leave csi-proxy as it is.
    Release,
    /// To remove both.
    Remove,
}

/// A node to connect to.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The Node's name.
    pub node: String,
    /// The Node's UID: another UID is another host, even with the same name.
    pub uid: String,
    /// The host's boot ID. After a reboot, everything on the host has restarted, so it is checked at once.
    pub boot_id: String,
    /// Address of its SSH server.
    pub address: String,
    /// Port of its SSH server.
    pub port: u16,
    /// The user that logs in.
    pub user: String,
    /// The key to log in with.
    pub key: PrivateKey,
    /// What is known about its host keys.
    pub host_keys: HostKeyPolicy,
    /// Whether the administrator has said that this operator manages the node, whatever is found there.
    pub is_given: bool,
    /// Whether an agent has answered there before, so that what cannot be read there now shows no other owner. Nothing on
    /// the host is run because of it.
    pub is_ours: bool,
    /// Why the operator connects to it.
    pub purpose: Purpose,
    /// The desired state; if that is unknown, the node is only observed.
    pub desired: Result<Arc<Desired>, NodeError>,
}

/// Settings and SSH key for the nodes of one pool, or for nodes without a pool.
struct Wanted<'a> {
    spec: Cow<'a, WindowsStorageSpec>,
    key: Result<PrivateKey, NodeError>,
    /// Whether the payload's csi-proxy may be installed there.
    version: Result<(), NodeError>,
}

/// Plans nodes, from what all of them have in common.
pub struct Planner<'a> {
    cluster: &'a Cluster,
    spec: &'a WindowsStorageSpec,
    /// Settings and key for nodes without a pool, followed by those of each pool.
    pools: Vec<Wanted<'a>>,
    known_hosts: KnownHosts,
    /// The nodes with a pin, by their addresses.
    pinned: HashMap<String, &'a str>,
    /// The desired state of nodes; `None` while the services entry is being written.
    desired: Option<Result<Arc<Desired>, NodeError>>,
    managers: Managers<'a>,
    /// Absent if nothing is to be changed.
    present: Option<Present<'a>>,
}

impl<'a> Planner<'a> {
    /// Creates a planner for work that only reads, from what objects say.
    pub fn read_only(cluster: &'a Cluster, spec: &'a WindowsStorageSpec, now: Timestamp) -> Self {
        Self {
            managers: Managers::new(cluster, now),
            cluster,
            spec,
            known_hosts: known_hosts(cluster),
            pinned: pinned(cluster),
            pools: wanted(cluster, spec),
            desired: Some(Err(nothing_desired())),
            present: None,
        }
    }

    /// Creates a planner that plans as the operator does now, but brings nothing.
    pub fn as_of(cluster: &'a Cluster, spec: &'a WindowsStorageSpec, present: Present<'a>) -> Self {
        Self {
            present: Some(present),
            ..Self::read_only(cluster, spec, present.now)
        }
    }

    /// Has nodes brought to the state that these programs and this services entry make.
    pub fn bringing(
        mut self,
        payload: &Payload,
        services: &Result<ServicesPlan, ServicesError>,
    ) -> Self {
        for pool in &mut self.pools {
            pool.version = check_version(payload, &pool.spec);
        }
        let flags = match services {
            Ok(ServicesPlan::Keep { .. }) => csi_proxy_flags(&self.spec.csi_proxy.extra_args),
            Ok(_) => {
                self.desired = None;
                return self;
            }
            Err(error) => Err(error.clone()),
        };
        let invalid = |error: ServicesError| Reason::InvalidServices.error(error.to_string());
        let desired = flags.map(|flags| Arc::new(desired(payload, self.spec, flags)));
        self.desired = Some(desired.map_err(invalid));
        self
    }

    /// Returns the plan for a node.
    pub fn plan(&self, name: &str, node: &Node) -> NodePlan {
        let wanted = self.wanted(node);
        match self
            .managers
            .of(name, node, wanted.spec.csi_proxy.management)
        {
            ManagedBy::External(who) => return self.external(who, name, node),
            ManagedBy::Undecided(awaited) => return NodePlan::Undecided(awaited),
            ManagedBy::Operator => {}
        }
        match self.removal(name, &wanted.spec) {
            Removal::Waits(hold) => return NodePlan::RemovalWaits(hold),
            Removal::Done(absence) => {
                let status = self.cluster.node_statuses.get(name);
                // The owner that the last check on the node found.
                let owner = found_owner(None, status).map(str::to_owned);
                return owner.map_or(NodePlan::Absent(absence), NodePlan::External);
            }
            Removal::Due(absence) => {
                let target = self.target(name, node, Purpose::Remove, Err(nothing_desired()));
                return NodePlan::Remove(absence, target);
            }
            Removal::Stay(_) => {}
        }
        let desired = self
            .desired
            .clone()
            .unwrap_or_else(|| Err(nothing_desired()));
        let desired = desired.and_then(|desired| wanted.version.clone().map(|()| desired));
        match self.target(name, node, Purpose::Reconcile, desired) {
            Ok(_) if self.desired.is_none() => NodePlan::Waiting,
            target => NodePlan::Reconcile(target),
        }
    }

    /// Returns what alone prevents the removal of csi-proxy from a node with that plan, if anything.
    pub fn hold(&self, name: &str, node: &Node, plan: &NodePlan) -> Option<Hold> {
        match plan {
            NodePlan::RemovalWaits(hold) => Some(hold.clone()),
            NodePlan::Reconcile(Ok(_)) => match self.removal(name, &self.wanted(node).spec) {
                Removal::Stay(hold) => hold,
                _ => None,
            },
            _ => None,
        }
    }

    /// Decides what to do with csi-proxy and the agent on a managed node.
    fn removal(&self, name: &str, spec: &WindowsStorageSpec) -> Removal {
        let csi_proxy = &spec.csi_proxy;
        let is_removed = csi_proxy.management == Management::Removed;
        if !is_removed && csi_proxy.install == Install::Always {
            return Removal::Stay(None);
        }
        let status = self.cluster.node_statuses.get(name);
        let Some(present) = &self.present else {
            return match status.map(|status| status.management.as_str()) {
                Some(REMOVED) => Removal::Done(Absence::Removed),
                Some(NOT_NEEDED) => Removal::Done(Absence::NotNeeded),
                _ => Removal::Stay(None),
            };
        };
        let is_pinned = is_pinned(self.cluster, name);
        removal(spec, status, is_pinned, present.hold(name))
    }

    /// Plans an external node. If it was managed before, it is released once.
    fn external(&self, who: String, name: &str, node: &Node) -> NodePlan {
        let status = self.cluster.node_statuses.get(name);
        if !status.is_some_and(|status| may_have_agent(status, is_pinned(self.cluster, name))) {
            return NodePlan::External(who);
        }
        let target = self.target(name, node, Purpose::Release, Err(nothing_desired()));
        NodePlan::Release(who, target)
    }

    fn target(
        &self,
        name: &str,
        node: &Node,
        purpose: Purpose,
        desired: Result<Arc<Desired>, NodeError>,
    ) -> Result<Arc<Target>, NodeError> {
        let address = Self::address(node)?;
        let Wanted { spec, key, .. } = self.wanted(node);
        let key = key.clone()?;
        let status = self.cluster.node_statuses.get(name);
        Ok(Arc::new(Target {
            node: name.to_owned(),
            uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            host_keys: self.host_keys(name, node, &address),
            address,
            port: spec.ssh.port,
            user: spec.ssh.user.clone(),
            key,
            is_given: node.given || spec.csi_proxy.management == Management::Managed,
            is_ours: status.is_some_and(|status| status.csi_proxy.is_some()),
            purpose,
            desired,
        }))
    }

    /// Returns the settings and key for a node.
    fn wanted(&self, node: &Node) -> &Wanted<'a> {
        let mut pools = self.spec.node_pools.iter();
        let pool = pools.position(|pool| pool.fits(&node.labels));
        &self.pools[pool.map_or(0, |pool| pool + 1)]
    }

    /// Returns the port of a node's SSH server.
    pub(super) fn port(&self, node: &Node) -> u16 {
        self.wanted(node).spec.ssh.port
    }

    /// Returns the node's most internal address.
    pub(super) fn address(node: &Node) -> Result<String, NodeError> {
        const PREFERRED: [&str; 5] = [
            "InternalIP",
            "InternalDNS",
            "ExternalIP",
            "ExternalDNS",
            "Hostname",
        ];
        let of = |kind| (node.addresses.iter()).filter(move |address| address.type_ == kind);
        let mut addresses = PREFERRED.into_iter().flat_map(of);
        let first = addresses.find(|address| !address.address.is_empty());
        first.map(|first| first.address.clone()).ok_or_else(|| {
            Reason::NoAddress.error(
                "the Node object has no address in status.addresses; check the kubelet and the cloud provider of this node",
            )
        })
    }

    /// Returns what is known about a node's host keys.
    pub(super) fn host_keys(&self, name: &str, node: &Node, address: &str) -> HostKeyPolicy {
        let (kind, key) = (&node.wmco_host_key_type, &node.wmco_host_key);
        let pin = pins(self.cluster).and_then(|pins| pins.get(name));
        let other = self.pinned.get(&one_spelling(address));
        let known = self.known_hosts.look_up(address, self.port(node));
        // It matters only at first contact. Later, a Node that takes this address changes nothing here.
        let is_first = pin.is_none() && known.keys.is_empty();
        let other = other.filter(|other| is_first && **other != name);
        HostKeyPolicy {
            pin: pin.map(|text| HostKey::parse(text)),
            known,
            announced: HostKey::announced(kind.as_deref(), key.as_deref()),
            trust_on_first_use: self.spec.ssh.host_keys == HostKeys::TrustOnFirstUse,
            address_of: other.map(|other| (*other).to_owned()),
        }
    }
}

/// Returns settings and key for nodes without a pool, followed by those of each pool.
fn wanted<'a>(cluster: &Cluster, spec: &'a WindowsStorageSpec) -> Vec<Wanted<'a>> {
    // Each key is read only once: decrypting one with a passphrase takes time.
    let mut keys = BTreeMap::new();
    let pools = std::iter::once(None).chain(spec.node_pools.iter().map(Some));
    let wanted = |pool: Option<&NodePool>| Wanted {
        spec: spec.for_pool(pool),
        key: {
            let wanted = spec.private_key(pool);
            let secret = cluster.secrets.get(&wanted.name);
            let read = || check_private_key(secret, &cluster.namespace, wanted);
            keys.entry(wanted.clone()).or_insert_with(read).clone()
        },
        version: Ok(()),
    };
    pools.map(wanted).collect()
}

fn nothing_desired() -> NodeError {
    Reason::InvalidServices.error("nothing is to be changed")
}

/// Returns the nodes with a pin, by their addresses.
fn pinned(cluster: &Cluster) -> HashMap<String, &str> {
    let names = pins(cluster).into_iter().flat_map(BTreeMap::keys);
    let nodes = names.filter_map(|name| Some((name, cluster.nodes.get(name.as_str())?)));
    nodes
        .flat_map(|(name, node)| {
            let addresses = node.addresses.iter();
            addresses.map(|address| (one_spelling(&address.address), name.as_str()))
        })
        .collect()
}

/// Normalizes an address: IPv6 has many spellings, and IPv4 can be written as IPv6.
fn one_spelling(address: &str) -> String {
    match address.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().to_string(),
        Err(_) => address.trim_end_matches('.').to_ascii_lowercase(),
    }
}

/// Returns the data of the host keys ConfigMap: pins by node name, and the administrator's `known_hosts` lines.
fn pins(cluster: &Cluster) -> Option<&BTreeMap<String, String>> {
    let map = cluster.config_maps.get(HOST_KEYS_CONFIG_MAP);
    map.map(|map| &map.data)
}

/// Returns whether the node has a pinned host key.
pub(super) fn is_pinned(cluster: &Cluster, name: &str) -> bool {
    pins(cluster).is_some_and(|pins| pins.contains_key(name))
}

/// Parses the administrator's `known_hosts` lines.
pub fn known_hosts(cluster: &Cluster) -> KnownHosts {
    let lines = pins(cluster).and_then(|pins| pins.get(KNOWN_HOSTS));
    lines.map_or_else(KnownHosts::default, |lines| KnownHosts::parse(lines))
}

#[cfg(test)]
mod tests;
