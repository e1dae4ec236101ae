//! Code that only the build for tests contains: `tools/build-agent --fault-injection` adds it.

#![cfg(windows)]

mod heap;
mod points;

pub use heap::watch_heap;
pub use points::{hang, point, shuts_down};
