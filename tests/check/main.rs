//! `check -f` as a program: what it prints, what it ends with, and what it makes of bad input.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ask;
mod authority;
mod cases;
mod contract;
mod duplicates;
mod encodings;
mod fields;
mod forms;
mod golden;
mod help;
mod hostile;
mod not_parsed;
mod run;
mod status;
