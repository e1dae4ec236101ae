//! Tests of work on simulated hosts and on OpenSSH's own server, and helpers for other tests.

mod crowd;
mod cuts;
mod doubt;
mod faults;
mod lease;
mod owners;
mod planted;
mod real_server;
mod scene;
mod windows;

use crate::api::{PrivateKeySecretRef, WindowsStorageSpec};
use crate::index::Secret;
use crate::node::desired::desired;
use crate::node::payload::Payload;
use crate::node::{
    Context, Desired, HostKeyPolicy, Pins, PrivateKey, Purpose, Reason, RolloutSlots, Target,
    check_private_key,
};

impl Target {
    /// Creates a target on this machine, with an unknown key.
    pub(crate) fn of_test_host(port: u16) -> Self {
        Self {
            node: "win-1".to_owned(),
            uid: String::new(),
            boot_id: String::new(),
            address: "127.0.0.1".to_owned(),
            port,
            user: "Administrator".to_owned(),
            key: PrivateKey::of_test(PrivateKey::new_pem()),
            host_keys: HostKeyPolicy {
                trust_on_first_use: true,
                ..HostKeyPolicy::default()
            },
            is_given: false,
            is_ours: false,
            purpose: Purpose::Reconcile,
            desired: Err(Reason::InvalidServices.error("not of interest")),
        }
    }
}

impl PrivateKey {
    /// Makes a key of the kind that is made and read fastest, in PEM.
    pub(crate) fn new_pem() -> Vec<u8> {
        let key = openssl::pkey::PKey::generate_ed25519().unwrap();
        key.private_key_to_pem_pkcs8().unwrap()
    }

    /// Parses a key.
    pub(crate) fn of_test(pem: Vec<u8>) -> Self {
        let wanted = PrivateKeySecretRef::default();
        let data = [(wanted.key.clone(), zeroize::Zeroizing::new(pem))].into();
        check_private_key(Some(&Secret::Data(data)), "ns", &wanted).unwrap()
    }
}

impl Context {
    /// Creates a context with an unreachable API server: with a pinned key, it is not needed.
    pub(crate) fn of_test(payload: &Payload, slots: &RolloutSlots) -> Self {
        let config = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let pins = Pins::new(kube::Api::namespaced(client, "ns"), "ns".to_owned());
        Self::new(payload.clone(), pins, slots.clone())
    }
}

impl Desired {
    /// A request with this revision and attempt.
    pub(crate) fn of_test(revision: &str, attempt: &str) -> Self {
        let payload = Payload::of_test();
        let spec = WindowsStorageSpec::default();
        let mut desired = desired(&payload, &spec, Vec::new());
        desired.revision = revision.to_owned();
        desired.request.attempt = attempt.to_owned();
        desired
    }
}
