//! Work on simulated hosts and on OpenSSH's own server, and what other tests need of a node.

mod crowd;
mod cuts;
mod faults;
mod lease;
mod real_server;
mod scene;

use crate::api::WindowsStorageSpec;
use crate::node::desired::desired;
use crate::node::{Desired, HostKeyPolicy, NodeError, Reason, Target, check_private_key};
use crate::payload::Payload;
use crate::services::Document;

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
            boot_id: String::new(),
            address: "127.0.0.1".to_owned(),
            port,
            user: "Administrator".to_owned(),
            key: check_private_key(Some(&crate::index::Secret { data }), "ns").unwrap(),
            host_keys: HostKeyPolicy {
                trust_on_first_use: true,
                ..HostKeyPolicy::default()
            },
            agent_seen: false,
            desired: Err(NodeError::new(
                Reason::InvalidServices,
                "not of interest here",
            )),
        }
    }
}

impl Desired {
    /// Some request, at that attempt.
    pub(crate) fn of_test(revision: &str, attempt: &str) -> Self {
        let payload = Payload::of_test();
        let spec = WindowsStorageSpec::default();
        Self {
            revision: revision.to_owned(),
            attempt: attempt.to_owned(),
            ..desired(&payload, &spec, &Document::default())
        }
    }
}
