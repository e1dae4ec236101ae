//! Tests the samples in `manifests/samples`: their content, how the API server and its controllers handle them, and the
//! verdict of `check` for a cluster that has them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
pub mod catalogue;
mod forms;
mod images;
mod report;
mod versions;
mod walk;
