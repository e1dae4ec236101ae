//! Tests the testbed itself: it provides what the operator's tests rely on.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows only test functions, not their helpers"
)]

mod simulated_host;
