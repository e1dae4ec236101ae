//! The agent on a real Service Control Manager API (Wine's), with the real csi-proxy.

#![cfg(unix)]
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
mod intruder;
mod keeping;
mod life;
mod packed;
mod replace_agent;
mod scripts;
mod standin;
mod stops;
mod uninstall;
mod verify;
