//! Runs commands of this machine for tests.

use std::collections::BTreeSet;
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

/// Returns the names of the DLLs that a Windows program imports, in lower case.
pub fn imported_libraries(program: &Path) -> Result<BTreeSet<String>> {
    let headers = printed(
        Command::new("x86_64-w64-mingw32-objdump")
            .arg("-p")
            .arg(program),
    )?;
    let names = headers
        .lines()
        .filter_map(|line| line.trim().strip_prefix("DLL Name: "));
    Ok(names.map(str::to_lowercase).collect())
}

/// Returns a command that searches these folders for programs first, and does not use the user's cluster.
pub fn with_path(mut command: Command, folders: &[&Path]) -> Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().map(|folder| folder.to_path_buf());
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)))?;
    command.env("PATH", path).env_remove("KUBECONFIG");
    Ok(command)
}
