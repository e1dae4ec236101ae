//! Tests of what counts as deleted.

use std::sync::Arc;

use super::{Builder, claim, inline};
use crate::assess::report::Upgradeable;
use crate::assess::{Memory, Report, assess};
use crate::index::{Cluster, CsiNode, Name, Node, ObjectKey, Pod};

const DRIVER: &str = "disk.csi.azure.com";

/// Two Windows nodes without a driver, and a pod with an in-tree volume through a claim.
struct Held {
    cluster: Cluster,
    memory: Memory,
    report: Report,
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

impl Held {
    fn new() -> Self {
        let cluster = Builder::default()
            .node("win-1", Some(&[]))
            .node("win-2", Some(&[]))
            .volume("pv-1", "azureDisk")
            .claim("data", Some("pv-1"), None)
            .pod("web-0", Some("win-1"), claim("data"))
            .read();
        let mut memory = Memory::default();
        memory.learn(&cluster);
        let held = Self {
            report: assess(&cluster, &memory, None),
            cluster,
            memory,
        };
        assert_eq!(held.upgradeable(), Upgradeable::False);
        held
    }

    fn upgradeable(&self) -> Upgradeable {
        self.report.verdict.upgradeable
    }

    /// Applies a change. Returns whether something that held upgrades disappeared.
    fn departs(&mut self, change: impl FnOnce(&mut Cluster) -> bool) -> bool {
        change(&mut self.cluster);
        self.memory.learn(&self.cluster);
        let report = assess(&self.cluster, &self.memory, None);
        let departed = report.departed(&self.report);
        self.report = report;
        !departed.is_empty()
    }

    fn register(&mut self, node: &str) -> bool {
        let drivers = Arc::new([Name::from(DRIVER)].into());
        self.departs(|cluster| {
            cluster.csi_nodes.apply(
                node.into(),
                CsiNode {
                    drivers,
                    ..CsiNode::default()
                },
            )
        })
    }
}

#[test]
fn a_driver_that_registers_takes_nothing_from_sight() {
    let mut held = Held::new();
    assert!(!held.register("win-1") && !held.register("win-2"));
    assert_eq!(held.upgradeable(), Upgradeable::True);
    let gone = held.departs(|cluster| cluster.pods.delete(&key("web-0")));
    assert!(!gone, "it no longer held anything");
}

#[test]
fn a_windows_node_that_holds_nothing_takes_nothing_from_sight() {
    let mut held = Held::new();
    held.register("win-1");
    held.register("win-2");
    let change = |held: &mut Held, system: &str| {
        held.departs(|cluster| {
            let node = Node {
                operating_system: system.to_owned(),
                boot_id: "another".to_owned(),
                ..Node::default()
            };
            cluster.nodes.apply("win-2".into(), node)
        })
    };
    assert!(!change(&mut held, "windows"), "nothing but a field of it");
    assert!(!change(&mut held, "linux"), "it held nothing");
    let mut held = Held::new();
    held.register("win-2");
    assert!(!change(&mut held, "linux"), "another node holds");
    assert_eq!(held.upgradeable(), Upgradeable::False);
    let mut held = Held::new();
    assert!(!change(&mut held, "windows"), "it holds as before");
    assert!(change(&mut held, "linux"), "it held");
}

#[test]
fn a_pod_a_claim_or_a_volume_that_is_deleted_goes_from_sight() {
    type Change = fn(&mut Cluster) -> bool;
    let changes: [Change; 3] = [
        |cluster| cluster.pods.delete(&key("web-0")),
        |cluster| cluster.claims.delete(&key("data")),
        |cluster| cluster.volumes.delete(&"pv-1".into()),
    ];
    for change in changes {
        let mut held = Held::new();
        assert!(held.departs(change));
        assert_eq!(held.upgradeable(), Upgradeable::True);
    }
}

#[test]
fn a_node_that_is_deleted_while_it_lacks_the_driver_goes_from_sight() {
    let mut held = Held::new();
    held.register("win-1");
    assert!(held.departs(|cluster| cluster.nodes.delete(&"win-2".into())));
    assert_eq!(held.upgradeable(), Upgradeable::True);
}

#[test]
fn a_node_without_a_csi_node_goes_from_sight_when_it_is_deleted_and_not_when_it_gets_one() {
    let mut held = Held::new();
    held.register("win-1");
    held.departs(|cluster| cluster.csi_nodes.delete(&"win-2".into()));
    assert!(!held.register("win-2"));
    held.departs(|cluster| cluster.csi_nodes.delete(&"win-2".into()));
    assert!(held.departs(|cluster| cluster.nodes.delete(&"win-2".into())));
}

#[test]
fn a_pod_that_is_judged_again_and_stays_does_not_go_from_sight() {
    let mut held = Held::new();
    let same = held.departs(|cluster| {
        let known = cluster.pods.get(&key("web-0")).unwrap();
        let other = Pod {
            controller: Some("uid".into()),
            ..known.clone()
        };
        cluster.pods.apply(key("web-0"), other)
    });
    assert!(!same);
}

#[test]
fn a_volume_that_no_driver_takes_over_goes_from_sight_with_its_pod() {
    let mut held = Held::new();
    held.register("win-1");
    held.register("win-2");
    let other = Builder::default().pod("web-1", Some("win-1"), inline("rbd"));
    let other = other.cluster.pods.get(&key("web-1")).unwrap().clone();
    held.departs(|cluster| cluster.pods.apply(key("web-1"), other));
    assert_eq!(held.upgradeable(), Upgradeable::False);
    assert!(held.departs(|cluster| cluster.pods.delete(&key("web-1"))));
}
