//! The gate on the real Operator Lifecycle Manager (v0): the operator is installed and upgraded from its CSVs.
//!
//! Real are OLM, the API server, and the controllers that make Pods of Deployments and take away what has lost its
//! owner. The test does the rest of a cluster: what an `InstallPlan` makes, and what a kubelet does with a Pod.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cluster;
mod install;
mod kubelet;
mod page;
mod record;
mod refusal;
mod story;
mod variants;
