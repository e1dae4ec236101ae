//! The platforms that manage csi-proxy on the nodes that they create.

use std::fmt;

names! {
    /// A platform that manages csi-proxy on its nodes.
    pub enum Platform {
        /// The Windows Machine Config Operator of OpenShift.
        WMCO,
        /// Azure Kubernetes Service.
        AKS,
        /// Amazon EKS.
        EKS,
        /// Google Kubernetes Engine.
        GKE,
        /// Rancher, through its wins service.
        Rancher,
    }
}

impl Platform {
    /// Returns the platform with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }

    /// Whether changing csi-proxy breaks the node: WMCO reverts the change and fails, and on AKS the kubelet service
    /// depends on csi-proxy.
    pub fn depends_on_csi_proxy(self) -> bool {
        matches!(self, Self::WMCO | Self::AKS)
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

impl PlatformSignal {
    /// Returns the platform that a text such as `WMCO by label …` names.
    pub fn platform_in(shown: &str) -> Option<Platform> {
        Platform::by_name(shown.split_once(" by ")?.0)
    }
}

impl fmt::Display for PlatformSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.platform.as_str(), self.shown)
    }
}
