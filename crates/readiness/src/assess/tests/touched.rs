//! Tests of the nodes that a change may affect, so that no outdated state of them is reported.

use std::collections::BTreeSet;

use super::{Builder, inline};
use crate::assess::Assessment;
use crate::index::{Cluster, ConfigMap, Name, ObjectKey, Owner, Pod, WorkloadKind};

struct Watched {
    cluster: Cluster,
    assessment: Assessment,
}

impl Watched {
    /// Two Windows nodes, one without a driver that its pod needs, and a Linux node.
    fn new() -> Self {
        let cluster = Builder::default()
            .node("win-1", Some(&[]))
            .node("win-2", Some(&["disk.csi.azure.com"]))
            .linux_node("linux-1")
            .pod("web-0", Some("win-1"), inline("azureDisk"))
            .read();
        let mut watched = Self {
            cluster,
            assessment: Assessment::default(),
        };
        watched.touched(|_| ());
        watched
    }

    fn touched(&mut self, change: impl FnOnce(&mut Cluster)) -> Vec<String> {
        change(&mut self.cluster);
        let touched: BTreeSet<Name> = self.assessment.update(&mut self.cluster);
        touched.iter().map(ToString::to_string).collect()
    }

    fn pipes(&mut self, pod: &str, node: Option<&str>) -> Vec<String> {
        let key = ObjectKey::new("shop", pod);
        let pod = node.map(|node| Pod {
            node_name: Some(node.into()),
            csi_proxy_pipes: Box::new(["csi-proxy-disk-v1".to_owned()]),
            ..Pod::default()
        });
        self.touched(|cluster| {
            match pod {
                Some(pod) => cluster.pods.apply(key, pod),
                None => cluster.pods.delete(&key),
            };
        })
    }
}

#[test]
fn what_brings_drivers_touches_the_nodes_that_lack_one() {
    let mut watched = Watched::new();
    let key = |name: &str| ObjectKey::new("kube-system", name);
    assert_eq!(watched.touched(|_| ()), [""; 0]);
    let set = watched.touched(|cluster| {
        let sets = &mut cluster.owners[WorkloadKind::DaemonSet];
        sets.apply(key("azuredisk-win"), Owner::default());
    });
    assert_eq!(set, ["win-1"]);
    let switch = watched.touched(|cluster| {
        let switches = &mut cluster.feature_switches;
        switches.apply(key("switches"), ConfigMap::default());
    });
    assert_eq!(switch, ["win-1"]);
    let other = watched.touched(|cluster| {
        let deployments = &mut cluster.owners[WorkloadKind::Deployment];
        deployments.apply(key("web"), Owner::default());
    });
    assert_eq!(other, [""; 0]);
}

#[test]
fn a_pod_that_mounts_pipes_touches_its_node_when_it_comes_and_when_it_goes() {
    let mut watched = Watched::new();
    assert_eq!(watched.pipes("one", Some("win-2")), ["win-2"]);
    assert_eq!(watched.pipes("one", None), ["win-2"]);
}
