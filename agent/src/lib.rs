//! What the operator and the agent on a Windows node say to each other, and the agent's own judgement.
//!
//! The modules here are plain data and functions for any system: the operator uses them on Linux, the agent on Windows.
//! What touches the Service Control Manager or changes the files of a node lives in the agent's program.

pub mod cli;
pub mod command;
pub mod digest;
pub mod document;
pub mod durations;
pub mod errors;
pub mod failure_actions;
pub mod interruption;
pub mod journal;
pub mod keep;
pub mod order;
pub mod owners;
pub mod paths;
pub mod plan;
pub mod protocol;
pub mod rotation;
pub mod scripts;
pub mod seen;
pub mod state;
pub mod timestamp;
pub mod unpack;
pub mod validate;
