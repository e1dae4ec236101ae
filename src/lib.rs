//! Keeps csi-proxy running on the Windows nodes of a cluster, and holds upgrades while in-tree volumes of Windows workloads
//! lack their CSI drivers.
//!
//! Data flows one way: [`watch`] fills the [`index`], [`assess`] judges it, [`run`] makes [`node`], [`services`], [`gate`]
//! and [`status`] act on the judgement, and what they observe goes into the next judgement.

pub mod check;
pub mod client;
pub mod files;
pub mod gate;
pub mod gather;
pub mod http;
pub mod lease;
pub mod node;
pub mod process;
pub mod report;
pub mod run;
pub mod services;
pub mod status;
pub mod watch;

pub use readiness::{api, assess, index, objects, visible};
