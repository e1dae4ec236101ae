use super::*;
use crate::api::{CsiProxyNeed, SETTINGS_NAME, UpgradeGate, WindowsStorage, WindowsStorageSpec};

type Finish = fn(&mut Cluster) -> bool;

/// A cluster of which only what the work on nodes depends on has been read, but for what is left out.
fn configured(left_out: &str) -> Cluster {
    let mut cluster = Cluster::default();
    let kinds: [(&str, Finish); 6] = [
        ("ConfigMap", |cluster| cluster.config_maps.finish()),
        ("Secret", |cluster| cluster.secrets.finish()),
        ("WindowsStorage", |cluster| cluster.settings.finish()),
        ("Node", |cluster| cluster.nodes.finish()),
        ("Node's status", |cluster| cluster.node_statuses.finish()),
        ("DaemonSet", |cluster| {
            cluster.owners[WorkloadKind::DaemonSet].finish()
        }),
    ];
    for (kind, finish) in kinds {
        if kind != left_out {
            finish(&mut cluster);
        }
    }
    cluster
}

#[test]
fn work_on_nodes_waits_for_each_kind_that_it_depends_on() {
    let mut unreadable = configured("");
    assert!(unreadable.knows_configuration());
    // What the administrator wants is not guessed where it cannot be read.
    let settings = WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default());
    unreadable
        .settings
        .reject(&settings.metadata, "no number".to_owned());
    assert!(!unreadable.knows_configuration());
    for kind in [
        "ConfigMap",
        "Secret",
        "WindowsStorage",
        "Node",
        "Node's status",
        "DaemonSet",
    ] {
        assert!(!configured(kind).knows_configuration(), "{kind}");
    }
}

#[test]
fn the_settings_are_those_of_the_one_object() {
    let mut cluster = configured("");
    assert_eq!(cluster.wanted(), WindowsStorageSpec::default());
    let mut spec = WindowsStorageSpec {
        upgrade_gate: UpgradeGate::Ignore,
        ..WindowsStorageSpec::default()
    };
    spec.csi_proxy.needed = CsiProxyNeed::Always;
    for (name, counts) in [("other", false), (SETTINGS_NAME, true)] {
        let object = WindowsStorage::new(name, spec.clone());
        cluster.settings.apply(name.to_owned(), object);
        assert_eq!(cluster.wanted() == spec, counts);
    }
}
