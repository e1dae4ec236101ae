//! The kubectl plugin: called by the real kubectl, installed by the real krew, completed by a real bash.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod completion;
mod krew;
mod kubectl;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

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

/// Both streams of a command, whatever became of it.
fn both(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|text| String::from_utf8_lossy(text))
        .concat()
}
