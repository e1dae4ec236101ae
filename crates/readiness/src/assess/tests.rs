mod blocked;
mod claims_of_sets;
mod departures;
mod nodes;
mod registered;
mod touched;
mod words;

use std::sync::Arc;

use super::*;
use crate::api::{SETTINGS_NAME, UpgradeGate, WindowsStorage, WindowsStorageSpec};
use crate::assess::report::{Reason, Source, Upgradeable, Verdict};
use crate::index::{
    Claim, CsiNode, Node, ObjectKey, PersistentVolume, Pod, PodVolume, PodVolumeSource,
    StorageClass, Unread, VolumeType,
};

const AZURE_FILE: &str = "file.csi.azure.com";

/// A cluster whose tables have all been read completely.
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
            self.cluster
                .csi_nodes
                .apply(name.into(), CsiNode { drivers });
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

    fn class(mut self, name: &str, provisioner: &str, default_since: Option<i64>) -> Self {
        let class = StorageClass {
            provisioner: provisioner.into(),
            is_default: default_since.is_some(),
            created: default_since.unwrap_or_default(),
        };
        self.cluster.classes.apply(name.into(), class);
        self
    }

    fn read(mut self) -> Cluster {
        self.cluster.nodes.finish();
        self.cluster.csi_nodes.finish();
        self.cluster.csi_drivers.finish();
        self.cluster.pods.finish();
        self.cluster.claims.finish();
        self.cluster.volumes.finish();
        self.cluster.classes.finish();
        self.cluster.settings.finish();
        self.cluster.runtime_classes.finish();
        for (_, table) in self.cluster.owners.tables_mut() {
            table.finish();
        }
        self.cluster
    }

    fn report(self) -> ReadinessReport {
        assess(&mut self.read())
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

fn verdict(report: &ReadinessReport) -> (Upgradeable, Reason) {
    (report.verdict.upgradeable, report.verdict.reason)
}

#[test]
fn an_unread_kind_holds_whatever_else_is_known_and_nothing_overrides_it() {
    for gate in [UpgradeGate::Enforce, UpgradeGate::Ignore] {
        let report = assess(&mut with_gate(Cluster::default(), gate));
        assert_eq!(
            verdict(&report),
            (Upgradeable::False, Reason::ReadinessUnknown)
        );
    }
    let mut one_missing = Builder::default().read();
    one_missing.pods = crate::index::Table::default();
    one_missing
        .pods
        .fail("reading it is forbidden: no".to_owned());
    let report = assess(&mut with_gate(one_missing, UpgradeGate::Ignore));
    assert_eq!(
        verdict(&report),
        (Upgradeable::False, Reason::ReadinessUnknown)
    );
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
    assert_eq!(
        verdict(&assess(&mut cluster.clone())),
        (Upgradeable::True, Reason::NoInTreeVolumes)
    );
    let problem = "Pod shop/p cannot be read: no".to_owned();
    cluster.pods.reject(ObjectKey::new("shop", "p"), problem);
    let report = assess(&mut cluster);
    assert_eq!(
        verdict(&report),
        (Upgradeable::False, Reason::ReadinessUnknown)
    );
    assert!(report.verdict.message.contains("Pod shop/p cannot be read"));
    cluster.pods.delete(&ObjectKey::new("shop", "p"));
    assert_eq!(assess(&mut cluster).verdict.upgradeable, Upgradeable::True);
}

#[test]
fn without_windows_or_in_tree_volumes_nothing_holds() {
    let linux = Builder::default()
        .linux_node("l")
        .pod("p", Some("l"), inline("azureFile"))
        .report();
    assert_eq!(verdict(&linux), (Upgradeable::True, Reason::NoWindowsNodes));
    let none = Builder::default().node("w", None).report();
    assert_eq!(verdict(&none), (Upgradeable::True, Reason::NoInTreeVolumes));
    let on_linux = Builder::default()
        .node("w", Some(&[]))
        .linux_node("l")
        .pod("p", Some("l"), inline("azureFile"))
        .report();
    assert_eq!(
        verdict(&on_linux),
        (Upgradeable::True, Reason::NoInTreeVolumes)
    );
    assert!(on_linux.volumes.is_empty());
}

#[test]
fn every_plugin_holds_inline_by_volume_and_by_class_until_its_driver_is_on_every_node() {
    for plugin in &plugins::PLUGINS {
        let Some(driver) = plugin.driver else {
            continue;
        };
        let base = |with: &[&str]| {
            Builder::default()
                .node("w1", Some(&[driver]))
                .node("w2", Some(with))
        };
        let uses: [fn(Builder, &plugins::Plugin) -> Builder; 3] = [
            |builder, plugin| builder.pod("p", Some("w1"), inline(plugin.field)),
            |builder, plugin| {
                builder
                    .pod("p", Some("w1"), claim("c"))
                    .claim("c", Some("pv"), None)
                    .volume("pv", plugin.field)
            },
            |builder, plugin| {
                builder
                    .pod("p", Some("w1"), claim("c"))
                    .claim("c", None, Some("sc"))
                    .class("sc", plugin.name, None)
            },
        ];
        for (apply, source) in uses.iter().zip([
            Source::Inline,
            Source::PersistentVolume,
            Source::StorageClass,
        ]) {
            let held = apply(base(&[]), plugin).report();
            assert_eq!(
                verdict(&held),
                (Upgradeable::False, Reason::DriversMissing),
                "{plugin:?}"
            );
            let volume = &held.volumes[0];
            assert_eq!(
                (volume.source, volume.blocking, volume.in_tree),
                (source, true, true)
            );
            assert_eq!(
                volume.missing_on,
                ["w2"],
                "a driver must be on all nodes, wherever the pod is"
            );
            assert_eq!(volume.csi_driver.as_deref(), Some(driver));
            let free = apply(base(&[driver]), plugin).report();
            assert_eq!(
                verdict(&free),
                (Upgradeable::True, Reason::DriversRegistered),
                "{plugin:?}"
            );
            assert!(!free.volumes[0].blocking);
        }
    }
}

#[test]
fn the_message_names_pod_volume_driver_and_nodes() {
    let bound = Builder::default()
        .node("win-1", Some(&[]))
        .node("win-2", Some(&[]))
        .pod("web-0", Some("win-1"), claim("orders"))
        .claim("orders", Some("pv-1"), None)
        .volume("pv-1", "azureDisk")
        .report();
    assert_eq!(
        bound.verdict.message,
        "pod shop/web-0: PersistentVolume pv-1 (kubernetes.io/azure-disk) needs disk.csi.azure.com, missing on \
         win-1, win-2"
    );
    let abandoned = Builder::default()
        .node("win-1", Some(&[]))
        .pod("web-0", Some("win-1"), inline("rbd"))
        .report();
    assert_eq!(
        verdict(&abandoned),
        (Upgradeable::False, Reason::NoCSIMigration)
    );
    assert_eq!(
        abandoned.verdict.message,
        "pod shop/web-0: volume data (kubernetes.io/rbd) has no CSI driver that takes over"
    );
}

#[test]
fn a_node_without_csi_node_holds_and_is_named() {
    let report = Builder::default()
        .node("win-1", Some(&[AZURE_FILE]))
        .node("win-2", None)
        .pod("p", Some("win-1"), inline("azureFile"))
        .report();
    assert_eq!(
        verdict(&report),
        (Upgradeable::False, Reason::CSINodeMissing)
    );
    assert!(report.verdict.message.contains("win-2"));
    assert_eq!(report.volumes[0].missing_on, ["win-2"]);
    assert!(!report.nodes[1].csi_node);
}

#[test]
fn an_administrator_can_accept_the_risk_and_it_stays_named() {
    let cluster = Builder::default()
        .node("w", Some(&[]))
        .pod("p", Some("w"), inline("azureFile"))
        .read();
    let report = assess(&mut with_gate(cluster, UpgradeGate::Ignore));
    assert_eq!(verdict(&report), (Upgradeable::True, Reason::Override));
    assert!(report.verdict.message.contains("pod shop/p") && report.volumes[0].blocking);
}

#[test]
fn a_csi_volume_concerns_the_nodes_that_use_it_and_never_holds() {
    let csi = PodVolumeSource::Inline(VolumeType::Csi("smb.csi.k8s.io".into()));
    let report = Builder::default()
        .node("w1", Some(&[]))
        .node("w2", Some(&[]))
        .pod("p", Some("w1"), csi)
        .report();
    assert_eq!(
        verdict(&report),
        (Upgradeable::True, Reason::NoInTreeVolumes)
    );
    assert_eq!(report.volumes[0].missing_on, ["w1"]);
    assert_eq!(report.nodes[0].missing_drivers, ["smb.csi.k8s.io"]);
    assert!(report.nodes[1].missing_drivers.is_empty());
}

#[test]
fn dangling_claims_volumes_and_classes_are_findings_not_rows() {
    let report = Builder::default()
        .node("w", Some(&[]))
        .pod("a", Some("w"), claim("none"))
        .pod("b", Some("w"), claim("unbacked"))
        .claim("unbacked", Some("gone"), None)
        .pod("c", Some("w"), claim("unclassed"))
        .claim("unclassed", None, Some("gone"))
        .report();
    assert!(report.volumes.is_empty());
    let found: Vec<(&str, &str)> = report
        .findings
        .iter()
        .map(|finding| (finding.code.as_str(), finding.object.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (
                "PersistentVolumeClaimNotFound",
                "PersistentVolumeClaim/shop/none"
            ),
            (
                "PersistentVolumeNotFound",
                "PersistentVolumeClaim/shop/unbacked"
            ),
            ("StorageClassNotFound", "StorageClass/gone"),
        ]
    );
}

#[test]
fn the_newest_default_class_stands_in_and_an_empty_class_stands_for_none() {
    let builder = |class| {
        Builder::default()
            .node("w", Some(&[]))
            .class("old", "kubernetes.io/azure-disk", Some(1))
            .class("new", "kubernetes.io/azure-file", Some(2))
            .class("new-too", "kubernetes.io/cinder", Some(2))
            .pod("p", Some("w"), claim("c"))
            .claim("c", None, class)
            .report()
    };
    let default = builder(None);
    assert_eq!(default.volumes[0].storage_class.as_deref(), Some("new"));
    assert_eq!(default.volumes[0].csi_driver.as_deref(), Some(AZURE_FILE));
    assert!(builder(Some("")).volumes.is_empty());
}

#[test]
fn an_ephemeral_volume_is_its_claim_or_else_its_template() {
    let ephemeral = || {
        PodVolumeSource::Ephemeral(Claim {
            storage_class: Some("sc".into()),
            ..Claim::default()
        })
    };
    let template = Builder::default()
        .node("w", Some(&[]))
        .class("sc", "kubernetes.io/azure-file", None)
        .pod("p", Some("w"), ephemeral())
        .report();
    assert_eq!(
        template.volumes[0].persistent_volume_claim.as_deref(),
        Some("p-data")
    );
    assert_eq!(template.volumes[0].source, Source::StorageClass);
    let bound = Builder::default()
        .node("w", Some(&[]))
        .claim("p-data", Some("pv"), Some("sc"))
        .volume("pv", "cinder")
        .pod("p", Some("w"), ephemeral())
        .report();
    assert_eq!(
        bound.volumes[0].plugin.as_deref(),
        Some("kubernetes.io/cinder")
    );
}

#[test]
fn the_message_names_ten_volumes_then_counts() {
    let mut builder = Builder::default().node("w", Some(&[]));
    for number in 0..25 {
        builder = builder.pod(&format!("p{number:02}"), Some("w"), inline("azureFile"));
    }
    let message = builder.report().verdict.message;
    assert!(
        message.contains("pod shop/p09") && !message.contains("pod shop/p10"),
        "{message}"
    );
    assert!(message.ends_with("; and 15 more"), "{message}");
}

#[test]
fn pods_that_mount_a_pipe_make_csi_proxy_needed_on_their_node() {
    let mut cluster = Builder::default()
        .node("w1", Some(&[]))
        .node("w2", Some(&[]))
        .read();
    let pod = Pod {
        node_name: Some("w2".into()),
        csi_proxy_pipes: Box::new(["csi-proxy-disk-v1".to_owned()]),
        ..Pod::default()
    };
    cluster
        .pods
        .apply(ObjectKey::new("kube-system", "driver"), pod);
    let report = assess(&mut cluster);
    assert_eq!(
        report
            .nodes
            .iter()
            .map(|node| node.needs_csi_proxy)
            .collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn stale_data_closes_the_gate_but_never_opens_it() {
    let says = |upgradeable| Verdict {
        upgradeable,
        reason: Reason::NoInTreeVolumes,
        message: String::new(),
    };
    let (open, held) = (says(Upgradeable::True), says(Upgradeable::False));
    let stale = [Unread {
        kind: "Pod",
        problem: Some("forbidden"),
    }];
    let after = |last: Option<&Verdict>, new: &Verdict, stale: &[Unread<'_>]| {
        let verdict = only_fresh_data_opens(last, new.clone(), stale);
        (verdict.upgradeable, verdict.reason)
    };
    let unknown = (Upgradeable::False, Reason::ReadinessUnknown);
    assert_eq!(after(Some(&held), &open, &stale), unknown);
    assert_eq!(after(None, &open, &stale), unknown);
    assert_eq!(after(Some(&open), &open, &stale).0, Upgradeable::True);
    assert_eq!(after(Some(&open), &held, &stale).0, Upgradeable::False);
    assert_eq!(after(Some(&held), &open, &[]).0, Upgradeable::True);
}
