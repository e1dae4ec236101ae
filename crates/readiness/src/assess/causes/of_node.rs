//! Finds nodes whose drivers cannot be seen, or that have none.

use semver::Version;

use crate::assess::advisories;
use crate::assess::report::Finding;
use crate::assess::versions::Release;
use crate::index::{Cluster, LeftOut, Name, Node};

/// Reports the virtual nodes of Windows. They are left out of the judgement.
pub fn virtual_nodes(cluster: &Cluster) -> impl Iterator<Item = Finding> {
    let nodes = cluster.nodes.iter();
    let nodes = nodes.filter(|(_, node)| {
        node.left_out == Some(LeftOut::Virtual) && node.runs_windows() && !node.deleting
    });
    nodes.map(|(name, _)| {
        finding!(
            VIRTUAL_NODE,
            format!("Node/{name}"),
            "the node is virtual: no kubelet runs there, and no CSI driver ever registers. It is left out of the verdict; \
             its pods cannot mount volumes of CSI drivers"
        )
    })
}

/// Reports what is known of a node's build of Windows.
pub fn known_of_windows(name: &Name, node: &Node, release: Option<Release>) -> Vec<Finding> {
    let Ok(build) = Version::parse(&node.windows_build) else {
        return Vec::new();
    };
    let known = advisories::on(advisories::WINDOWS, &build);
    let known = known.filter(|it| it.matters_at(release) && it.matters_on(node));
    let what = format!("Windows {build}");
    let known = known.map(|it| it.finding(format!("Node/{name}"), &what));
    known.collect()
}

/// Reports a Windows node without a CSINode of its own.
pub fn no_csi_node(cluster: &Cluster, name: &Name) -> Finding {
    let object = format!("CSINode/{name}");
    if cluster.csi_nodes.get(name).is_some() {
        return finding!(
            CSI_NODE_MISSING,
            object,
            "the CSINode is of an earlier node of this name, so its entries prove nothing. Kubernetes deletes it within \
             minutes, and the kubelet makes a new one: if it does not, restart the kubelet"
        );
    }
    finding!(
        CSI_NODE_MISSING,
        object,
        "the node has no CSINode object; its kubelet makes one at start: check that the kubelet runs and is registered"
    )
    .run("kubectl describe node", &[name])
}
