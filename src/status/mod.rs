//! The status of this operator's custom resources, and the events that report its changes.

mod cluster;
mod conditions;
mod csi_proxy;
mod events;
mod node;
mod node_writer;
mod ready;
mod removal;
mod rollout;
mod sentence;
#[cfg(test)]
mod server;
mod upgraded;
mod writer;

pub use cluster::{INSTANCES_CONFIG_MAP, cluster_status};
pub use conditions::find;
pub use csi_proxy::CSI_PROXY_READY;
pub use events::EventSink;
pub use node::{NodeInputs, has_accepted, is_ready, node_status};
pub use node_writer::{NodeStatus, NodeStatuses, NodeWriter};
pub use rollout::{PROGRESS, ROLLOUT_PROGRESSING};
pub use writer::SettingsWriter;
