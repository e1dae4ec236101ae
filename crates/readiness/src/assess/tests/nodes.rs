//! Tests of the readiness of one node.

use super::{Builder, inline};
use crate::api::{CsiProxyStatus, WindowsNodeStorageStatus};
use crate::assess::{Report, codes};
use crate::index::{Cluster, ObjectKey, Pod, ReadFrom};

const AZURE_DISK: &str = "disk.csi.azure.com";

/// Three Windows nodes. Only the first has the drivers that its pods need; `service_state` sets its csi-proxy.
fn cluster(service_state: Option<&str>) -> Cluster {
    let mut cluster = Builder::default()
        .node("win-1", Some(&[AZURE_DISK]))
        .node("win-2", Some(&[]))
        .node("win-3", None)
        .linux_node("linux-1")
        .pod("web-0", Some("win-1"), inline("azureDisk"))
        .read();
    cluster.read_from = ReadFrom::Api;
    let pod = Pod {
        node_name: Some("win-1".into()),
        csi_proxy_pipes: Box::new(["csi-proxy-disk-v1".to_owned()]),
        ..Pod::default()
    };
    let key = ObjectKey::new("kube-system", "driver");
    cluster.pods.apply(key, pod);
    if let Some(state) = service_state {
        let status = WindowsNodeStorageStatus {
            csi_proxy: Some(CsiProxyStatus {
                service_state: state.to_owned(),
                ..CsiProxyStatus::default()
            }),
            ..WindowsNodeStorageStatus::default()
        };
        cluster.node_statuses.apply("win-1".to_owned(), status);
    }
    cluster
}

#[test]
fn each_node_by_itself_is_what_the_report_says_of_it() {
    let cluster = cluster(Some("Running"));
    let assessed = Report::once(&cluster, None);
    let mut report = assessed.to_json(&cluster);
    // Only full reports look for stale entries.
    for node in &mut report.nodes {
        let findings = &mut node.findings;
        findings.retain(|finding| finding.code != codes::STALE_ENTRY);
    }
    let nodes = assessed.nodes(&cluster, |_, node| node);
    assert_eq!(nodes, report.nodes);
    assert_eq!(nodes.len(), 3);
}

#[test]
fn a_node_is_ready_that_has_its_csi_node_its_drivers_and_csi_proxy() {
    for (state, first, code) in [
        (Some("Running"), true, None),
        (Some("Stopped"), false, Some(codes::CSI_PROXY_NOT_READY)),
        (None, true, Some(codes::CSI_PROXY_UNKNOWN)),
    ] {
        let cluster = cluster(state);
        let assessed = Report::once(&cluster, None);
        let nodes = assessed.nodes(&cluster, |_, node| node);
        let node = |name: &str| nodes.iter().find(|node| node.name == name).unwrap();
        let ready = ["win-1", "win-2", "win-3"].map(|name| node(name).ready);
        assert_eq!(ready, [first, false, false], "{state:?}");
        let found = &node("win-1").findings;
        let found: Vec<&str> = found.iter().map(|finding| &*finding.code).collect();
        assert_eq!(found, code.as_slice(), "{state:?}");
    }
}

#[test]
fn findings_are_in_their_order_whatever_is_judged_first() {
    let mut cluster = cluster(None);
    let pod = Pod {
        node_name: Some("win-3".into()),
        csi_proxy_pipes: Box::new(["csi-proxy-disk-v1".to_owned()]),
        ..Pod::default()
    };
    let key = ObjectKey::new("kube-system", "another");
    cluster.pods.apply(key, pod);
    let assessed = Report::once(&cluster, None);
    let nodes = assessed.nodes(&cluster, |_, node| node);
    let found = &nodes.last().unwrap().findings;
    let found: Vec<&str> = found.iter().map(|finding| &*finding.code).collect();
    assert_eq!(
        found,
        [
            codes::CSI_NODE_MISSING,
            codes::CSI_PROXY_UNKNOWN,
            codes::DAEMON_SET_MISSING
        ]
    );
}
