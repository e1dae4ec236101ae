//! `check`: assesses a cluster, or files that were exported from one.

mod from_api;
mod from_files;

pub use crate::files::Progress;
pub use from_api::{ApiError, conclude, from_api, list};
pub use from_files::{Input, InputError, from_files};
