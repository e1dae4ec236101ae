//! The platforms that manage csi-proxy on the nodes that they create.

use std::fmt;

/// A platform that manages csi-proxy on its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// The Windows Machine Config Operator of OpenShift.
    Wmco,
    /// Azure Kubernetes Service.
    Aks,
    /// Amazon EKS.
    Eks,
    /// Google Kubernetes Engine.
    Gke,
    /// Rancher, through its wins service.
    Rancher,
}

impl Platform {
    const ALL: [Self; 5] = [Self::Wmco, Self::Aks, Self::Eks, Self::Gke, Self::Rancher];

    /// Returns the short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wmco => "WMCO",
            Self::Aks => "AKS",
            Self::Eks => "EKS",
            Self::Gke => "GKE",
            Self::Rancher => "Rancher",
        }
    }

    /// Returns the platform with this short name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether changing csi-proxy breaks the node: WMCO reverts the change and fails, and on AKS the kubelet service
    /// depends on csi-proxy.
    #[must_use]
    pub fn depends_on_csi_proxy(self) -> bool {
        matches!(self, Self::Wmco | Self::Aks)
    }
}

/// The platform of a Node, and the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformSignal {
    /// The platform.
    pub platform: Platform,
    /// The label, annotation, taint or version that shows the platform.
    pub shown: String,
}

impl fmt::Display for PlatformSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.platform.name(), self.shown)
    }
}
