//! What each Windows node shall look like and how to get there, from the index alone.

use std::collections::BTreeMap;

use windows_storage_agent::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};
use windows_storage_agent::protocol::{DesiredFile, Request, ServicePipes};

use crate::api::{Management, WindowsStorageSpec};
use crate::index::{Cluster, Node};
use crate::node::{
    HOST_KEYS_CONFIG_MAP, HostKey, INSTANCES_CONFIG_MAP, Instances, NodeError, PrivateKey, Reason,
    SSH_SECRET, check_private_key, parse_instances,
};
use crate::payload::{Payload, sha256_hex};
use crate::services::{CSI_PROXY_PIPES, Document, ServicesError, Step};

/// Seconds that a service's process may take to end.
const STOP_TIMEOUT_SECONDS: u32 = 30;
/// Seconds from a service's start to its pipes.
const START_TIMEOUT_SECONDS: u32 = 60;

/// What to do with one Windows node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodePlan {
    /// Somebody else looks after csi-proxy there.
    External,
    /// Something that the work rests on is being written at this moment.
    Waiting,
    /// It cannot be gone to.
    Blocked(NodeError),
    /// Go there.
    Visit(Box<Target>),
}

/// A node to go to.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The Node's name.
    pub node: String,
    /// The Node's uid: another one is another host, whatever its name.
    pub uid: String,
    /// Where its SSH server is.
    pub address: String,
    /// The server's port.
    pub port: u16,
    /// Who logs in.
    pub user: String,
    /// The key to log in with.
    pub key: PrivateKey,
    /// The host key that it must show, once one is pinned.
    pub pin: Option<HostKey>,
    /// What it shall look like; where that is not known it is only looked at.
    pub desired: Result<Desired, NodeError>,
}

#[cfg(test)]
impl Target {
    /// A target on this machine, with a key that nobody knows.
    pub(crate) fn of_test_host(port: u16) -> Self {
        let pem = openssl::rsa::Rsa::generate(2048)
            .unwrap()
            .private_key_to_pem()
            .unwrap();
        let data = [("private-key.pem".to_owned(), zeroize::Zeroizing::new(pem))].into();
        Self {
            node: "win-1".to_owned(),
            uid: String::new(),
            address: "127.0.0.1".to_owned(),
            port,
            user: "Administrator".to_owned(),
            key: check_private_key(Some(&crate::index::Secret { data }), "ns").unwrap(),
            pin: None,
            desired: Err(NodeError::new(
                Reason::InvalidServices,
                "not of interest here",
            )),
        }
    }
}

/// What a node shall look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// The hash of the agent that belongs there.
    pub agent_sha256: String,
    /// What the agent shall keep the node to.
    pub request: Request,
}

/// Plans nodes, from what is the same for all of them.
pub struct Planner<'a> {
    cluster: &'a Cluster,
    spec: &'a WindowsStorageSpec,
    instances: Instances,
    key: Result<PrivateKey, NodeError>,
    /// What nodes shall look like; `None` while the services entry is being written.
    desired: Option<Result<Desired, NodeError>>,
}

impl<'a> Planner<'a> {
    /// A planner for nodes of that cluster.
    #[must_use]
    pub fn new(
        cluster: &'a Cluster,
        spec: &'a WindowsStorageSpec,
        payload: &Payload,
        services: &Result<Step, ServicesError>,
    ) -> Self {
        let instances = cluster.config_maps.get(INSTANCES_CONFIG_MAP);
        Self {
            cluster,
            spec,
            instances: instances
                .map(|map| parse_instances(&map.data))
                .unwrap_or_default(),
            key: check_private_key(cluster.secrets.get(SSH_SECRET), &cluster.namespace),
            desired: match services {
                Ok(Step::Keep(document)) => Some(Ok(desired(payload, document))),
                Ok(Step::Create(_) | Step::Update { .. }) => None,
                Err(error) => Some(Err(NodeError::new(
                    Reason::InvalidServices,
                    error.to_string(),
                ))),
            },
        }
    }

    /// The plan for that node.
    #[must_use]
    pub fn plan(&self, name: &str, node: &Node) -> NodePlan {
        if is_external(node, self.spec.csi_proxy.management) {
            return NodePlan::External;
        }
        match (
            &self.desired,
            reach(node, self.spec, &self.instances),
            &self.key,
        ) {
            (_, Err(error), _) => NodePlan::Blocked(error),
            (_, _, Err(error)) => NodePlan::Blocked(error.clone()),
            (None, _, _) => NodePlan::Waiting,
            (Some(desired), Ok((address, user)), Ok(key)) => NodePlan::Visit(Box::new(Target {
                node: name.to_owned(),
                uid: node.uid.clone(),
                address,
                port: self.spec.ssh.port,
                user,
                key: key.clone(),
                pin: self.pin(name),
                desired: desired.clone(),
            })),
        }
    }

