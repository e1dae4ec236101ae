//! The codes of findings. Machines rely on them: a code keeps its meaning, and is never used for another.

macro_rules! codes {
    ($($name:ident = $code:literal: $meaning:literal;)+) => {
        $(
            #[doc = $meaning]
            pub const $name: &str = $code;
        )+

        /// Every code and what it means, by code.
        pub const CODES: &[(&str, &str)] = &[$(($code, $meaning)),+];
    };
}

codes! {
    CSI_DRIVER_MISSING = "CSIDriverMissing":
        "A DaemonSet brings a driver that has no CSIDriver object.";
    CSI_NODE_MISSING = "CSINodeMissing":
        "A Windows node has no CSINode object.";
    CSI_OPT_IN = "CSIOptIn":
        "At this version a cluster may have to opt in to the CSI driver of an in-tree plugin that is in use.";
    CSI_PROXY_DAEMON_SET = "CSIProxyDaemonSet":
        "A DaemonSet runs csi-proxy on Windows nodes.";
    CSI_PROXY_NOT_READY = "CSIProxyNotReady":
        "A node needs csi-proxy, and it does not run there or not all of its pipes are open.";
    CSI_PROXY_UNKNOWN = "CSIProxyUnknown":
        "A node needs csi-proxy, and whether it runs there cannot be seen.";
    CSI_PROXY_VULNERABLE = "CSIProxyVulnerable":
        "A DaemonSet runs a csi-proxy on Windows nodes that lets pods run commands on them.";
    CSI_RECOMMENDED = "CSIRecommended":
        "At this version the CSI driver of an in-tree plugin that is in use is the better choice.";
    DAEMON_SET_DUPLICATE = "DaemonSetDuplicate":
        "Two DaemonSets bring one driver to Windows nodes.";
    DAEMON_SET_MISSING = "DaemonSetMissing":
        "No DaemonSet brings a driver that is missing to Windows nodes.";
    DAEMON_SET_NOT_FOR_WINDOWS = "DaemonSetNotForWindows":
        "A DaemonSet that does not ask for Windows has a pod on a Windows node, and the pod is not ready.";
    DATA_MUST_MOVE = "DataMustMove":
        "A volume has an in-tree type that no CSI driver takes over.";
    DRIVER_NOT_REGISTERED = "DriverNotRegistered":
        "A driver's pod is ready on a node, and the node's CSINode has no entry of the driver.";
    DRIVER_POD_MISSING = "DriverPodMissing":
        "A driver's DaemonSet has no pod on a node, and no taint explains it.";
    DRIVER_POD_NOT_READY = "DriverPodNotReady":
        "A driver's pod on a node is not ready.";
    FEATURE_SWITCH_OFF = "FeatureSwitchOff":
        "The vSphere driver's switch for Windows is off.";
    IN_TREE_RECOMMENDED = "InTreeRecommended":
        "At this version an in-tree plugin that is in use is still the better choice.";
    KUBELET_TOO_OLD = "KubeletTooOld":
        "A driver's pod is ready on a node whose kubelet misses drivers that register after its start.";
    NODE_NOT_READY = "NodeNotReady":
        "A node is tainted as not ready, which keeps a driver's pod from it.";
    OWNER_CIRCLE = "OwnerCircle":
        "The controllers of a workload control each other in a circle, or their chain is too long.";
    PERSISTENT_VOLUME_CLAIM_NOT_FOUND = "PersistentVolumeClaimNotFound":
        "A Windows workload uses a claim that does not exist.";
    PERSISTENT_VOLUME_NOT_FOUND = "PersistentVolumeNotFound":
        "A Windows workload uses a claim that is bound to a PersistentVolume that does not exist.";
    PIPE_NOT_OFFERED = "PipeNotOffered":
        "A driver's DaemonSet mounts pipes that csi-proxy does not offer.";
    PLUGIN_REMOVED = "PluginRemoved":
        "This version has no more of an in-tree plugin that is in use.";
    STALE_ENTRY = "StaleEntry":
        "A driver is registered on a node, and no pod of it is ready there.";
    STORAGE_CLASS_NOT_FOUND = "StorageClassNotFound":
        "A Windows workload uses a claim of a StorageClass that does not exist.";
    TAINT_NOT_TOLERATED = "TaintNotTolerated":
        "A taint of a node keeps a driver's pod from it.";
    VERSION_SKEW = "VersionSkew":
        "A driver runs in different minor versions on Windows and on other nodes.";
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

    #[test]
    fn findings_are_made_with_codes_of_the_table() {
        let sources = [
            include_str!("advice.rs"),
            include_str!("assessment/judge.rs"),
            include_str!("assessment/report.rs"),
            include_str!("causes/mod.rs"),
            include_str!("causes/no_pod.rs"),
            include_str!("causes/on_node.rs"),
            include_str!("causes/of_driver.rs"),
            include_str!("volumes.rs"),
        ];
        for made in sources
            .iter()
            .flat_map(|source| source.split("Finding::new(").skip(1))
        {
            let first = made.trim_start();
            assert!(
                first.starts_with("codes::") || first.starts_with("code,"),
                "a finding with a code of its own: {}",
                first.lines().next().unwrap_or_default()
            );
        }
    }
}
