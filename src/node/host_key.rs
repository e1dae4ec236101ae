//! Verifies SSH host keys.

use std::fmt;

use crate::node::known_hosts::{KNOWN_HOSTS, Known};
use crate::node::private_key::text_field;
use crate::node::{NodeError, Reason};

/// The ConfigMap's name.
pub const HOST_KEYS_CONFIG_MAP: &str = "windows-storage-host-keys";

/// A host key in OpenSSH's notation without a comment: `ssh-ed25519 AAAA…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey(String);

impl HostKey {
    /// Creates a key from its type and its bytes.
    pub fn new(kind: &str, bytes: &[u8]) -> Self {
        Self(format!("{kind} {}", openssl::base64::encode_block(bytes)))
    }

    /// Parses a key from its bytes, which begin with its type.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let kind = text_field(&mut &*bytes)?;
        Some(Self::new(std::str::from_utf8(kind).ok()?, bytes))
    }

    /// Parses a key as the ConfigMap holds it. Comments and extra white space are ignored.
    pub fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split_whitespace().take(2).collect();
        Self(words.join(" "))
    }

    /// Parses the key in a Node's annotations: its type, and its base64 text with or without the type in front.
    pub fn announced(kind: Option<&str>, key: Option<&str>) -> Option<Self> {
        let key = key.map(str::trim).filter(|key| !key.is_empty())?;
        let kind = kind.map_or("", str::trim);
        Some(if key.starts_with(kind) {
            Self::parse(key)
        } else {
            Self::parse(&format!("{kind} {key}"))
        })
    }

    /// Returns the type, such as `ssh-ed25519`.
    pub fn kind(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// Returns type and fingerprint, for messages.
    pub fn summary(&self) -> String {
        format!("{} {}", self.kind(), self.fingerprint())
    }

    /// Returns the fingerprint as `ssh-keygen -l` shows it.
    pub fn fingerprint(&self) -> String {
        let text = self.0.split(' ').nth(1).unwrap_or_default();
        let bytes = openssl::base64::decode_block(text);
        let sum = openssl::base64::encode_block(&openssl::sha::sha256(&bytes.unwrap_or_default()));
        format!("SHA256:{}", sum.trim_end_matches('='))
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The comment of a pin that the operator stored at the first contact with a node.
pub const FIRST_CONTACT: &str = "stored-at-first-contact";
/// The comment of a pin that an administrator accepted with the command. All other pins were added by hand.
pub const ACCEPTED: &str = "accepted";

/// Returns whether a pin was stored for an existing node, and is of no use once that node is deleted.
pub fn goes_with_node(pin: &str) -> bool {
    let comment = pin.split_whitespace().nth(2);
    comment.is_some_and(|comment| [FIRST_CONTACT, ACCEPTED].contains(&comment))
}

/// What is known about a node's host keys before a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostKeyPolicy {
    /// The key that is pinned for this node.
    pub pin: Option<HostKey>,
    /// What the `known_hosts` lines say about its address and port.
    pub known: Known,
    /// The key in the Node's annotations of the Windows Machine Config Operator. The node's own kubelet can write them,
    /// so they can make the first contact fail, but never make a key trusted.
    pub announced: Option<HostKey>,
    /// Whether an unknown key is trusted and pinned at the first contact.
    pub trust_on_first_use: bool,
    /// Another node with a pin and the same address. One of the two reports an address that is not its own; its kubelet
    /// may do so to have another host taken for its node.
    pub address_of: Option<String>,
}

impl HostKeyPolicy {
    /// Returns the known key types, the most trusted first, to be requested in this order.
    pub fn kinds(&self) -> Vec<String> {
        let keys = self.pin.iter().chain(&self.known.keys);
        let keys = keys.chain(&self.announced);
        keys.map(|key| key.kind().to_owned()).collect()
    }

    /// Judges a presented key. Any contradiction stops the work; no source overrides another.
    pub fn judge(&self, namespace: &str, node: &str, presented: &HostKey) -> Judgement {
        let (pin, known) = (&self.pin, &self.known);
        let shown = presented.summary();
        let fingerprint = presented.fingerprint();
        // Pins exactly this key. Deleting the old pin instead would trust whatever key is shown next.
        let accept = format!(
            "kubectl windows-storage accept-host-key {node} -n {namespace} --fingerprint {fingerprint}"
        );
        let changed = |why: String| Judgement::Refused(Reason::HostKeyChanged.error(why));
        let unknown = |why: String| Judgement::Refused(Reason::HostKeyUnknown.error(why));
        if known.revoked.contains(presented) {
            return changed(format!(
                "the SSH host key {shown} is marked @revoked in key {KNOWN_HOSTS} of ConfigMap {HOST_KEYS_CONFIG_MAP}; nothing \
                 was sent to the host. Give it a new host key, then accept that one with: kubectl windows-storage accept-host-key \
                 {node} -n {namespace}"
            ));
        }
        let same_kind = |key: &HostKey| key.kind() == presented.kind();
        let listed = known.keys.contains(presented);
        // A listed key of the same type contradicts it. Without a pin, so does any other listed key: a man in the
        // middle chooses the type.
        let contradicts = |key: &HostKey| pin.is_none() || same_kind(key);
        if !listed && known.keys.iter().any(contradicts) {
            let keys: Vec<String> = known.keys.iter().map(HostKey::summary).collect();
            return changed(format!(
                "the SSH host key is {shown}, but key {KNOWN_HOSTS} of ConfigMap {HOST_KEYS_CONFIG_MAP} lists {} for this host: \
                 it was reinstalled, or the connection is intercepted; nothing was sent to it. If the new key is correct, update its line there",
                keys.join(", ")
            ));
        }
        match (pin, &self.announced, &self.address_of) {
            (Some(pin), ..) if pin == presented => Judgement::Known,
            // An additional key of another type, which an administrator has listed.
            (Some(pin), ..) if listed && !same_kind(pin) => Judgement::Known,
            (Some(pin), ..) => changed(format!(
                "the SSH host key is {shown} and no longer {}: the host was reinstalled, or the connection is intercepted; nothing was sent to it. If ssh-keygen -l says the same fingerprint on the node's own console, accept it with: \
                 {accept}",
                pin.summary()
            )),
            (None, ..) if listed => Judgement::Known,
            (None, Some(announced), _) if announced != presented => changed(format!(
                "the SSH host key is {shown}, but the Node's annotations {ANNOTATION} name {}: the connection is intercepted, or the annotations are outdated; nothing was sent to it. If the key is correct, pin it with: {accept}",
                announced.summary()
            )),
            (None, ..) if !self.trust_on_first_use => unknown(format!(
                "the SSH host key {shown} is not known and spec.ssh.hostKeys is Strict, so the operator did not log in. Compare it with the output of \"ssh-keygen -lf\" for the files C:\\ProgramData\\ssh\\ssh_host_*_key.pub on the node, \
                 then accept it with: {accept}"
            )),
            (None, _, Some(other)) => unknown(format!(
                "the address of this node is also that of node {other}, whose SSH host key is pinned, so the key {shown} was not trusted on first use and the operator did not log in. Delete Node {other} if it no longer exists; if both are correct, accept the key with: {accept}"
            )),
            (None, _, None) => Judgement::New,
        }
    }
}

/// Common prefix of the annotations, for messages.
const ANNOTATION: &str = "windowsmachineconfig.openshift.io/ssh-host-key";

/// Result of judging a presented key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The key is known and trusted.
    Known,
    /// The key is unknown, and may be pinned.
    New,
    /// The key is not trusted: stop.
    Refused(NodeError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &str, own: &str) -> HostKey {
        HostKey::new(kind, own.as_bytes())
    }

    #[test]
    fn an_address_of_two_nodes_is_not_trusted_at_first_sight() {
        let shown = key("ssh-ed25519", "of a");
        let mut policy = HostKeyPolicy {
            trust_on_first_use: true,
            address_of: Some("win-1".to_owned()),
            ..HostKeyPolicy::default()
        };
        let error = refusal(&policy, &shown);
        assert_eq!(error.reason, Reason::HostKeyUnknown);
        for part in ["also that of node win-1", "accept-host-key"] {
            assert!(error.message.contains(part), "{error}");
        }
        // An administrator who accepts the key decides otherwise.
        policy.pin = Some(shown.clone());
        assert_eq!(policy.judge("ns", "win-2", &shown), Judgement::Known);
    }

    fn refusal(policy: &HostKeyPolicy, presented: &HostKey) -> NodeError {
        match policy.judge("ns", "win-1", presented) {
            Judgement::Refused(error) => error,
            other => panic!("{other:?}"),
        }
    }

    /// The presented key is `1`; `2` is another of its type, `r` one of another type.
    #[test]
    fn what_is_known_decides() {
        let key_of = |name: char| match name {
            'r' => key("ssh-rsa", "one"),
            own => key("ssh-ed25519", &own.to_string()),
        };
        let keys = |names: &str| names.chars().map(key_of).collect::<Vec<_>>();
        for (pin, list, revoked, announced, first_use, expected) in [
            ("", "", "", "", true, "new"),
            ("", "", "", "", false, "refused"),
            // Pins.
            ("1", "", "", "", false, "known"),
            ("2", "", "", "", true, "refused"),
            ("r", "", "", "", true, "refused"),
            // Lists.
            ("", "1", "", "", false, "known"),
            ("", "r1", "", "", false, "known"),
            ("", "2", "", "", true, "refused"),
            ("", "r", "", "", true, "refused"),
            // Both.
            ("1", "1", "", "", false, "known"),
            ("2", "1", "", "", true, "refused"),
            ("1", "2", "", "", true, "refused"),
            ("1", "r", "", "", true, "known"),
            ("r", "1", "", "", false, "known"),
            ("r", "2", "", "", true, "refused"),
            // Annotations.
            ("", "", "", "1", true, "new"),
            ("", "", "", "1", false, "refused"),
            ("", "", "", "2", true, "refused"),
            ("1", "", "", "2", true, "known"),
            ("2", "", "", "1", true, "refused"),
            ("", "1", "", "2", true, "known"),
            // Revoked.
            ("", "1", "1", "", true, "refused"),
            ("1", "", "1", "", true, "refused"),
            ("1", "", "2", "", true, "known"),
        ] {
            let policy = HostKeyPolicy {
                pin: pin.chars().next().map(key_of),
                known: Known {
                    keys: keys(list),
                    revoked: keys(revoked),
                },
                announced: announced.chars().next().map(key_of),
                trust_on_first_use: first_use,
                address_of: None,
            };
            let found = match policy.judge("ns", "win-1", &key_of('1')) {
                Judgement::Known => "known",
                Judgement::New => "new",
                Judgement::Refused(_) => "refused",
            };
            assert_eq!(found, expected, "{policy:?}");
        }
    }

    #[test]
    fn a_refusal_names_both_keys_and_what_to_do() {
        let (one, two) = (key("ssh-ed25519", "one"), key("ssh-ed25519", "two"));
        let pinned = HostKeyPolicy {
            pin: Some(one.clone()),
            ..HostKeyPolicy::default()
        };
        let error = refusal(&pinned, &two);
        assert_eq!(error.reason, Reason::HostKeyChanged);
        let accept = format!(
            "kubectl windows-storage accept-host-key win-1 -n ns --fingerprint {}",
            two.fingerprint()
        );
        for part in [&one.fingerprint(), &two.fingerprint(), &accept] {
            assert!(error.message.contains(part), "{error}");
        }
        // The key that is shown must not be accepted, nor the next one whatever it is.
        let revoked = HostKeyPolicy {
            pin: Some(two.clone()),
            known: Known {
                revoked: vec![two.clone()],
                ..Known::default()
            },
            ..HostKeyPolicy::default()
        };
        let said = refusal(&revoked, &two).message;
        assert!(said.ends_with("accept-host-key win-1 -n ns"), "{said}");
        let strict = refusal(&HostKeyPolicy::default(), &two);
        assert_eq!(strict.reason, Reason::HostKeyUnknown);
        assert!(strict.message.ends_with(&accept), "{strict}");
    }

    #[test]
    fn annotations_are_taken_together_or_not_at_all() {
        let one = key("ssh-ed25519", "one");
        let text = one.to_string();
        let (kind, body) = text.split_once(' ').unwrap();
        for (kind, key, announced) in [
            (Some(kind), Some(body), Some(&one)),
            (Some(kind), Some(&*text), Some(&one)),
            (None, Some(&*text), Some(&one)),
            (Some(kind), None, None),
            (None, None, None),
            (Some(kind), Some(" "), None),
        ] {
            assert_eq!(HostKey::announced(kind, key).as_ref(), announced);
        }
    }

    #[test]
    fn a_comment_in_a_pin_does_not_count() {
        let key = key("ssh-ed25519", "one");
        let pin = format!(" {key}  win-1 put here by ops\n");
        assert_eq!(HostKey::parse(&pin), key);
    }

    #[test]
    fn known_types_are_asked_for_in_the_order_of_trust() {
        let policy = HostKeyPolicy {
            pin: Some(key("ssh-rsa", "p")),
            known: Known {
                keys: vec![key("ecdsa-sha2-nistp256", "k")],
                revoked: vec![key("ssh-dss", "r")],
            },
            announced: Some(key("ssh-ed25519", "a")),
            ..HostKeyPolicy::default()
        };
        let expected = ["ssh-rsa", "ecdsa-sha2-nistp256", "ssh-ed25519"];
        assert_eq!(policy.kinds(), expected);
    }
}
