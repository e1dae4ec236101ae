//! The kubectl plugin: called by the real kubectl, installed by the real krew, completed by a real bash.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod completion;
mod krew;
mod kubectl;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// The program as the plugin.
const PLUGIN: &str = "kubectl-windows_storage";

/// A folder in which the program has all of its names.
fn linked() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    for name in ["windows-storage-operator", PLUGIN] {
        symlink(program, folder.path().join(name)).unwrap();
    }
    folder
}

/// A command that finds these folders first on its PATH.
fn with_path(mut command: Command, folders: &[&Path]) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().map(|folder| folder.to_path_buf());
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap();
    command.env("PATH", path).env_remove("KUBECONFIG");
    command
}

/// What a command printed, which has to have succeeded.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Both streams of a command, whatever became of it.
fn both(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|text| String::from_utf8_lossy(text))
        .concat()
}
