//! Tests the gate with the real Operator Lifecycle Manager (v0): the operator is installed and upgraded from its CSVs.
//!
//! OLM, the API server, and the controllers for Deployments and garbage collection are real. The test stands in for the
//! rest: what an `InstallPlan` creates, and what a kubelet does with a Pod.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cluster;
pub mod install;
mod kubelet;
mod page;
mod record;
mod refusal;
mod story;
mod variants;
