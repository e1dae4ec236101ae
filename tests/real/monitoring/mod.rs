//! Alerts, dashboard and documentation match the metrics that the program serves, and Prometheus' own `promtool`
//! accepts all of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod dashboard;
mod expression;
mod page;
mod served;

use std::path::{Path, PathBuf};

/// Returns the project's root folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn monitoring() -> PathBuf {
    root().join("manifests/monitoring")
}

fn promtool(arguments: &[&str], folder: &Path, input: &[u8]) -> (bool, String) {
    testbed::promtool::promtool(arguments, folder, input).unwrap()
}
