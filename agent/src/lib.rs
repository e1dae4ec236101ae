//! The pure part of the agent: decisions without calls to Windows.
//!
//! These modules are plain data and functions for any system, so that they can be tested on Linux. Code that calls the
//! Service Control Manager or changes files of the node is in the agent's program.

pub mod ascii;
pub mod cli;
pub mod digest;
pub mod errors;
pub mod events;
pub mod grpc;
pub mod journal;
pub mod keep;
pub mod owners;
pub mod probe;
pub mod rotation;
pub mod state;
pub mod unpack;
pub mod wanted;
