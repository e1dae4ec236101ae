//! The node side of CSI drivers: what a pod or a DaemonSet shows of the driver that it brings to nodes.

use std::collections::BTreeSet;

use crate::index::Name;

/// What a pod template shows of a CSI driver's node side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSide {
    /// Names of drivers that it may be: from the registrar's path, the plugin's folder and the images.
    pub names: BTreeSet<Name>,
    /// The csi-proxy pipes that it mounts, without `\\.\pipe\`.
    pub csi_proxy_pipes: Vec<String>,
    /// What it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Its images but those of the usual sidecars.
    pub images: Vec<Image>,
    /// The tag of an image of csi-proxy itself; empty where the image has none.
    pub csi_proxy: Option<String>,
}

impl NodeSide {
    /// Whether it names the driver.
    #[must_use]
    pub fn names_driver(&self, driver: &str) -> bool {
        self.names.contains(driver)
    }

    /// Whether it may run where that taint is.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations
            .iter()
            .any(|toleration| toleration.covers(taint))
    }
}

/// A pod that looks like a part of a CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverPod {
    /// Names of drivers that it may be.
    pub names: BTreeSet<Name>,
    /// Its condition `Ready`; a pod that is being deleted is not ready.
    pub ready: bool,
    /// Why a container of it waits or has ended, such as `CrashLoopBackOff`.
    pub trouble: Option<String>,
}

/// An image by the last part of its name and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The last part of its name.
    pub name: String,
    /// Major and minor version in its tag.
    pub version: (u64, u64),
    /// The tag as it is.
    pub tag: String,
}

/// A taint that keeps pods from a Node: its effect is `NoSchedule` or `NoExecute`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value, empty where there is none.
    pub value: String,
    /// The effect.
    pub effect: String,
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, value, effect } = self;
        if value.is_empty() {
            write!(f, "{key}:{effect}")
        } else {
            write!(f, "{key}={value}:{effect}")
        }
    }
}

/// A toleration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    /// The key; `None` for every key.
    pub key: Option<String>,
    /// The value; `None` for every value (operator `Exists`).
    pub value: Option<String>,
    /// The effect; `None` for every effect.
    pub effect: Option<String>,
}

impl Toleration {
    /// As Kubernetes matches it.
    #[must_use]
    pub fn covers(&self, taint: &Taint) -> bool {
        let all_or =
            |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        all_or(&self.key, &taint.key)
            && all_or(&self.value, &taint.value)
            && all_or(&self.effect, &taint.effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toleration_covers_what_kubernetes_says_it_covers() {
        let taint = Taint {
            key: "os".to_owned(),
            value: "Windows".to_owned(),
            effect: "NoSchedule".to_owned(),
        };
        let toleration = |key: Option<&str>, value: Option<&str>, effect: Option<&str>| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            Toleration {
                key: owned(key),
                value: owned(value),
                effect: owned(effect),
            }
        };
        for (covers, toleration) in [
            (true, toleration(None, None, None)),
            (true, toleration(None, None, Some("NoSchedule"))),
            (false, toleration(None, None, Some("NoExecute"))),
            (true, toleration(Some("os"), Some("Windows"), None)),
            (false, toleration(Some("os"), Some("windows"), None)),
            (false, toleration(Some("node.kubernetes.io/os"), None, None)),
        ] {
            assert_eq!(toleration.covers(&taint), covers, "{toleration:?}");
        }
    }
}
