//! Real components for tests, the demo and the local run: a Kubernetes control plane and sandboxed Windows hosts.

pub mod api_proxy;
pub mod cleanup;
pub mod commands;
pub mod control_plane;
pub mod markdown;
pub mod node_agent;
pub mod objects;
pub mod olm;
pub mod parts;
pub mod promtool;
pub mod realistic;
pub mod relay;
pub mod reused;
pub mod sandbox;
pub mod windows_host;
