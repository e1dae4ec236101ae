//! `check`: the judgement on a cluster, or on files that were taken from one.

mod from_api;
mod from_files;

pub use from_api::{ApiError, Keeper, from_api, from_api_for};
pub use from_files::{Input, InputError, from_files};

/// How far reading has come, for people who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file or the kind that is being read.
    pub what: &'a str,
    /// How many files or kinds are done.
    pub done: u64,
    /// How many there are.
    pub of: u64,
    /// Objects that were read.
    pub objects: u64,
    /// Bytes that were read, where that is known.
    pub bytes: Option<u64>,
}
