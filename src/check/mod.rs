//! `check`: the judgement on a cluster, or on files that were taken from one.

mod from_api;
mod from_files;

pub use crate::files::Progress;
pub use from_api::{ApiError, Keeper, from_api, from_api_for};
pub use from_files::{Input, InputError, from_files};