    fn pin(&self, name: &str) -> Option<HostKey> {
        let pins = self.cluster.config_maps.get(HOST_KEYS_CONFIG_MAP)?;
        pins.data.get(name).map(|text| HostKey::parse(text))
    }
}

fn is_external(node: &Node, management: Management) -> bool {
    match management {
        Management::Auto => node.managed_by_wmco,
        Management::Managed => false,
        Management::External => true,
    }
}

/// The address and the user: those of a line in `windows-instances` that names one of the node's addresses, else the
/// most internal address and the default user.
fn reach(
    node: &Node,
    spec: &WindowsStorageSpec,
    instances: &Instances,
) -> Result<(String, String), NodeError> {
    const PREFERRED: [&str; 5] = [
        "InternalIP",
        "InternalDNS",
        "ExternalIP",
        "ExternalDNS",
        "Hostname",
    ];
    let addresses: Vec<&str> = PREFERRED
        .iter()
        .flat_map(|kind| {
            node.addresses
                .iter()
                .filter(move |address| address.kind == *kind)
        })
        .map(|address| address.address.as_str())
        .filter(|address| !address.is_empty())
        .collect();
    for &address in &addresses {
        match instances.by_address.get(address) {
            Some(Ok(user)) => return Ok((address.to_owned(), user.clone())),
            Some(Err(problem)) => return Err(NodeError::new(Reason::InvalidInstance, problem)),
            None => {}
        }
    }
    let address = addresses.first().ok_or_else(|| {
        NodeError::new(
            Reason::NoAddress,
            "the Node object has no address in status.addresses; check the kubelet and the cloud provider of this node",
        )
    })?;
    Ok(((*address).to_owned(), spec.ssh.user.clone()))
}

fn desired(payload: &Payload, document: &Document) -> Desired {
    let mut request = Request {
        id: String::new(),
        files: vec![DesiredFile {
            path: CSI_PROXY_EXE.to_owned(),
            sha256: payload.csi_proxy.sha256.clone(),
            upload: None,
        }],
        services: document.services.clone(),
        pipes: vec![ServicePipes {
            service: CSI_PROXY_SERVICE.to_owned(),
            pipes: CSI_PROXY_PIPES.map(str::to_owned).to_vec(),
        }],
        stop_timeout_seconds: STOP_TIMEOUT_SECONDS,
        start_timeout_seconds: START_TIMEOUT_SECONDS,
        environment: BTreeMap::new(),
        replace_foreign: false,
    };
    // Plain data always serializes; an empty text would only make every such request look the same.
    request.id = sha256_hex(
        serde_json::to_string(&request)
            .unwrap_or_default()
            .as_bytes(),
    );
    Desired {
        agent_sha256: payload.agent.sha256.clone(),
        request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::NodeAddress;

    fn node(addresses: &[(&str, &str)]) -> Node {
        Node {
            operating_system: "windows".to_owned(),
            addresses: addresses
                .iter()
                .map(|(kind, address)| NodeAddress {
                    kind: (*kind).to_owned(),
                    address: (*address).to_owned(),
                })
                .collect(),
            ..Node::default()
        }
    }

    fn instances(lines: &[(&str, &str)]) -> Instances {
        parse_instances(
            &lines
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn the_internal_address_and_the_default_user_are_taken() {
        let node = node(&[
            ("Hostname", "win-1"),
            ("ExternalIP", "1.2.3.4"),
            ("InternalIP", "10.0.0.1"),
        ]);
        let found = reach(&node, &WindowsStorageSpec::default(), &Instances::default()).unwrap();
        assert_eq!(found, ("10.0.0.1".to_owned(), "Administrator".to_owned()));
    }

    #[test]
    fn a_line_for_any_of_its_addresses_decides() {
        let node = node(&[("InternalIP", "10.0.0.1"), ("Hostname", "win-1")]);
        let found = reach(
            &node,
            &WindowsStorageSpec::default(),
            &instances(&[("win-1", "username=capi")]),
        )
        .unwrap();
        assert_eq!(found, ("win-1".to_owned(), "capi".to_owned()));
        let error = reach(
            &node,
            &WindowsStorageSpec::default(),
            &instances(&[("10.0.0.1", "?")]),
        )
        .unwrap_err();
        assert_eq!(error.reason, Reason::InvalidInstance);
    }

    #[test]
    fn a_node_without_address_is_told_apart() {
        let error = reach(
            &node(&[]),
            &WindowsStorageSpec::default(),
            &Instances::default(),
        )
        .unwrap_err();
        assert_eq!(error.reason, Reason::NoAddress);
    }

    #[test]
    fn auto_leaves_wmco_nodes_alone() {
        let wmco = Node {
            managed_by_wmco: true,
            ..node(&[])
        };
        assert!(is_external(&wmco, Management::Auto));
        assert!(!is_external(&wmco, Management::Managed));
        assert!(!is_external(&node(&[]), Management::Auto));
        assert!(is_external(&node(&[]), Management::External));
    }
}
