//! `verify-node` on a Windows host under Wine: its results match the baseline, and it leaves nothing behind.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use serde_json::Value;
use testbed::windows_host::{Fleet, WindowsHost};

/// The expected results for Wine; `UPDATE_CONFORMANCE=1` writes them.
const BASELINE: &str = "docs/conformance/wine-node.json";
/// Fields that differ each time, or quote the host.
const VARYING: [&str; 3] = ["milliseconds", "interruptionMilliseconds", "problem"];

struct Scene {
    fleet: Fleet,
    host: WindowsHost,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let fleet = Fleet::new().unwrap();
        let host = fleet.add_host("win-1").unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self {
            fleet,
            host,
            folder,
        }
    }

    /// Sets the trusted keys of the host.
    fn trust(&self, key: &str) {
        let (address, port) = (self.host.address(), self.host.port());
        let line = format!("[{address}]:{port} {key}\n");
        fs::write(self.folder.path().join("known_hosts"), line).unwrap();
    }

    fn verify(&self, arguments: &[&str]) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
            .arg("verify-node")
            .arg(format!("{}@{}", self.fleet.user(), self.host.address()))
            .args(["--port", &self.host.port().to_string()])
            .arg("--identity-file")
            .arg(self.fleet.private_key_file())
            .arg("--known-hosts")
            .arg(self.folder.path().join("known_hosts"))
            .arg("--payload-dir")
            .arg(root.join("target/payload"))
            // Faster than typical users' lines, so that this part stays within the time limit.
            .args(["--slow-line", "400"])
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Asserts that nothing was tried, for this reason.
    fn expect_refusal(&self, words: &str) {
        let output = self.verify(&[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said.contains(words), "{said}");
        assert!(output.stdout.is_empty(), "{output:?}");
        for folder in ["k/windows-storage", "windows/windows-storage"] {
            assert!(!self.host.drive_c().join(folder).exists(), "{folder}");
        }
    }
}

#[test]
fn a_host_is_taken_through_all_steps_and_a_node_only_where_that_is_wanted() {
    let scene = Scene::new();
    scene.trust("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVua25vd24gdW5rbm93biB1bmtub3duIHVua24=");
    scene.expect_refusal("which is not one that is trusted");
    scene.trust(&scene.host.host_key().unwrap());
    let kubelet = r"HKLM\SYSTEM\CurrentControlSet\Services\kubelet";
    let command = format!(r"reg add {kubelet} /v ImagePath /d C:\kubelet.exe /f");
    assert!(scene.host.run(&command).unwrap().status.success());
    scene.expect_refusal("the host is in use: service kubelet");

    let output = scene.verify(&["--destructive"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut lines = printed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let described = lines.next().unwrap_or_else(|| panic!("{said}"));
    assert!(
        described["sshServer"]
            .as_str()
            .unwrap()
            .starts_with("SSH-2.0-OpenSSH"),
        "{described}"
    );
    let mut seen = String::new();
    for mut line in lines {
        let fields = line.as_object_mut().unwrap();
        assert!(fields["milliseconds"].is_u64());
        fields.retain(|name, _| !VARYING.contains(&name.as_str()));
        seen += &line.to_string();
        seen.push('\n');
    }
    let baseline = Path::new(env!("CARGO_MANIFEST_DIR")).join(BASELINE);
    if env::var_os("UPDATE_CONFORMANCE").is_some() {
        fs::write(&baseline, &seen).unwrap();
    }
    let known = fs::read_to_string(baseline).unwrap_or_default();
    assert_eq!(seen, known, "{said}\n{printed}");
    assert!(!known.contains("\"fits\":false"), "{printed}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}
