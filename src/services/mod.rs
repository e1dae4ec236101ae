//! The `windows-services` ConfigMap and the csi-proxy entry in it.

mod config_map;
mod entry;
mod write;

pub use config_map::{ServicesError, ServicesPlan, plan, plan_removal};
pub use entry::{Entry, csi_proxy_flags};
pub use readiness::assess::CSI_PROXY_PIPES;
pub use write::ServicesWriter;

/// The ConfigMap's name.
pub const CONFIG_MAP: &str = "windows-services";
