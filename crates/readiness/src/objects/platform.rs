//! Detects from a Node which platform manages csi-proxy on it.

use crate::index::{Platform, PlatformSignal, Taint};
use crate::objects::metadata::{Meta, Texts};
use crate::objects::placement::{OS_ID_LABEL, WINDOWS_OS_ID};

const WMCO: &str = "windowsmachineconfig.openshift.io/";

/// The labels and kubelet version parts that identify each platform; the first match wins. A name that ends with `/` or
/// `-` is a prefix.
const SIGNALS: [(Platform, &[&str], Option<&str>); 4] = [
    (
        Platform::AKS,
        &[
            "kubernetes.azure.com/node-image-version",
            "kubernetes.azure.com/managedby",
        ],
        None,
    ),
    (Platform::EKS, &["eks.amazonaws.com/"], Some("-eks-")),
    (Platform::GKE, &["cloud.google.com/gke-"], Some("-gke.")),
    (
        Platform::Rancher,
        &["rke.cattle.io/machine", "cattle.io/os"],
        None,
    ),
];

/// Returns a Node's platform and the evidence for it.
pub(super) fn platform(
    meta: &Meta,
    taints: &[Taint],
    kubelet_version: &str,
) -> Option<PlatformSignal> {
    if let Some(shown) = wmco(meta, taints) {
        let platform = Platform::WMCO;
        return Some(PlatformSignal { platform, shown });
    }
    SIGNALS.iter().find_map(|&(platform, names, version)| {
        let is_one = |key: &&str| {
            let mut names = names.iter();
            names.any(|name| key == name || (name.ends_with(['/', '-']) && key.starts_with(name)))
        };
        let label = keys(meta.labels.as_ref()).find(is_one);
        let version = version.filter(|version| kubelet_version.contains(version));
        let shown = label
            .map(|key| format!("label {key}"))
            .or_else(|| version.map(|_| format!("kubelet version {kubelet_version}")))?;
        Some(PlatformSignal { platform, shown })
    })
}

/// Returns the evidence that WMCO manages a node. Any of WMCO's keys is enough: the label is set when the kubelet
/// registers, the annotations later, and WMCO removes one of them during each of its upgrades.
fn wmco(meta: &Meta, taints: &[Taint]) -> Option<String> {
    if meta.label(OS_ID_LABEL) == Some(WINDOWS_OS_ID) {
        return Some(format!("label {OS_ID_LABEL}"));
    }
    let labels = keys(meta.labels.as_ref()).map(|key| ("label", key));
    let annotations = keys(meta.annotations.as_ref()).map(|key| ("annotation", key));
    let taints = taints.iter().map(|taint| ("taint", taint.key.as_str()));
    let mut all = labels.chain(annotations).chain(taints);
    let (what, key) = all.find(|(_, key)| key.starts_with(WMCO))?;
    Some(format!("{what} {key}"))
}

fn keys(texts: Option<&Texts>) -> impl Iterator<Item = &str> {
    texts.into_iter().flatten().map(|(key, _)| key.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Each line: labels, annotations and the kubelet's version, and the platform with what shows it.
    const SHOWN: &str = r#"
{} {} v1.30.4 ->
{"kubernetes.io/os": "x"} {} v1.30.4+rke2r1 ->
{"node.openshift.io/os_id": "rhel"} {} ->
{"node.openshift.io/os_id": "Windows"} {} -> WMCO by label node.openshift.io/os_id
{} {"windowsmachineconfig.openshift.io/pub-key-hash": ""} -> WMCO by annotation windowsmachineconfig.openshift.io/pub-key-hash
{"windowsmachineconfig.openshift.io/upgrading": "x"} {} -> WMCO by label windowsmachineconfig.openshift.io/upgrading
{"kubernetes.azure.com/managedby": "x"} {} v1.30.4-eks-1 -> AKS by label kubernetes.azure.com/managedby
{"kubernetes.azure.com/cluster": "x"} {} ->
{"kubernetes.azure.com/role": "x"} {} ->
{"eks.amazonaws.com/nodegroup": "x"} {} -> EKS by label eks.amazonaws.com/nodegroup
{} {} v1.30.4-eks-036c24b -> EKS by kubelet version v1.30.4-eks-036c24b
{"cloud.google.com/gke-nodepool": "x"} {} -> GKE by label cloud.google.com/gke-nodepool
{} {} v1.30.4-gke.1348000 -> GKE by kubelet version v1.30.4-gke.1348000
{"rke.cattle.io/machine": "x"} {} -> Rancher by label rke.cattle.io/machine
{"cattle.io/os": "x"} {} -> Rancher by label cattle.io/os
{"cattle.io/os-extra": "x"} {} ->
{"cattle.io/os": "windows", "eks.amazonaws.com/nodegroup": "a"} {} v1.30.4-gke.1 -> EKS by label eks.amazonaws.com/nodegroup
"#;

    /// Linux nodes of OpenShift also have its label, and AKS Engine sets those of AKS but no longer manages csi-proxy.
    #[test]
    fn the_first_platform_that_a_node_shows_is_named_with_what_shows_it() {
        for line in SHOWN.lines().skip(1) {
            let (node, expected) = line.split_once("->").unwrap();
            let mut maps = serde_json::Deserializer::from_str(node).into_iter::<Value>();
            let [labels, annotations] = [(); 2].map(|()| maps.next().unwrap().unwrap());
            let kubelet = node[maps.byte_offset()..].trim();
            let metadata = json!({"labels": labels, "annotations": annotations});
            assert_eq!(shown(&metadata, &[], kubelet), expected.trim(), "{line}");
        }
        let taint = Taint {
            key: "windowsmachineconfig.openshift.io/upgrade".to_owned(),
            ..Taint::default()
        };
        let expected = "WMCO by taint windowsmachineconfig.openshift.io/upgrade";
        assert_eq!(shown(&json!({}), &[taint], ""), expected);
    }

    fn shown(metadata: &Value, taints: &[Taint], kubelet_version: &str) -> String {
        let meta: Meta = serde_json::from_value(metadata.clone()).unwrap();
        let signal = platform(&meta, taints, kubelet_version);
        signal.map_or_else(String::new, |signal| signal.to_string())
    }
}
