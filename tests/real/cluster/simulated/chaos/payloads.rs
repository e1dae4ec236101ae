//! Payloads of many versions, with programs that take several writes to transfer.

use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use simulated_host::{File, SimulatedHost};
use windows_storage_operator::node::payload::sha256_hex;

use crate::cluster::harness::write_payload;

const SIZE: usize = 150_000;
/// Path of csi-proxy on a host.
pub const CSI_PROXY: &str = r"C:\k\csi-proxy.exe";
/// Path of the agent on a host.
pub const AGENT: &str = r"C:\k\windows-storage-agent.exe";

/// The folder that contains the payloads.
pub struct Payloads(PathBuf);

impl Payloads {
    pub fn new(folder: &Path) -> Self {
        Self(folder.join("chaos"))
    }

    /// Returns the name of a version.
    pub fn version(number: u32) -> String {
        format!("v2.{number}.0")
    }

    /// Returns the folder of a version.
    pub fn of(&self, number: u32) -> PathBuf {
        self.0.join(Self::version(number))
    }

    /// Returns the hash of csi-proxy in a version.
    pub fn sha256(number: u32) -> String {
        sha256_hex(&content(u64::from(number)))
    }

    /// Returns the hash of the agent, which stays the same.
    pub fn agent_sha256() -> String {
        sha256_hex(&content(0))
    }

    pub fn make(&self, number: u32) {
        let agent = (&*content(0), env!("CARGO_PKG_VERSION"));
        let csi_proxy = (&*content(number.into()), &*Self::version(number));
        write_payload(&self.of(number), agent, csi_proxy);
    }
}

fn content(number: u64) -> Vec<u8> {
    let mut content = vec![0; SIZE];
    StdRng::seed_from_u64(number).fill_bytes(&mut content);
    content
}

/// Returns the hash of csi-proxy on a host.
pub fn csi_proxy_of(host: &SimulatedHost) -> Option<String> {
    host.with_disk(|disk| disk.file(CSI_PROXY).map(File::sha256))
}
