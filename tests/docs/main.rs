//! The documentation: links lead somewhere, tables say what the code says, and commands do what the pages show.
//!
//! `cargo test --test docs`, or `make docs-check` with all that it needs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod blocks;
mod contents;
mod length;
mod links;
mod objects;
mod output;
mod pages;
mod rules;
mod world;
