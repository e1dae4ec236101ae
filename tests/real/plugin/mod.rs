//! Tests the kubectl plugin: called by the real kubectl, installed by the real krew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod krew;
mod kubectl;

use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

/// The program's name as a plugin.
const PLUGIN: &str = "kubectl-windows_storage";

/// Creates a folder with the program under all of its names.
fn linked() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_windows-storage-operator"));
    for name in ["windows-storage-operator", PLUGIN] {
        symlink(program, folder.path().join(name)).unwrap();
    }
    folder
}
