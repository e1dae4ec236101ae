//! Tests how the project is released: the workflows, and the files of `make release`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod files;
mod workflows;

use std::path::Path;

/// Returns the project's root folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
