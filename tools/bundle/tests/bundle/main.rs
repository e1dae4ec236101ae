//! The bundle: that of its sources, without a finding, and one that a cluster takes.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod cluster;
mod drift;
mod edges;
mod guide;
mod project;
mod refusals;
mod relations;
mod release;
mod validators;
