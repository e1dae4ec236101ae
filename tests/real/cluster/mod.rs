//! Tests the operator with real components: kube-apiserver, etcd, OpenSSH, and csi-proxy as a service under Wine.
//!
//! Each test has its own cluster, because Nodes and the verdict belong to the whole cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api_faults;
mod bad_input;
mod check;
mod check_hosts;
mod clock;
mod election;
mod events;
mod external;
mod faults;
mod gate;
mod gather_faults;
pub mod harness;
mod host_keys;
mod killed_programs;
mod logs;
mod main_job;
mod metrics;
mod must_gather;
mod node_system;
mod opening;
mod policies;
mod removal;
mod replacement;
mod rights;
mod secrecy;
mod simulated;
mod tenant;
mod unread;
mod upgrade;
mod upgraded;
mod versions;
mod viewer;
mod without_olm;
