//! The `windows-services` ConfigMap: the csi-proxy entry in it, and the document with the services of nodes.

mod config_map;
mod entry;
mod external;
mod node_path;
mod write;

pub use config_map::{
    Document, Others, ServicesError, ServicesPlan, others, parse, plan, plan_removal,
};
pub use entry::csi_proxy_service;
pub use external::wmco_entry;
pub use node_path::NodePath;
pub use readiness::assess::CSI_PROXY_PIPES;
pub use write::{ServicesWriter, Unwritten};

/// The ConfigMap's name.
pub const CONFIG_MAP: &str = "windows-services";
