//! SSH host keys: pinned at the first contact, and never changed without an administrator.
//!
//! Pins are kept by node name in a ConfigMap of the operator's namespace, where a node's own kubelet cannot write.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::deadline;
use crate::node::{NodeError, Reason};

/// The ConfigMap's name.
pub const HOST_KEYS_CONFIG_MAP: &str = "windows-storage-host-keys";

/// A host key in OpenSSH's notation without a comment: `ssh-ed25519 AAAA…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey(String);

impl HostKey {
    /// A key as a server presented it: its type's name and its bytes.
    #[must_use]
    pub fn new(kind: &str, bytes: &[u8]) -> Self {
        Self(format!("{kind} {}", openssl::base64::encode_block(bytes)))
    }

    /// A key as the ConfigMap holds it; a comment and white space do not count.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(
            text.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    /// The type's name, for instance `ssh-ed25519`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// The fingerprint as `ssh-keygen -l` shows it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let bytes = self
            .0
            .split(' ')
            .nth(1)
            .and_then(|text| openssl::base64::decode_block(text).ok());
        let sum = openssl::sha::sha256(&bytes.unwrap_or_default());
        format!(
            "SHA256:{}",
            openssl::base64::encode_block(&sum).trim_end_matches('=')
        )
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What to make of a presented key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is the pinned one.
    Known,
    /// There is no pin yet.
    New,
    /// It is another one: stop.
    Changed(NodeError),
}

fn judge(
    (namespace, node): (&str, &str),
    pinned: Option<&HostKey>,
    presented: &HostKey,
) -> Judgement {
    match pinned {
        None => Judgement::New,
        Some(pinned) if pinned == presented => Judgement::Known,
        Some(pinned) => Judgement::Changed(NodeError::new(
            Reason::HostKeyChanged,
            format!(
                "the SSH host key is {} {} and no longer {} {}: the host was reinstalled, or somebody is in between; \
                 nothing was sent to it. If the new key is right, accept it with: kubectl patch configmap \
                 {HOST_KEYS_CONFIG_MAP} -n {namespace} --type=merge -p '{{\"data\":{{\"{node}\":null}}}}'",
                presented.kind(),
                presented.fingerprint(),
                pinned.kind(),
                pinned.fingerprint(),
            ),
        )),
    }
}

/// Where pins are kept.
#[derive(Clone)]
pub struct Pins {
    api: Api<ConfigMap>,
    namespace: String,
}

impl Pins {
    /// The pins in that API's namespace.
    #[must_use]
    pub fn new(api: Api<ConfigMap>, namespace: String) -> Self {
        Self { api, namespace }
    }

    /// Compares a presented key with the pinned one.
    #[must_use]
    pub fn judge(&self, node: &str, pinned: Option<&HostKey>, presented: &HostKey) -> Judgement {
        judge((&self.namespace, node), pinned, presented)
    }

    /// Pins a key at the first contact, unless another key was pinned meanwhile.
    pub async fn pin(&self, node: &str, key: &HostKey) -> Result<(), NodeError> {
        let failed = |error: deadline::CallError| {
            NodeError::new(
                Reason::HostKeyNotStored,
                format!(
                    "the host key could not be stored in ConfigMap {HOST_KEYS_CONFIG_MAP}, so the node was not logged in to: {error}"
                ),
            )
        };
        // Another writer may come in between; each round starts from what is there then.
        for _ in 0..5 {
            let existing = deadline::call("read host keys", self.api.get_opt(HOST_KEYS_CONFIG_MAP))
                .await
                .map_err(failed)?;
            let written = match existing {
                None => {
                    let object = ConfigMap {
                        metadata: ObjectMeta {
                            name: Some(HOST_KEYS_CONFIG_MAP.to_owned()),
                            ..ObjectMeta::default()
                        },
                        data: Some(BTreeMap::from([(node.to_owned(), key.to_string())])),
                        ..ConfigMap::default()
                    };
                    deadline::call(
                        "store host key",
                        self.api.create(&PostParams::default(), &object),
                    )
                    .await
                }
                Some(existing) => {
                    if let Some(pinned) = existing.data.as_ref().and_then(|data| data.get(node)) {
                        return match self.judge(node, Some(&HostKey::parse(pinned)), key) {
                            Judgement::Changed(error) => Err(error),
                            Judgement::Known | Judgement::New => Ok(()),
                        };
                    }
                    let change = json!({
                        "metadata": {"resourceVersion": existing.metadata.resource_version},
                        "data": {node: key.to_string()},
                    });
                    let patch = Patch::Merge(&change);
                    deadline::call(
                        "store host key",
                        self.api
                            .patch(HOST_KEYS_CONFIG_MAP, &PatchParams::default(), &patch),
                    )
                    .await
                }
            };
            match written {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(NodeError::new(
            Reason::HostKeyNotStored,
            "the host key could not be stored: others keep changing the ConfigMap",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_is_new_the_same_is_known_another_stops() {
        let one = HostKey::new("ssh-ed25519", b"one");
        let two = HostKey::new("ssh-ed25519", b"two");
        assert_eq!(judge(("ns", "win-1"), None, &one), Judgement::New);
        assert_eq!(judge(("ns", "win-1"), Some(&one), &one), Judgement::Known);
        let Judgement::Changed(error) = judge(("ns", "win-1"), Some(&one), &two) else {
            panic!("the key changed")
        };
        assert_eq!(error.reason, Reason::HostKeyChanged);
        assert!(
            error.message.contains(&one.fingerprint())
                && error.message.contains(&two.fingerprint())
        );
        assert!(
            error
                .message
                .contains("kubectl patch configmap windows-storage-host-keys -n ns")
        );
    }

    #[test]
    fn a_comment_in_a_pin_does_not_count() {
        let key = HostKey::new("ssh-ed25519", b"one");
        assert_eq!(
            HostKey::parse(&format!(" {key}  win-1 put here by ops\n")),
            key
        );
    }
}
