//! Collects what an administrator needs to decide whether to accept a changed host key.

use jiff::Timestamp;

use crate::index::Cluster;
use crate::node::connect::{HANDSHAKE, connect, place};
use crate::node::{HostKey, HostKeyPolicy, Judgement, NodeError, NodePlan, Planner};

/// Address of a node's SSH server, and what is known about its host keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The address.
    pub address: String,
    /// The port.
    pub port: u16,
    /// What is known about its host keys.
    pub host_keys: HostKeyPolicy,
}

impl Way {
    /// Finds a node's SSH server, from the Node, the settings, and the ConfigMaps of the operator's namespace.
    pub fn to(cluster: &Cluster, name: &str) -> Result<Self, String> {
        let spec = cluster.wanted();
        let node = cluster.nodes.get(name);
        let node = node.ok_or_else(|| format!("there is no node {name}; see kubectl get nodes"))?;
        if !node.is_windows() {
            return Err(format!(
                "node {name} is not watched: it does not run Windows, is labelled windowsstorage.dev/ignore=true, or \
                 is being deleted"
            ));
        }
        let planner = Planner::read_only(cluster, &spec, Timestamp::now());
        if let NodePlan::External(who) = planner.plan(name, node) {
            return Err(format!(
                "another owner manages csi-proxy on node {name} ({who}), so this operator does not log in to it, and needs \
                 no key of it"
            ));
        }
        let address = Planner::address(node).map_err(|error| error.message)?;
        Ok(Self {
            port: planner.port(node),
            host_keys: planner.host_keys(name, node, &address),
            address,
        })
    }

    /// Formats address and port.
    pub fn place(&self) -> String {
        place(&self.address, self.port)
    }
}

/// Returns the key that the host shows to the operator. Does not log in.
pub async fn shown_key(way: &Way) -> Result<HostKey, NodeError> {
    let connected = connect((&way.address, way.port), &way.host_keys, HANDSHAKE).await?;
    Ok(connected.session.host_key)
}

/// Judges whether a key that the node's host shows can be accepted by pinning it: `New` if it can, `Known` if it is
/// trusted already, `Refused` if it would be refused even with a pin.
pub fn judge_offer(
    policy: &HostKeyPolicy,
    namespace: &str,
    node: &str,
    key: &HostKey,
) -> Judgement {
    if policy.judge(namespace, node, key) == Judgement::Known {
        return Judgement::Known;
    }
    let pinned = HostKeyPolicy {
        pin: Some(key.clone()),
        ..policy.clone()
    };
    match pinned.judge(namespace, node, key) {
        Judgement::Known => Judgement::New,
        judged => judged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{CsiProxyStatus, WindowsNodeStorageStatus};
    use crate::index::{LeftOut, Node, NodeAddress, Platform, PlatformSignal};
    use crate::node::{Known, RELEASING, Reason};

    fn eks() -> PlatformSignal {
        PlatformSignal {
            platform: Platform::EKS,
            shown: "label x".to_owned(),
        }
    }

    fn key(own: &str) -> HostKey {
        HostKey::new("ssh-ed25519", own.as_bytes())
    }

    fn offer(pin: Option<&str>, listed: &[&str], revoked: &[&str]) -> Judgement {
        let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
        let policy = HostKeyPolicy {
            pin: pin.map(key),
            known: Known {
                keys: keys(listed),
                revoked: keys(revoked),
            },
            announced: Some(key("announced")),
            ..HostKeyPolicy::default()
        };
        judge_offer(&policy, "ns", "win-1", &key("new"))
    }

    #[test]
    fn only_a_key_that_its_pin_makes_trusted_can_be_accepted() {
        assert_eq!(offer(None, &[], &[]), Judgement::New);
        assert_eq!(offer(Some("old"), &[], &[]), Judgement::New);
        assert_eq!(offer(Some("old"), &["new"], &[]), Judgement::New);
        assert_eq!(offer(Some("new"), &[], &[]), Judgement::Known);
        assert_eq!(offer(None, &["new"], &[]), Judgement::Known);
        for (listed, revoked, says) in [
            (&["old"][..], &[][..], "update its line"),
            (&[], &["new"], "@revoked"),
        ] {
            let Judgement::Refused(error) = offer(Some("old"), listed, revoked) else {
                panic!("{listed:?} {revoked:?}")
            };
            assert_eq!(error.reason, Reason::HostKeyChanged);
            assert!(error.message.contains(says), "{error}");
        }
    }

    #[test]
    fn the_way_is_the_operators_own_or_the_reason_why_there_is_none() {
        let way_with = |management: Option<&str>, change: fn(&mut Node)| {
            let mut node = Node {
                operating_system: "windows".to_owned(),
                addresses: vec![NodeAddress {
                    type_: "InternalIP".to_owned(),
                    address: "fd00::7".to_owned(),
                }],
                ..Node::default()
            };
            change(&mut node);
            let mut cluster = Cluster::default();
            cluster.nodes.apply("win-1".into(), node);
            if let Some(management) = management {
                let mut status = WindowsNodeStorageStatus::default();
                management.clone_into(&mut status.management);
                status.csi_proxy = (management == RELEASING).then(CsiProxyStatus::default);
                cluster.node_statuses.apply("win-1".to_owned(), status);
            }
            Way::to(&cluster, "win-1").map(|way| way.place())
        };
        assert_eq!(way_with(None, |_| ()).unwrap(), "[fd00::7]:22");
        // The operator logs in once more to release a node.
        let releasing = way_with(Some(RELEASING), |node| node.platform = Some(eks()));
        assert_eq!(releasing.unwrap(), "[fd00::7]:22");
        let way = |change: fn(&mut Node)| way_with(Some("External"), change);
        let unknown = Way::to(&Cluster::default(), "win-1").map(|way| way.place());
        for (refused, words) in [
            (unknown, "there is no node win-1"),
            (
                way(|node| node.left_out = Some(LeftOut::Ignored)),
                "is not watched",
            ),
            (way(|node| node.platform = Some(eks())), "EKS by label x"),
            (way(|node| node.addresses.clear()), "has no address"),
        ] {
            let problem = refused.unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
