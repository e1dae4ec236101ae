//! What each Windows node shall look like and how to get there, from the index alone.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};
use protocol::{DesiredFile, Request, ServicePipes};

use crate::api::{
    ForeignService, HostKeys, Management, WindowsNodeStorageStatus, WindowsStorageSpec,
};
use crate::assess::causes::csi_proxy::OLDEST_SAFE;
use crate::assess::versions;
use crate::index::{Cluster, Node};
use crate::node::{
    Desired, HOST_KEYS_CONFIG_MAP, HostKey, HostKeyPolicy, INSTANCES_CONFIG_MAP, Instances,
    KNOWN_HOSTS, KnownHosts, MANAGED, ManagedBy, Managers, NodeError, PrivateKey, RELEASING,
    Reason, SSH_SECRET, check_private_key, parse_instances,
};
use crate::payload::{Payload, sha256_hex};
use crate::services::{CSI_PROXY_PIPES, Document, ServicesError, ServicesPlan};

/// Seconds that a service's process may take to end.
const STOP_TIMEOUT_SECONDS: u32 = 30;
/// Seconds from a service's start to its pipes.
const START_TIMEOUT_SECONDS: u32 = 60;

/// What to do with one Windows node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodePlan {
    /// Another owner manages csi-proxy there: who, and what shows it.
    External(String),
    /// The same, and this operator's agent may be there: connect, remove it, and leave csi-proxy as it is; or why that cannot
    /// be done.
    Release(String, Result<Arc<Target>, NodeError>),
    /// Another owner may be setting it up; before that moment, or before the node is Ready and untainted, nobody knows.
    Undecided(Option<Timestamp>),
    /// Something that the work rests on is being written at this moment.
    Waiting,
    /// It cannot be gone to.
    Blocked(NodeError),
    /// Connect, and bring it to what is desired.
    Reconcile(Arc<Target>),
}

impl NodePlan {
    /// Whether this operator looks after csi-proxy there.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        !matches!(
            self,
            Self::External(_) | Self::Release(..) | Self::Undecided(_)
        )
    }
}

/// A node to go to.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The Node's name.
    pub node: String,
    /// The Node's uid: another one is another host, whatever its name.
    pub uid: String,
    /// The host's boot: after another one everything there has started again, which is worth a check at once.
    pub boot_id: String,
    /// Where its SSH server is.
    pub address: String,
    /// The server's port.
    pub port: u16,
    /// Who logs in.
    pub user: String,
    /// The key to log in with.
    pub key: PrivateKey,
    /// What is known of its host keys.
    pub host_keys: HostKeyPolicy,
    /// Whether the administrator has said that this operator looks after it, whatever is found there.
    pub is_given: bool,
    /// The agent is to be removed, and nothing else to be done there.
    pub is_released: bool,
    /// Whether its status has csi-proxy: then an agent has answered there before.
    pub agent_seen: bool,
    /// What it shall look like; where that is not known it is only observed.
    pub desired: Result<Desired, NodeError>,
}

/// Plans nodes, from what is the same for all of them.
pub struct Planner<'a> {
    cluster: &'a Cluster,
    spec: &'a WindowsStorageSpec,
    instances: Instances,
    key: Result<PrivateKey, NodeError>,
    known_hosts: KnownHosts,
    /// The nodes with a pin, by their addresses.
    pinned: HashMap<String, &'a str>,
    /// What nodes shall look like; `None` while the services entry is being written.
    desired: Option<Result<Desired, NodeError>>,
    managers: Managers<'a>,
}

impl<'a> Planner<'a> {
    /// A planner for nodes of that cluster.
    #[must_use]
    pub fn new(
        cluster: &'a Cluster,
        spec: &'a WindowsStorageSpec,
        payload: &Payload,
        services: &Result<ServicesPlan, ServicesError>,
        now: Timestamp,
    ) -> Self {
        let desired = match services {
            Ok(ServicesPlan::Keep(document)) => {
                Some(check_version(payload, spec).map(|()| desired(payload, spec, document)))
            }
            Ok(ServicesPlan::Create(_) | ServicesPlan::Update { .. }) => None,
            Err(error) => Some(Err(Reason::InvalidServices.error(error.to_string()))),
        };
        Self::with(cluster, spec, desired, now)
    }

    /// A planner for work that only reads.
    #[must_use]
    pub fn read_only(cluster: &'a Cluster, spec: &'a WindowsStorageSpec, now: Timestamp) -> Self {
        Self::with(cluster, spec, Some(Err(nothing_desired())), now)
    }

