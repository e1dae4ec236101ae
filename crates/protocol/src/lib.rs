//! The protocol between the operator and the agent on a Windows node.
//!
//! A request is a JSON file that SFTP uploads; an answer is one line of JSON, the last line of standard output. Readers
//! accept unknown fields and enum values, so that an operator and an agent of neighbouring versions work together.

pub mod command;
pub mod document;
pub mod order;
pub mod paths;
pub mod seen;
pub mod validate;

mod answer;
mod failure;
mod request;

pub use answer::*;
pub use failure::{Failure, FailureCategory};
pub use request::*;
