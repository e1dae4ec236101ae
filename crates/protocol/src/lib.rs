//! The protocol between the operator and the agent on a Windows node.
//!
//! A request is a JSON file that SFTP uploads; an answer is one line of JSON, the last line of standard output. Both sides
//! are of one version: the operator replaces any other agent before it sends a request.

pub mod command;
pub mod flags;
pub mod paths;
pub mod seen;
pub mod validate;

mod answer;
mod failure;
mod request;

pub use answer::*;
pub use failure::{Failure, FailureCategory};
pub use request::*;
