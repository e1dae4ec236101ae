//! What the tests of the operator stand on does what they will count on.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows only test functions, not their helpers"
)]

mod client;
mod control_plane;
mod simulated_host;
mod windows_host;
