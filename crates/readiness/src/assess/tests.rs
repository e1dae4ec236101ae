mod departures;
mod many;
mod nodes;
mod words;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use crate::api::{SETTINGS_NAME, UpgradeGate, WindowsStorage, WindowsStorageSpec};
use crate::assess::report::{Reason, Upgradeable, Verdict};
use crate::index::{
    AnyTable, Claim, CsiNode, Node, ObjectKey, PersistentVolume, Pod, PodVolume, PodVolumeSource,
    Table, Unread, VolumeType,
};

use crate::objects::cluster_kinds;

/// Builds a cluster whose tables are all complete.
#[derive(Default)]
struct Builder {
    cluster: Cluster,
}

impl Builder {
    fn node(mut self, name: &str, drivers: Option<&[&str]>) -> Self {
        let node = Node {
            operating_system: "windows".to_owned(),
            ..Node::default()
        };
        self.cluster.nodes.apply(name.into(), node);
        if let Some(drivers) = drivers {
            let drivers = Arc::new(drivers.iter().map(|driver| (*driver).into()).collect());
            self.cluster.csi_nodes.apply(
                name.into(),
                CsiNode {
                    drivers,
                    ..CsiNode::default()
                },
            );
        }
        self
    }

    fn linux_node(mut self, name: &str) -> Self {
        let node = Node {
            operating_system: "linux".to_owned(),
            ..Node::default()
        };
        self.cluster.nodes.apply(name.into(), node);
        self
    }

    fn pod(mut self, name: &str, node: Option<&str>, source: PodVolumeSource) -> Self {
        let pod = Pod {
            node_name: node.map(Into::into),
            volumes: Box::new([PodVolume {
                name: "data".into(),
                source,
            }]),
            ..Pod::default()
        };
        self.cluster.pods.apply(ObjectKey::new("shop", name), pod);
        self
    }

    fn claim(mut self, name: &str, volume: Option<&str>, class: Option<&str>) -> Self {
        let claim = Claim {
            volume_name: volume.map(Into::into),
            storage_class: class.map(Into::into),
            provisioner: None,
        };
        self.cluster
            .claims
            .apply(ObjectKey::new("shop", name), claim);
        self
    }

    fn volume(mut self, name: &str, field: &str) -> Self {
        let source = plugins::by_field(field).map(VolumeType::InTree);
        self.cluster.volumes.apply(
            name.into(),
            PersistentVolume {
                source,
                ..PersistentVolume::default()
            },
        );
        self
    }

    fn read(mut self) -> Cluster {
        for kind in cluster_kinds() {
            kind.table_mut(&mut self.cluster).finish();
        }
        self.cluster
    }
}

fn with_gate(mut cluster: Cluster, upgrade_gate: UpgradeGate) -> Cluster {
    let spec = WindowsStorageSpec {
        upgrade_gate,
        ..WindowsStorageSpec::default()
    };
    let settings = WindowsStorage::new(SETTINGS_NAME, spec);
    cluster.settings.apply(SETTINGS_NAME.to_owned(), settings);
    cluster
}

fn inline(field: &str) -> PodVolumeSource {
    PodVolumeSource::Inline(VolumeType::InTree(plugins::by_field(field).unwrap()))
}

fn claim(name: &str) -> PodVolumeSource {
    PodVolumeSource::Claim(name.into())
}

fn judged(cluster: &Cluster) -> ReadinessReport {
    assess_once(cluster, None)
}

/// Returns why the report holds upgrades, if it does.
fn held(report: &ReadinessReport) -> Option<Reason> {
    let verdict = &report.verdict;
    (verdict.upgradeable == Upgradeable::False).then_some(verdict.reason)
}

#[test]
fn an_unread_kind_holds_whatever_else_is_known_and_nothing_overrides_it() {
    for gate in [UpgradeGate::Enforce, UpgradeGate::Ignore] {
        let report = judged(&with_gate(Cluster::default(), gate));
        assert_eq!(held(&report), Some(Reason::ReadinessUnknown));
    }
    let mut one_missing = Builder::default().read();
    one_missing.pods = Table::default();
    one_missing
        .pods
        .fail("reading it is forbidden: no".to_owned());
    let report = judged(&with_gate(one_missing, UpgradeGate::Ignore));
    assert_eq!(held(&report), Some(Reason::ReadinessUnknown));
    assert!(
        report
            .verdict
            .message
            .contains("Pod (reading it is forbidden: no)"),
        "{report:?}"
    );
}

#[test]
fn an_object_that_cannot_be_read_holds_until_it_can() {
    let mut cluster = Builder::default().node("w", Some(&[])).read();
    assert_eq!(held(&judged(&cluster)), None);
    let problem = "Pod shop/p cannot be read: no".to_owned();
    let meta = ObjectMeta {
        namespace: Some("shop".to_owned()),
        name: Some("p".to_owned()),
        ..ObjectMeta::default()
    };
    cluster.pods.reject(&meta, problem);
    let report = judged(&cluster);
    assert_eq!(held(&report), Some(Reason::ReadinessUnknown));
    assert!(report.verdict.message.contains("Pod shop/p cannot be read"));
    cluster.pods.delete(&ObjectKey::new("shop", "p"));
    assert_eq!(judged(&cluster).verdict.upgradeable, Upgradeable::True);
}

#[test]
fn a_node_without_csi_node_is_named_first() {
    let cluster = Builder::default()
        .node("win-1", Some(&[]))
        .node("win-2", None)
        .pod("p", Some("win-1"), inline("azureFile"))
        .read();
    let message = judged(&cluster).verdict.message;
    assert!(message.starts_with("no CSINode object, or one of an earlier node, for win-2: "));
}

#[test]
fn stale_data_closes_the_gate_but_never_opens_it() {
    let says = |upgradeable| Verdict {
        upgradeable,
        reason: Reason::NoInTreeVolumes,
        message: "m".to_owned(),
    };
    let (open, held) = (says(Upgradeable::True), says(Upgradeable::False));
    let stale = [Unread {
        kind: "Pod",
        problem: Some("forbidden".into()),
    }];
    let after = |last: Option<&Verdict>, new: &Verdict, stale: &[Unread]| {
        let verdict = only_fresh_data_opens(last, new.clone(), stale);
        (verdict.upgradeable, verdict.reason)
    };
    let unknown = (Upgradeable::False, Reason::ReadinessUnknown);
    assert_eq!(after(Some(&held), &open, &stale), unknown);
    assert_eq!(after(None, &open, &stale), unknown);
    assert_eq!(after(Some(&open), &open, &stale).0, Upgradeable::True);
    for last in [None, Some(&open), Some(&held)] {
        assert_eq!(only_fresh_data_opens(last, held.clone(), &stale), held);
    }
    assert_eq!(after(Some(&held), &open, &[]).0, Upgradeable::True);
}
