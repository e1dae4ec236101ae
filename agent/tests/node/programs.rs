//! The Windows programs that tests install. `tools/test-programs` builds them before: into `target/test-programs`, or into
//! the folder that `TEST_PROGRAMS` names on a Windows machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Which build of the agent a test installs.
#[derive(Clone, Copy, Debug)]
pub enum Build {
    /// The build for nodes.
    Payload,
    /// The build that a test can kill at a chosen point, and that ends if its heap is damaged.
    FaultInjection,
}

pub fn agent(which: Build) -> Vec<u8> {
    // `make guarded` runs tests with the build for tests.
    let is_guarded = std::env::var_os("GUARDED_AGENT").is_some();
    read(match which {
        Build::Payload if !is_guarded => "windows-storage-agent.exe",
        Build::Payload | Build::FaultInjection => "windows-storage-agent--fault-injection.exe",
    })
}

pub fn csi_proxy(version: &str) -> Vec<u8> {
    read(&format!("csi-proxy-{version}.exe"))
}

/// Returns the stand-in, without the configuration of its behaviour.
pub fn standin() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| read("standin.exe"))
}

fn read(name: &str) -> Vec<u8> {
    let path = program(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}: {HOW}", path.display()))
}

/// Returns the path of a program that tests install.
pub fn program(name: &str) -> PathBuf {
    let named = std::env::var_os("TEST_PROGRAMS").map(PathBuf::from);
    // Not on a Windows machine by mistake: tests install csi-proxy and the agent, and remove them.
    let default =
        cfg!(unix).then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-programs"));
    let folder = named.or(default).unwrap_or_else(|| panic!("{HOW}"));
    folder.join(name)
}

const HOW: &str = "run tools/test-programs first; on Windows, set TEST_PROGRAMS to its folder, on a machine to throw away";
