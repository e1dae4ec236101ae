//! The codes of findings. Machines depend on them: a code never changes its meaning and is never reused.

macro_rules! codes {
    ($(#[doc = $meaning:literal] $name:ident = $code:literal;)+) => {
        $(
            #[doc = $meaning]
            pub const $name: &str = $code;
        )+

        /// Every code and what it means, by code.
        pub const CODES: &[(&str, &str)] = &[$(($code, $meaning.trim_ascii())),+];
    };
}

codes! {
    /// A driver on Windows nodes has no CSIDriver object.
    CSI_DRIVER_MISSING = "CSIDriverMissing";
    /// A Windows node has no CSINode object.
    CSI_NODE_MISSING = "CSINodeMissing";
    /// An in-tree plugin in use may need an opt-in to its CSI driver at this version.
    CSI_OPT_IN = "CSIOptIn";
    /// A DaemonSet runs csi-proxy on Windows nodes.
    CSI_PROXY_DAEMON_SET = "CSIProxyDaemonSet";
    /// A node needs csi-proxy, and it does not answer on all of its pipes.
    CSI_PROXY_NOT_READY = "CSIProxyNotReady";
    /// A node needs csi-proxy, and its state there is unknown.
    CSI_PROXY_UNKNOWN = "CSIProxyUnknown";
    /// A DaemonSet runs a csi-proxy that has CVE-2023-3893.
    CSI_PROXY_VULNERABLE = "CSIProxyVulnerable";
    /// Volumes of an in-tree plugin in use are redirected at this version.
    CSI_RECOMMENDED = "CSIRecommended";
    /// Two DaemonSets bring one driver to Windows nodes.
    DAEMON_SET_DUPLICATE = "DaemonSetDuplicate";
    /// No DaemonSet brings a missing driver to Windows nodes.
    DAEMON_SET_MISSING = "DaemonSetMissing";
    /// A volume has an in-tree type that no CSI driver takes over.
    DATA_MUST_MOVE = "DataMustMove";
    /// A driver's version has a known fault on Windows nodes.
    DRIVER_FAULTY = "DriverFaulty";
    /// A driver's version is not made for this version of Kubernetes.
    DRIVER_NOT_FOR_VERSION = "DriverNotForVersion";
    /// A driver's pod is ready on a node, and the CSINode lacks the driver.
    DRIVER_NOT_REGISTERED = "DriverNotRegistered";
    /// A driver's DaemonSet has a path with which it cannot register on Windows nodes.
    DRIVER_PATH_WRONG = "DriverPathWrong";
    /// A driver's DaemonSet has no pod on a node, and taints alone do not explain it.
    DRIVER_POD_MISSING = "DriverPodMissing";
    /// A driver's pod on a node is not ready.
    DRIVER_POD_NOT_READY = "DriverPodNotReady";
    /// OpenShift is to bring a driver itself that a hand-made DaemonSet brings.
    DRIVER_WILL_BE_PROVIDED = "DriverWillBeProvided";
    /// A switch of the vSphere driver is off that Windows workloads need.
    FEATURE_SWITCH_OFF = "FeatureSwitchOff";
    /// A sidecar's image has no build for the Windows of a node that runs it.
    IMAGE_NOT_FOR_WINDOWS = "ImageNotForWindows";
    /// An in-tree plugin in use still serves its volumes at this version.
    IN_TREE_RECOMMENDED = "InTreeRecommended";
    /// A node's kubelet misses drivers that register after it starts.
    KUBELET_TOO_OLD = "KubeletTooOld";
    /// A node is tainted as not ready, which keeps a driver's pod away.
    NODE_NOT_READY = "NodeNotReady";
    /// A Windows workload uses a claim that does not exist.
    PERSISTENT_VOLUME_CLAIM_NOT_FOUND = "PersistentVolumeClaimNotFound";
    /// A claim is bound to a PersistentVolume that does not exist.
    PERSISTENT_VOLUME_NOT_FOUND = "PersistentVolumeNotFound";
    /// A driver's DaemonSet mounts pipes that no csi-proxy offers.
    PIPE_NOT_OFFERED = "PipeNotOffered";
    /// A workload with in-tree volumes selects nodes that are not there, so its operating system is unknown.
    PLACEMENT_UNKNOWN = "PlacementUnknown";
    /// An in-tree plugin in use is gone at this version.
    PLUGIN_REMOVED = "PluginRemoved";
    /// A driver is registered on a node without a ready pod of it.
    STALE_ENTRY = "StaleEntry";
    /// A claim asks for a StorageClass that does not exist.
    STORAGE_CLASS_NOT_FOUND = "StorageClassNotFound";
    /// A taint of a node keeps a driver's pod away.
    TAINT_NOT_TOLERATED = "TaintNotTolerated";
    /// A driver's minor version differs between Windows and other nodes.
    VERSION_SKEW = "VersionSkew";
    /// A virtual node of Windows, which has no kubelet, is left out.
    VIRTUAL_NODE = "VirtualNode";
    /// The platform has no nodes with this Windows at this version of Kubernetes.
    WINDOWS_NOT_FOR_VERSION = "WindowsNotForVersion";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_there_once_in_order_and_says_what_it_means() {
        for pair in CODES.windows(2) {
            let key = |(code, _): &(&str, &str)| code.to_lowercase();
            assert!(
                key(&pair[0]) < key(&pair[1]),
                "{} is out of order",
                pair[1].0
            );
        }
        for (code, meaning) in CODES {
            assert!(
                code.chars().all(|letter| letter.is_ascii_alphabetic()),
                "{code}"
            );
            assert!(meaning.ends_with('.') && meaning.len() > 20, "{code}");
        }
    }
}
