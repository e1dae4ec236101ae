//! Shared by the tests of reconciles: a simulated fleet, small programs to install, and a target with a pinned key.

use protocol::ServiceState;
use protocol::paths::{AGENT_EXE, BOOTSTRAP_DIR, CSI_PROXY_EXE, to_sftp};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::json;
use simulated_host::{Profile, Shell, SimulatedFleet, SimulatedHost};
use tempfile::TempDir;

use crate::api::WindowsStorageSpec;
use crate::node::desired::desired;
use crate::node::payload::{Payload, sha256_hex};
use crate::node::{
    Context, Desired, HostKey, HostKeyPolicy, NodeError, PrivateKey, Purpose, Reconciled,
    RolloutSlots, Target, reconcile_node,
};
use crate::services::csi_proxy_flags;

/// Two payloads, the second newer than the first, and the fleet to install them on.
pub struct Scene {
    pub fleet: SimulatedFleet,
    /// Version of the hosts' SSH server, and the shell that runs its commands.
    pub server: (Profile, Shell),
    key: PrivateKey,
    pub slots: RolloutSlots,
    pub old: Programs,
    pub new: Programs,
}

/// A payload, and the desired state of a node with it.
pub struct Programs {
    pub payload: Payload,
    pub desired: Desired,
    pub folder: TempDir,
}

/// Returns bytes that do not compress, so that a file takes several packets, packed or not.
fn incompressible(seed: u8, size: usize) -> Vec<u8> {
    let mut state = u32::from(seed);
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(size).collect()
}

impl Programs {
    /// Creates programs of several SFTP packets each, and no more than that.
    fn new(version: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name, content: &[u8]| {
            std::fs::write(folder.path().join(name), content).unwrap();
            sha256_hex(content)
        };
        let agent = incompressible(version, 70_000);
        let csi_proxy = incompressible(version, 100_000);
        let packed = compress_to_vec(csi_proxy.as_slice(), CompressionLevel::Fastest);
        let manifest = json!({
            "agent": {"file": "agent", "version": "v", "sha256": write("agent", &agent)},
            "csiProxy": {
                "file": "csiProxy", "version": "v1.3.0", "sha256": sha256_hex(&csi_proxy),
                "packed": {
                    "file": "packed", "format": "zstd", "sha256": write("packed", &packed),
                    "unpackedSize": csi_proxy.len(),
                },
            },
        });
        write("payload.json", manifest.to_string().as_bytes());
        let payload = Payload::load(folder.path()).unwrap();
        let flags = csi_proxy_flags(&[]).unwrap();
        Self {
            desired: desired(&payload, &WindowsStorageSpec::default(), flags),
            payload,
            folder,
        }
    }
}

impl Scene {
    pub fn new() -> Self {
        let fleet = SimulatedFleet::new().unwrap();
        let pem = fleet.private_key().unwrap();
        // These tests are about the transport, so the host always has a rollout slot.
        let scene = Self {
            server: (Profile::V9_5, Shell::Cmd),
            slots: RolloutSlots::default(),
            key: PrivateKey::of_test(pem.into_bytes()),
            fleet,
            old: Programs::new(1),
            new: Programs::new(2),
        };
        scene.give(&["win-1"]);
        scene
    }

    /// Gives the rollout slots to these nodes.
    pub fn give(&self, nodes: &[&str]) {
        let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        self.slots.decide(|_| (nodes, ()));
    }

    /// Returns a scene for each version of Windows' SSH server and each shell.
    pub fn of_every_server() -> impl Iterator<Item = Self> {
        Self::of(
            Profile::ALL
                .map(|profile| Shell::ALL.map(|shell| (profile, shell)))
                .concat(),
        )
    }

    /// Returns scenes for the two servers that differ most.
    pub fn of_the_oldest_and_the_newest_server() -> impl Iterator<Item = Self> {
        Self::of(vec![
            (Profile::V7_7, Shell::PowerShell),
            (Profile::V9_8, Shell::Cmd),
        ])
    }

    fn of(servers: Vec<(Profile, Shell)>) -> impl Iterator<Item = Self> {
        servers.into_iter().map(|server| Self {
            server,
            ..Self::new()
        })
    }

    pub fn host(&self) -> SimulatedHost {
        let host = self.fleet.add_host("win-1").unwrap();
        host.become_like(self.server.0, self.server.1);
        host
    }

    /// Returns a host with the old programs installed.
    pub async fn host_with_old(&self) -> SimulatedHost {
        let host = self.host();
        let reconciled = self.go(&host, &self.old).await.unwrap();
        assert_eq!(reconciled.problem, None);
        host
    }

    /// Returns a target that pins the current key of the host.
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
            is_given: false,
            is_ours: host.with_disk(|disk| disk.file(AGENT_EXE).is_some()),
            purpose: Purpose::Reconcile,
            desired: Ok(programs.desired.clone().into()),
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

    /// Returns a context for reconciles that install these programs.
    pub fn context(&self, programs: &Programs) -> Context {
        Context::of_test(&programs.payload, &self.slots)
    }

    /// Returns the error of a reconcile, before or after the login.
    pub async fn problem(&self, host: &SimulatedHost, programs: &Programs) -> Option<NodeError> {
        let reconciled = self.go(host, programs).await;
        reconciled.map_or_else(Some, |reconciled| reconciled.problem)
    }
}

/// Returns the hashes of the programs on the host, which differ for partial files.
pub fn programs_on(host: &SimulatedHost) -> [Option<String>; 2] {
    host.with_disk(|disk| [AGENT_EXE, CSI_PROXY_EXE].map(|path| Some(disk.file(path)?.sha256())))
}

/// Expects each program to be complete, as before or after the work, or missing if it was missing before.
pub fn expect_whole(host: &SimulatedHost, whole: &[[Option<String>; 2]; 2], place: &str) {
    for (index, has) in programs_on(host).iter().enumerate() {
        let is_whole = whole.iter().any(|may_have| may_have[index] == *has);
        assert!(is_whole, "{place}: a program is half there");
    }
}

/// Returns the temporary files of reconciles on the host.
pub fn left_over(host: &SimulatedHost) -> Vec<String> {
    let bootstrap = to_sftp(BOOTSTRAP_DIR).to_lowercase();
    let mut files = host.with_disk(|disk| disk.files());
    files.retain(|file| file.contains("/incoming/") || file.contains(&bootstrap));
    files
}

#[track_caller]
pub fn assert_desired(host: &SimulatedHost, reconciled: &Reconciled, programs: &Programs) {
    let is_desired = is_as_desired(host, reconciled, programs);
    assert!(is_desired, "{reconciled:?}");
}

pub fn is_as_desired(host: &SimulatedHost, reconciled: &Reconciled, programs: &Programs) -> bool {
    let Programs {
        payload, desired, ..
    } = programs;
    let state = reconciled.state.clone().unwrap_or_default();
    let wanted = [&payload.agent, &payload.csi_proxy].map(|program| Some(program.sha256.clone()));
    programs_on(host) == wanted
        && reconciled.problem.is_none()
        && state.agent_service == ServiceState::Running
        && state.request_id.as_ref() == Some(&desired.request.id)
        && state.unfinished_request_id.is_none()
}
