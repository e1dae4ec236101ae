//! Runs commands of this machine for tests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs a command and returns its output, or an error with both streams if it fails.
pub fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let status = output.status;
    ensure!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    Ok(stdout.into_owned())
}

/// Returns a command that searches these folders for programs first, and does not use the user's cluster.
pub fn with_path(mut command: Command, folders: &[&Path]) -> Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().map(|folder| folder.to_path_buf());
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)))?;
    command.env("PATH", path).env_remove("KUBECONFIG");
    Ok(command)
}
