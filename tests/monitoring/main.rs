//! Alerts, dashboard and documentation are about the metrics that the program serves, and Prometheus' own `promtool` is
//! content with all of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod dashboard;
mod expression;
mod page;
mod served;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The project's folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn monitoring() -> PathBuf {
    root().join("manifests/monitoring")
}

/// Runs promtool with that on its standard input, and gives what it says.
fn promtool(arguments: &[&str], folder: &Path, input: &[u8]) -> (bool, String) {
    use std::io::Write;
    let promtool = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    assert!(promtool.is_ok(), "promtool is not there: make setup");
    let mut promtool = promtool.unwrap();
    promtool.stdin.take().unwrap().write_all(input).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}
