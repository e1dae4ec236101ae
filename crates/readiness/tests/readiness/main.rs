//! Compares the readiness report with an independent oracle, on handwritten and random clusters.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod cases;
mod engine;
mod findings;
mod generate;
mod oracle;
mod preview;
mod run;
mod trust;
