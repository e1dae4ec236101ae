//! Tests `check -f` as a process: its output, its exit status, and how it handles bad input.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod archives;
mod ask;
mod authority;
mod cases;
mod duplicates;
mod fields;
mod forms;
mod golden;
mod help;
mod hostile;
mod not_parsed;
mod run;
mod schema;
mod status;