    fn with(
        cluster: &'a Cluster,
        spec: &'a WindowsStorageSpec,
        desired: Option<Result<Desired, NodeError>>,
        now: Timestamp,
    ) -> Self {
        Self {
            managers: Managers::new(cluster, spec.csi_proxy.management, now),
            cluster,
            spec,
            instances: instances(cluster),
            known_hosts: known_hosts(cluster),
            pinned: pinned(cluster),
            key: check_private_key(cluster.secrets.get(SSH_SECRET), &cluster.namespace),
            desired,
        }
    }

    /// Whether some Windows node is another owner's.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.managers.has_others()
    }

    /// The plan for that node.
    #[must_use]
    pub fn plan(&self, name: &str, node: &Node) -> NodePlan {
        match self.managers.of(name, node) {
            ManagedBy::External(who) => return self.external(who, name, node),
            ManagedBy::Undecided(until) => return NodePlan::Undecided(until),
            ManagedBy::Operator => {}
        }
        let target = self.target(name, node);
        match (target, self.desired.clone()) {
            (Err(error), _) => NodePlan::Blocked(error),
            (Ok(_), None) => NodePlan::Waiting,
            (Ok(target), Some(desired)) => NodePlan::Reconcile(Arc::new(Target {
                desired: desired.map(|desired| self.with_history(name, desired)),
                ..target
            })),
        }
    }

    /// What was this operator's is given up, once.
    fn external(&self, who: String, name: &str, node: &Node) -> NodePlan {
        let status = self.cluster.node_statuses.get(name);
        let has_no_agent = |status: &WindowsNodeStorageStatus| {
            !matches!(&*status.management, MANAGED | RELEASING) && status.csi_proxy.is_none()
        };
        if status.is_none_or(has_no_agent) {
            return NodePlan::External(who);
        }
        let target = self.target(name, node).map(|target| {
            Arc::new(Target {
                is_released: true,
                ..target
            })
        });
        NodePlan::Release(who, target)
    }

    /// The way to a node, with nothing desired of it.
    fn target(&self, name: &str, node: &Node) -> Result<Target, NodeError> {
        let (address, user) = self.reach(node)?;
        let key = self.key.clone()?;
        let status = self.cluster.node_statuses.get(name);
        Ok(Target {
            node: name.to_owned(),
            uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            host_keys: self.host_keys(name, node, &address),
            address,
            port: self.spec.ssh.port,
            user,
            key,
            is_given: node.given || self.spec.csi_proxy.management == Management::Managed,
            agent_seen: status.is_some_and(|status| status.csi_proxy.is_some()),
            is_released: false,
            desired: Err(nothing_desired()),
        })
    }

    /// What is desired, with what has become of it on this node before.
    fn with_history(&self, name: &str, desired: Desired) -> Desired {
        let status = self.cluster.node_statuses.get(name);
        let failed = status
            .and_then(|status| status.failed_update.as_ref())
            .filter(|failed| failed.revision == desired.revision);
        let refused = failed
            .filter(|failed| failed.resume == desired.attempt)
            .map(|failed| failed.message.clone());
        Desired {
            retry: failed.is_some() && refused.is_none(),
            refused,
            ..desired
        }
    }

    /// The address and the user: those of a line in `windows-instances` that names one of the node's addresses, else the
    /// most internal address and the default user.
    pub(super) fn reach(&self, node: &Node) -> Result<(String, String), NodeError> {
        const PREFERRED: [&str; 5] = [
            "InternalIP",
            "InternalDNS",
            "ExternalIP",
            "ExternalDNS",
            "Hostname",
        ];
        let of = |kind| (node.addresses.iter()).filter(move |address| address.type_ == kind);
        let addresses: Vec<&str> = (PREFERRED.into_iter().flat_map(of))
            .map(|address| address.address.as_str())
            .filter(|address| !address.is_empty())
            .collect();
        for &address in &addresses {
            match self.instances.get(address) {
                Some(Ok(user)) => return Ok((address.to_owned(), user.clone())),
                Some(Err(problem)) => return Err(Reason::InvalidInstance.error(problem)),
                None => {}
            }
        }
        let address = addresses.first().ok_or_else(|| {
            Reason::NoAddress.error(
                "the Node object has no address in status.addresses; check the kubelet and the cloud provider of this node",
            )
        })?;
        Ok(((*address).to_owned(), self.spec.ssh.user.clone()))
    }

    /// What is known of a node's host keys.
    pub(super) fn host_keys(&self, name: &str, node: &Node, address: &str) -> HostKeyPolicy {
        let (kind, key) = (&node.wmco_host_key_type, &node.wmco_host_key);
        let pin = pins(self.cluster).and_then(|pins| pins.get(name));
        let other = self.pinned.get(&one_spelling(address));
        let other = other.filter(|other| **other != name);
        HostKeyPolicy {
            pin: pin.map(|text| HostKey::parse(text)),
            known: self.known_hosts.look_up(address, self.spec.ssh.port),
            announced: HostKey::announced(kind.as_deref(), key.as_deref()),
            trust_on_first_use: self.spec.ssh.host_keys == HostKeys::TrustOnFirstUse,
            address_of: other.map(|other| (*other).to_owned()),
        }
    }
}

