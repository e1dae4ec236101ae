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
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns how csi-proxy comes to the platform's nodes.
    pub(crate) fn brings_csi_proxy(self) -> &'static str {
        match self {
            Self::Wmco => {
                "the Windows Machine Config Operator installs it, if the ConfigMap windows-services-… in its namespace lists csi-proxy \
                 (from 7.2.0, 8.0.2 and 9.0.0 on)"
            }
            Self::Aks => "it is in AKS's node image, so ask Azure",
            Self::Eks => "it is in EKS's node image, so ask AWS",
            Self::Gke => "GKE installs it, so ask Google",
            Self::Rancher => "Rancher's service rancher-wins installs it, as csiproxy",
        }
    }

    /// Whether changing csi-proxy breaks the node: WMCO reverts the change and fails, and on AKS the kubelet service
    /// depends on csi-proxy.
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

impl PlatformSignal {
    /// Returns the platform that a text such as `WMCO by label …` names.
    pub fn platform_in(shown: &str) -> Option<Platform> {
        Platform::by_name(shown.split_once(" by ")?.0)
    }
}

impl fmt::Display for PlatformSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.platform.name(), self.shown)
    }
}
