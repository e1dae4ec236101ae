//! Tests the documentation: links resolve, tables match the code, and commands do what the pages show.
//!
//! Run with `cargo test --test docs`, or with `make docs-check`, which also prepares everything it needs.

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
