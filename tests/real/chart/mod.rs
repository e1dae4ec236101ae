//! Tests the Helm chart with the real Helm.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod helm;
mod install;
mod render;
mod rights;
mod values;
