//! Tests the container image: its contents, and the operator running from it as the manifest's pod does.
//!
//! `make image-dev` builds the image that is checked here; `make image-check` checks the one of `make image`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod archive;
mod contents;
mod documents;
mod must_gather;
mod pod;
