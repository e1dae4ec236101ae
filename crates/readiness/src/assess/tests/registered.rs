//! Tests of drivers that are known only from a node's registration.

use std::sync::Arc;

use super::{Builder, claim, judged};
use crate::index::CsiNode;

const DRIVER: &str = "csi.vendor.example";

#[test]
fn a_driver_is_there_until_the_last_node_has_lost_it() {
    let mut cluster = Builder::default()
        .node("win-1", Some(&[]))
        .linux_node("linux-1")
        .linux_node("linux-2")
        .class("vendors", DRIVER, None)
        .claim("data", None, Some("vendors"))
        .pod("web-0", Some("win-1"), claim("data"))
        .read();
    let mut is_needed = |node: &str, drivers: &[&str]| {
        let drivers = Arc::new(drivers.iter().map(|driver| (*driver).into()).collect());
        cluster.csi_nodes.apply(
            node.into(),
            CsiNode {
                drivers,
                ..CsiNode::default()
            },
        );
        judged(&cluster)
            .drivers
            .iter()
            .any(|row| row.name == DRIVER)
    };
    assert!(!is_needed("linux-1", &[]));
    assert!(is_needed("linux-1", &[DRIVER]));
    assert!(is_needed("linux-2", &[DRIVER]));
    assert!(is_needed("linux-1", &[]), "another node has it");
    assert!(!is_needed("linux-2", &["another"]), "no node has it");
    assert!(is_needed("linux-1", &[DRIVER]));
    assert!(!is_needed("linux-1", &[]));
}
