//! Tests the program as built for other platforms: Linux on arm64, run by qemu, and Windows, run by Wine. Their output
//! must match that of the program for this machine.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod arm64;
mod windows;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testbed::objects;
use testbed::sandbox::Sandbox;
use testbed::windows_host::WindowsHost;

/// The sample clusters, and the exit status of `check` for each.
const CLUSTERS: [(&str, i32); 4] = [
    ("azure-1.27", 3),
    ("gce-1.23", 3),
    ("ready-1.31", 0),
    ("vsphere-1.26", 3),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of the sample clusters.
fn input() -> PathBuf {
    root().join("tests/check/input")
}

/// Returns the program for a platform such as `WINDOWS_AMD64`.
fn built(platform: &str) -> PathBuf {
    let path = std::env::var_os(format!("OPERATOR_{platform}"));
    PathBuf::from(path.expect("make test-release builds the program, and says where"))
}

/// Creates a cluster with one Windows node that lacks the driver of its workload, and with SSH access to it.
fn held_cluster() -> (Sandbox, WindowsHost) {
    let sandbox = Sandbox::reuse().unwrap();
    let host = sandbox.add_windows_node("win-1").unwrap();
    sandbox.give_access().unwrap();
    let workload = objects::azure_disk_workload("win-1");
    sandbox.control_plane.apply(&workload).unwrap();
    (sandbox, host)
}

/// Runs the program of this machine.
fn here(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(arguments)
        .current_dir(input())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

/// Asserts that both ended alike and with this status.
#[track_caller]
fn assert_alike(there: &Output, here: &Output, status: i32) {
    let [there_out, there_err, here_out, here_err] =
        [&there.stdout, &there.stderr, &here.stdout, &here.stderr].map(|text| timeless(text));
    assert_eq!(here.status.code(), Some(status), "{here_err}");
    assert_eq!(there.status.code(), Some(status), "{there_out}{there_err}");
    assert_eq!(there_out, here_out);
    assert_eq!(there_err, here_err);
}

/// Returns what is printed, but for where and when a report was read.
fn timeless(printed: &[u8]) -> String {
    let printed = String::from_utf8_lossy(printed);
    let mut report = printed.rsplit("\n  \"cluster\": ");
    let lines = report.next().unwrap_or_default().split_inclusive('\n');
    let judged = lines.filter(|line| !line.starts_with("Read from "));
    judged.collect()
}

/// Asserts that the program there, given arguments after the folder of the clusters, judges them as the one here.
fn assert_judges_files(run: impl Fn(&str) -> Output) {
    for (cluster, status) in CLUSTERS {
        for format in ["table", "json"] {
            let line = format!("check -f {cluster} -o {format}");
            let words: Vec<&str> = line.split(' ').collect();
            assert_alike(&run(&line), &here(&words), status);
        }
    }
}
