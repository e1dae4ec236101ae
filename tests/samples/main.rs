//! The samples in `manifests/samples`: what they say, what the API server and its controllers make of them, and how
//! `check` judges a cluster that has them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod catalogue;
mod forms;
mod images;
mod judged;
mod page;
mod report;
mod versions;
mod walk;
