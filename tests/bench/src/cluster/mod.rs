//! Large clusters on the real API server, with objects as large as real ones.

mod load;

use std::path::Path;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use testbed::control_plane::ControlPlane;
use testbed::sandbox::install;

use load::Loader;
pub use load::send;
pub use testbed::realistic::{DRIVER, Os, node_name};

/// Number of objects for one operating system. Each node also has a pod of the CSI driver.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub nodes: usize,
    /// Pods with one claim and one volume each: in-tree on Windows, CSI on Linux.
    pub stateful_pods: usize,
    /// Pods without storage.
    pub stateless_pods: usize,
}

/// Size of a cluster. On the last Windows node, the CSI driver of the in-tree volumes is not registered.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub windows: Part,
    pub linux: Part,
}

/// 500 Windows nodes and 1,500 Linux nodes, 20,000 pods, 5,000 claims with their volumes.
pub const LARGE: Size = Size {
    windows: Part::new(500, 2_500, 2_000),
    linux: Part::new(1_500, 2_500, 11_000),
};
/// 5,000 nodes, 2,000 of them with Windows, and 150,000 pods.
pub const HUGE: Size = Size {
    windows: Part::new(2_000, 5_000, 8_000),
    linux: Part::new(3_000, 2_000, 130_000),
};

impl Part {
    const fn new(nodes: usize, stateful_pods: usize, stateless_pods: usize) -> Self {
        Self {
            nodes,
            stateful_pods,
            stateless_pods,
        }
    }
}

/// Starts a control plane that has the operator's CRDs and RBAC and a cluster of this size.
pub fn start(size: &Size) -> Result<ControlPlane> {
    let control_plane = ControlPlane::start()?;
    install(&control_plane)?;
    runtime()?.block_on(async {
        let mut loader = Loader::new(&control_plane).await?;
        loader.shared().await?;
        loader.cluster(size).await
    })?;
    Ok(control_plane)
}

/// Returns a client with the credentials of this kubeconfig.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

/// Returns the runtime for the clients of a measurement.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the runtime")
}
