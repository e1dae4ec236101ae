//! The operator for Linux on arm64, as in its image but not optimized.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{assert_alike, assert_judges_files, built, held_cluster, here, input, root};

/// Longer than the controller takes; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(300);
/// The libraries that it is linked with.
static SYSROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let mut sysroot = Command::new(root().join("tools/sysroot"));
    let path = testbed::commands::printed(sysroot.arg("aarch64-unknown-linux-gnu")).unwrap();
    PathBuf::from(path.trim())
});
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| built("LINUX_ARM64"));

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("qemu-aarch64");
    command
        .arg("-L")
        .arg(&*SYSROOT)
        .arg(&*PROGRAM)
        .args(arguments)
        .current_dir(input())
        .env_remove("KUBECONFIG");
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

#[test]
fn it_is_for_arm64_and_says_its_version() {
    let start = &std::fs::read(&*PROGRAM).unwrap()[..20];
    assert_eq!(&start[..4], b"\x7fELF");
    // EM_AARCH64 of the ELF specification.
    assert_eq!(start[18..20], [183, 0]);
    assert_alike(&run(&["--version"]), &here(&["--version"]), 0);
}

#[test]
fn it_judges_files_as_the_program_of_this_machine_does() {
    assert_judges_files(|line| run(&line.split(' ').collect::<Vec<_>>()));
}

/// Uses its own OpenSSL for TLS, and the controller logs in to a host.
#[test]
fn it_judges_a_cluster_and_runs() {
    let (sandbox, host) = held_cluster();
    let control_plane = &sandbox.control_plane;
    let kubeconfig = control_plane.kubeconfig().to_str().unwrap();
    let arguments = ["check", "--kubeconfig", kubeconfig, "-o", "json"];
    assert_alike(&run(&arguments), &here(&arguments), 3);

    let payload = root().join("target/payload");
    let arguments = [
        "run",
        "--kubeconfig",
        kubeconfig,
        "--leader-elect=false",
        "--serve-address=none",
        "--payload-dir",
        payload.to_str().unwrap(),
    ];
    let mut controller = command(&arguments).spawn().unwrap();
    let csi_proxy = host.drive_c().join("k/csi-proxy.exe");
    let started = Instant::now();
    while !csi_proxy.exists() && started.elapsed() < PATIENCE {
        assert_eq!(controller.try_wait().unwrap(), None, "it has ended");
        sleep(Duration::from_millis(200));
    }
    controller.kill().unwrap();
    controller.wait().unwrap();
    assert!(csi_proxy.exists());
}
