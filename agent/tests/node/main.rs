//! The agent with a real Service Control Manager and the real csi-proxy: under Wine, where each test has its own host, or on
//! a disposable Windows machine.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows only test functions, not their helpers"
)]

mod answers;
mod crash;
mod faults;
mod foreign;
mod guard;
mod host;
// Sets access control lists through Unix permissions.
#[cfg(unix)]
mod intruder;
mod keeping;
mod life;
#[cfg(windows)]
mod native;
#[cfg(unix)]
mod natively;
mod packed;
mod programs;
mod replace_agent;
mod standin;
mod stops;
mod strange;
mod uninstall;
