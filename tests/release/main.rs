//! Tests of how the project is released: the workflows, the files of `make release`, and the targets that the Makefile offers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod files;
mod makefile;
mod workflows;

use std::path::Path;

/// The project's folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