fn nothing_desired() -> NodeError {
    Reason::InvalidServices.error("nothing is to be changed")
}

/// The nodes with a pin, by their addresses.
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

/// An address as all of its spellings have it: of IPv6 there are many, and IPv4 can be written as IPv6.
fn one_spelling(address: &str) -> String {
    match address.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().to_string(),
        Err(_) => address.trim_end_matches('.').to_ascii_lowercase(),
    }
}

/// What the ConfigMap of host keys holds: pins by node, and the administrator's lines.
fn pins(cluster: &Cluster) -> Option<&BTreeMap<String, String>> {
    let map = cluster.config_maps.get(HOST_KEYS_CONFIG_MAP);
    map.map(|map| &map.data)
}

/// The administrator's lines of known hosts.
#[must_use]
pub fn known_hosts(cluster: &Cluster) -> KnownHosts {
    let lines = pins(cluster).and_then(|pins| pins.get(KNOWN_HOSTS));
    lines.map_or_else(KnownHosts::default, |lines| KnownHosts::parse(lines))
}

/// The users of `windows-instances`.
#[must_use]
pub fn instances(cluster: &Cluster) -> Instances {
    let map = cluster.config_maps.get(INSTANCES_CONFIG_MAP);
    map.map_or_else(Instances::new, |map| parse_instances(&map.data))
}

fn check_version(payload: &Payload, spec: &WindowsStorageSpec) -> Result<(), NodeError> {
    let version = &payload.csi_proxy.version;
    let problem = match versions::parse(version) {
        _ if spec.csi_proxy.allow_vulnerable => return Ok(()),
        Some(number) if number >= OLDEST_SAFE => return Ok(()),
        Some(_) => "lets a pod run commands on its node (CVE-2023-3893)",
        None => "has a version that says nothing about its age",
    };
    Err(Reason::VulnerableVersion.error(format!(
        "csi-proxy {version} of the payload {problem}, so it is not brought to any node; take an operator with csi-proxy {OLDEST_SAFE} or \
         later, or accept the risk by spec.csiProxy.allowVulnerable of WindowsStorage"
    )))
}

pub(super) fn desired(
    payload: &Payload,
    spec: &WindowsStorageSpec,
    document: &Document,
) -> Desired {
    let mut request = Request {
        id: String::new(),
        files: vec![DesiredFile {
            path: CSI_PROXY_EXE.to_owned(),
            sha256: payload.csi_proxy.sha256.clone(),
            upload: None,
            packed: None,
        }],
        services: document.services.clone(),
        environment: document.environment.clone(),
        replace_foreign: spec.csi_proxy.foreign_service == ForeignService::Replace,
        pipes: vec![ServicePipes {
            service: CSI_PROXY_SERVICE.to_owned(),
            pipes: CSI_PROXY_PIPES.map(str::to_owned).to_vec(),
        }],
        stop_timeout_seconds: STOP_TIMEOUT_SECONDS,
        start_timeout_seconds: START_TIMEOUT_SECONDS,
    };
    name_by_content(&mut request);
    let agent_sha256 = payload.agent.sha256.clone();
    Desired {
        revision: sha256_hex(format!("{agent_sha256} {}", request.id).as_bytes()),
        agent_sha256,
        request,
        attempt: spec.rollout.resume.clone(),
        refused: None,
        retry: false,
    }
}

/// Names a request by its content.
pub(super) fn name_by_content(request: &mut Request) {
    request.id.clear();
    // Plain data always serializes; an empty text would only make every such request look the same.
    let text = serde_json::to_string(request).unwrap_or_default();
    request.id = sha256_hex(text.as_bytes());
}

#[cfg(test)]
mod tests;
