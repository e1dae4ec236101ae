//! The readiness report against an oracle of its own, on clusters written by hand and on random ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod engine;
mod findings;
mod generate;
mod oracle;
mod run;
mod trust;
