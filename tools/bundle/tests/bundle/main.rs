//! Tests the bundle: it matches its sources, has no findings, and a cluster accepts it.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod cluster;
mod drift;
mod edges;
mod project;
mod refusals;
mod relations;
mod release;
mod validators;
