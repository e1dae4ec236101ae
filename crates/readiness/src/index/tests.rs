use super::*;
use crate::api::{SETTINGS_NAME, UpgradeGate, WindowsStorage, WindowsStorageSpec};
use crate::objects::KINDS;

const FOR_NODES: [&str; 5] = [
    "ConfigMap",
    "WindowsStorage",
    "Node",
    "WindowsNodeStorage",
    "DaemonSet",
];

/// Returns a cluster where only the kinds for node management have been read, except `left_out`.
fn configured(left_out: &str) -> Cluster {
    let mut cluster = Cluster::default();
    for kind in KINDS.iter() {
        if FOR_NODES.contains(&kind.name()) && kind.name() != left_out {
            kind.table_mut(&mut cluster).finish();
        }
    }
    if left_out != "Secret" {
        for name in cluster.wanted().secrets() {
            cluster.secrets.insert(name.to_owned(), Secret::Missing);
        }
    }
    cluster
}

#[test]
fn work_on_nodes_waits_for_each_kind_that_it_depends_on() {
    let mut unreadable = configured("");
    assert!(unreadable.knows_configuration());
    // Settings that exist but cannot be read must not be replaced by defaults.
    let settings = WindowsStorage::new(SETTINGS_NAME, WindowsStorageSpec::default());
    unreadable
        .settings
        .reject(&settings.metadata, "no number".to_owned());
    assert!(!unreadable.knows_configuration());
    for kind in FOR_NODES.into_iter().chain(["Secret"]) {
        assert!(!configured(kind).knows_configuration(), "{kind}");
    }
}

#[test]
fn the_settings_are_those_of_the_one_object() {
    let mut cluster = configured("");
    assert_eq!(cluster.wanted(), WindowsStorageSpec::default());
    let spec = WindowsStorageSpec {
        upgrade_gate: UpgradeGate::Ignore,
        ..WindowsStorageSpec::default()
    };
    for (name, counts) in [("other", false), (SETTINGS_NAME, true)] {
        let object = WindowsStorage::new(name, spec.clone());
        cluster.settings.apply(name.to_owned(), object);
        assert_eq!(cluster.wanted() == spec, counts);
    }
}

#[test]
fn what_kinds_have_in_common_is_said_once() {
    let unread = |kind, problem: Option<&'static str>| Unread {
        kind,
        problem: problem.map(Into::into),
    };
    let all = [
        unread("Pod", Some("forbidden")),
        unread("Job", None),
        unread("Node", Some("gone")),
        unread("CSINode", Some("forbidden")),
        unread("CronJob", None),
    ];
    let expected = "Pod, CSINode (forbidden), Job, CronJob, Node (gone)";
    assert_eq!(list_unread(&all), expected);
    assert_eq!(list_unread(&[]), "");
}

#[test]
fn a_cluster_without_any_node_is_not_read_whatever_it_was_read_from() {
    for (read_from, words) in [
        (ReadFrom::Api, "the cluster has none"),
        (ReadFrom::Files, "the input has none"),
    ] {
        let mut cluster = Cluster {
            read_from,
            ..Cluster::default()
        };
        for kind in KINDS.iter() {
            kind.table_mut(&mut cluster).finish();
        }
        let unread = cluster.unread();
        let [unread] = &unread[..] else {
            panic!("{unread:?}");
        };
        assert_eq!(unread.kind, "Node");
        let problem = unread.problem.as_deref().unwrap();
        assert!(problem.starts_with(words), "{problem}");
        cluster.nodes.apply("linux-1".into(), Node::default());
        assert_eq!(cluster.unread(), []);
    }
}
