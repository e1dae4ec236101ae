//! What tests of visits share: a simulated fleet, small programs to bring, and a target whose key is pinned.

use std::collections::BTreeMap;

use protocol::paths::{AGENT_EXE, BOOTSTRAP_DIR, CSI_PROXY_EXE, to_sftp};
use protocol::{DesiredFile, Request, ServicePipes, ServiceState};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tempfile::TempDir;
use testbed::simulated_host::{SimulatedFleet, SimulatedHost};
use zeroize::Zeroizing;

use crate::node::{
    Context, Desired, HostKey, HostKeyPolicy, NodeError, Pins, Reconciled, RolloutSlots, Target,
    check_private_key, reconcile_node,
};
use crate::payload::{Payload, sha256_hex};
use crate::services::csi_proxy_service;

/// Two payloads, the second newer than the first, and where they go.
pub struct Scene {
    pub fleet: SimulatedFleet,
    key: crate::node::PrivateKey,
    pins: Pins,
    nodes: kube::Api<k8s_openapi::api::core::v1::Node>,
    pub slots: RolloutSlots,
    pub old: Programs,
    pub new: Programs,
}

/// A payload, and what a node with it looks like.
pub struct Programs {
    pub payload: Payload,
    pub desired: Desired,
    pub folder: TempDir,
}

/// So that it takes several packets, packed or not.
fn incompressible(seed: u8, size: usize) -> Vec<u8> {
    let mut state = u32::from(seed);
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(size).collect()
}

impl Programs {
    /// Several SFTP packets each, and no more than that.
    fn new(version: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut entries = Vec::new();
        for (name, size) in [("agent", 70_000), ("csiProxy", 100_000)] {
            let content = incompressible(version, size);
            let sum = sha256_hex(&content);
            let packed = if name == "csiProxy" {
                let packed = compress_to_vec(content.as_slice(), CompressionLevel::Fastest);
                std::fs::write(folder.path().join("packed"), &packed).unwrap();
                format!(
                    r#","packed":{{"file":"packed","format":"zstd","sha256":"{}","unpackedSize":{size}}}"#,
                    sha256_hex(&packed)
                )
            } else {
                std::fs::write(folder.path().join(name), &content).unwrap();
                String::new()
            };
            entries.push(format!(
                r#""{name}":{{"file":"{name}","version":"v{version}","sha256":"{sum}"{packed}}}"#
            ));
        }
        let manifest = format!("{{{}}}", entries.join(","));
        std::fs::write(folder.path().join("payload.json"), manifest).unwrap();
        let payload = Payload::load(folder.path()).unwrap();
        let request = Request {
            id: sha256_hex(&[version]),
            files: vec![DesiredFile {
                path: CSI_PROXY_EXE.to_owned(),
                sha256: payload.csi_proxy.sha256.clone(),
                upload: None,
                packed: None,
            }],
            services: vec![csi_proxy_service(&[])],
            pipes: vec![ServicePipes {
                service: "csi-proxy".to_owned(),
                pipes: vec!["csi-proxy-filesystem-v1".to_owned()],
            }],
            stop_timeout_seconds: 30,
            start_timeout_seconds: 60,
            environment: BTreeMap::new(),
            replace_foreign: false,
        };
        Self {
            desired: Desired {
                revision: request.id.clone(),
                attempt: String::new(),
                agent_sha256: payload.agent.sha256.clone(),
                request,
                refused: None,
                retry: false,
            },
            payload,
            folder,
        }
    }
}

impl Scene {
    pub fn new() -> Self {
        let fleet = SimulatedFleet::new().unwrap();
        let pem = Zeroizing::new(fleet.private_key().unwrap().into_bytes());
        let data = [("private-key.pem".to_owned(), pem)].into();
        // Nobody is there: with a pinned key no visit has to ask.
        let config = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        // These tests are about the way there, so the host always has a rollout slot.
        let slots = RolloutSlots::default();
        slots.decide(|_| (["win-1".to_owned()].into(), ()));
        Self {
            slots,
            nodes: kube::Api::all(client.clone()),
            key: check_private_key(Some(&crate::index::Secret { data }), "ns").unwrap(),
            fleet,
            pins: Pins::new(kube::Api::namespaced(client, "ns"), "ns".to_owned()),
            old: Programs::new(1),
            new: Programs::new(2),
        }
    }

    pub fn host(&self) -> SimulatedHost {
        self.fleet.add_host("win-1").unwrap()
    }

    /// A host on which the old programs are.
    pub async fn host_with_old(&self) -> SimulatedHost {
        let host = self.host();
        let visited = self.go(&host, &self.old).await.unwrap();
        assert_eq!(visited.problem, None);
        host
    }

    /// The target with the key that the host shows now.
    pub fn target(&self, host: &SimulatedHost, programs: &Programs) -> Target {
        Target {
            node: host.name().to_owned(),
            uid: String::new(),
            boot_id: String::new(),
            address: host.address().to_string(),
            port: host.port(),
            user: self.fleet.user().to_owned(),
            key: self.key.clone(),
            host_keys: HostKeyPolicy {
                pin: Some(HostKey::parse(&host.host_keys().unwrap()[0])),
                ..HostKeyPolicy::default()
            },
            agent_seen: host.with_disk(|disk| disk.file(AGENT_EXE).is_some()),
            desired: Ok(programs.desired.clone()),
        }
    }

    pub async fn go(
        &self,
        host: &SimulatedHost,
        programs: &Programs,
    ) -> Result<Reconciled, NodeError> {
        self.go_to(&self.target(host, programs), programs).await
    }

    pub async fn go_to(
        &self,
        target: &Target,
        programs: &Programs,
    ) -> Result<Reconciled, NodeError> {
        reconcile_node(target, &self.context(programs)).await
    }

    /// What visits share that send those programs.
    pub fn context(&self, programs: &Programs) -> Context {
        Context::new(
            programs.payload.clone(),
            self.pins.clone(),
            self.slots.clone(),
            self.nodes.clone(),
        )
    }

    /// What a visit failed with, before or after the login.
    pub async fn problem(&self, host: &SimulatedHost, programs: &Programs) -> Option<NodeError> {
        match self.go(host, programs).await {
            Ok(visited) => visited.problem,
            Err(error) => Some(error),
        }
    }
}

/// Which programs the host has; half ones are none of ours.
pub fn programs_on(host: &SimulatedHost) -> [Option<String>; 2] {
    host.with_disk(|disk| [AGENT_EXE, CSI_PROXY_EXE].map(|path| Some(disk.file(path)?.sha256())))
}

/// Files on the host that a visit has brought to be used by itself alone.
pub fn left_over(host: &SimulatedHost) -> Vec<String> {
    let bootstrap = to_sftp(BOOTSTRAP_DIR).to_lowercase();
    let mut files = host.with_disk(|disk| disk.files());
    files.retain(|file| file.contains("/incoming/") || file.contains(&bootstrap));
    files
}

pub fn is_as_desired(host: &SimulatedHost, visited: &Reconciled, programs: &Programs) -> bool {
    let Programs {
        payload, desired, ..
    } = programs;
    let state = visited.state.clone().unwrap_or_default();
    let wanted = [&payload.agent, &payload.csi_proxy].map(|program| Some(program.sha256.clone()));
    programs_on(host) == wanted
        && visited.problem.is_none()
        && state.agent_service == ServiceState::Running
        && state.request_id.as_ref() == Some(&desired.request.id)
        && state.unfinished_request_id.is_none()
}
