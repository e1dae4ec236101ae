//! The agent on a real Service Control Manager, with the real csi-proxy: under Wine, each test on a host of its own, or on a
//! Windows machine to throw away.

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
// It sets access lists by Unix' permissions.
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
// It puts another program in the place of PowerShell.
#[cfg(unix)]
mod scripts;
mod standin;
mod stops;
mod strange;
mod uninstall;
#[cfg(unix)]
mod verify;
