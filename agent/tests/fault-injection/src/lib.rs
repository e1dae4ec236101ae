//! What only an agent for tests has: `tools/build-agent --fault-injection` builds it in.

#![cfg(windows)]

mod heap;
mod points;

pub use heap::watch_heap;
pub use points::{hang, hangs, point, shuts_down};
