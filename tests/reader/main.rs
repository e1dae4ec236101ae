//! The reader of files as a whole: memory that does not grow with the input, and input that is no input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod memory;
mod mutation;
