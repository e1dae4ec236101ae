//! Runs the image for `oc adm must-gather` as oc starts it, and copies the result as oc does.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use testbed::cleanup::Guardian;
use testbed::objects;
use testbed::sandbox::Sandbox;

use crate::archive::Image;
use crate::pod::{namespaces, write_service_account};

/// Builds a command that runs a program of the image in the image's root.
pub fn in_image(guardian: &Guardian, root: &Path, arguments: &[&str]) -> Command {
    let mut command = match namespaces() {
        Some(arguments) => {
            let mut command = guardian.command("unshare");
            command.args(arguments).arg("chroot");
            command
        }
        None => guardian.command("chroot"),
    };
    command.arg(root).args(arguments).stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn oc_can_start_it_and_copy_what_it_gathers() {
    let sandbox = Sandbox::reuse().unwrap();
    let control_plane = &sandbox.control_plane;
    sandbox.add_node("win-1", None).unwrap();
    sandbox.register("win-1", &[]).unwrap();
    control_plane
        .apply(&objects::azure_disk_workload("win-1"))
        .unwrap();
    for create in [
        "create serviceaccount gatherer -n default",
        "create clusterrolebinding gatherer --clusterrole=cluster-admin --serviceaccount=default:gatherer",
    ] {
        let words: Vec<&str> = create.split(' ').collect();
        control_plane.kubectl(&words).unwrap();
    }

    let image = Image::must_gather();
    let guardian = Guardian::temp("must-gather").unwrap();
    let root = guardian.dir().join("root");
    let mut copy = Command::new("cp");
    succeed(
        copy.args(["--archive", "--reflink=auto"])
            .args([&image.root, &root]),
    );
    write_service_account(&sandbox, &root, "default", "gatherer");
    // The mount point of the pod's volume.
    fs::create_dir(root.join("must-gather")).unwrap();

    let watched = "for tool in df awk sed pkill sleep; do command -v $tool || exit; done";
    let mut bash = in_image(&guardian, &root, &["/bin/bash", "-c", watched]);
    succeed(&mut bash);
    let server = control_plane.server().trim_start_matches("https://");
    let (host, port) = server.split_once(':').unwrap();
    let line = "echo 'volume percentage checker started' & /usr/bin/gather; sync";
    let mut gather = in_image(&guardian, &root, &["/bin/bash", "-c", line]);
    for variable in image.config["config"]["Env"].as_array().unwrap() {
        let (name, value) = variable.as_str().unwrap().split_once('=').unwrap();
        gather.env(name, value);
    }
    gather
        .env_remove("KUBECONFIG")
        .env_remove("HOME")
        .env("KUBERNETES_SERVICE_HOST", host)
        .env("KUBERNETES_SERVICE_PORT", port);
    let output = succeed(&mut gather);
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(
        reported.contains("Windows nodes: 0 of 1 reached"),
        "{reported}"
    );

    let archive = guardian.dir().join("copied.tar");
    let mut tar = in_image(&guardian, &root, &["tar", "-C", "/must-gather", "-c", "."]);
    fs::write(&archive, succeed(&mut tar).stdout).unwrap();
    let copied = guardian.dir().join("copied");
    fs::create_dir(&copied).unwrap();
    let mut tar = Command::new("tar");
    succeed(tar.arg("-xf").arg(&archive).arg("-C").arg(&copied));
    let version = fs::read_to_string(copied.join("version")).unwrap();
    let expected = format!("windows-storage-operator\n{}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version, expected);
    let output = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
        .args(["check", "-f"])
        .arg(&copied)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{shown}");
    assert!(shown.contains("pv-orders"), "{shown}");
}
