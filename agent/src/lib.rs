//! What the operator and the agent on a Windows node say to each other, and the agent's own judgement.
//!
//! The modules here are plain data and pure functions: the operator uses them on Linux, the agent on Windows.
//! What touches the Service Control Manager or the file system of a node lives in the agent's program.

pub mod document;
pub mod paths;
pub mod protocol;
