//! Tests of the claims and pods that get an event because they hold upgrades.

use super::{Builder, claim, inline};
use crate::assess::report::Reason;
use crate::assess::{Blocked, BlockedKey, BlockedKind, Report};
use crate::index::{Cluster, Name, ObjectKey, Owner, Placement, PodVolume, System, WorkloadKind};

const AZURE_DISK: &str = "disk.csi.azure.com";

fn key(kind: BlockedKind, name: &str, driver: Option<&str>) -> BlockedKey {
    BlockedKey {
        kind,
        object: ObjectKey::new("shop", name),
        driver: driver.map(Name::from),
    }
}

fn blocked(cluster: &Cluster, most: usize) -> Vec<(BlockedKey, Blocked)> {
    let found = Report::once(cluster, None).blocked_objects(cluster, most);
    found.into_iter().collect()
}

/// Pods with: a claim, an inline volume, a missing claim, a registered driver, and a volume that no CSI driver takes over.
fn several() -> Builder {
    Builder::default()
        .node("win-1", Some(&["file.csi.azure.com"]))
        .node("win-2", Some(&["file.csi.azure.com"]))
        .volume("pv-disk", "azureDisk")
        .volume("pv-file", "azureFile")
        .volume("pv-old", "glusterfs")
        .claim("data", Some("pv-disk"), None)
        .claim("files", Some("pv-file"), None)
        .claim("old", Some("pv-old"), None)
        .pod("a-claim", Some("win-1"), claim("data"))
        .pod("b-inline", Some("win-2"), inline("azureDisk"))
        .pod("c-fine", Some("win-1"), claim("files"))
        .pod("d-old", Some("win-1"), claim("old"))
}

#[test]
fn a_claim_gets_the_event_where_there_is_one_and_a_pod_otherwise() {
    let found = blocked(&several().read(), 100);
    let keys: Vec<&BlockedKey> = found.iter().map(|(key, _)| key).collect();
    assert_eq!(
        keys,
        [
            &key(BlockedKind::Claim, "data", Some(AZURE_DISK)),
            &key(BlockedKind::Claim, "old", None),
            &key(BlockedKind::Pod, "b-inline", Some(AZURE_DISK)),
        ]
    );
    let (missing, abandoned) = (&found[0].1, &found[1].1);
    assert_eq!(missing.reason, Reason::DriversMissing);
    assert_eq!(
        missing.note,
        "Volume data of Pod a-claim (kubernetes.io/azure-disk) needs the CSI driver disk.csi.azure.com, which is not \
         registered on win-1, win-2; upgrades are not safe until then."
    );
    assert_eq!(abandoned.reason, Reason::NoCSIMigration);
    assert_eq!(
        abandoned.note,
        "Volume data of Pod d-old (kubernetes.io/glusterfs) has no CSI driver that takes over: move its data to another \
         volume; upgrades are not safe until then."
    );
}

#[test]
fn an_event_says_what_is_broken_already_and_what_the_upgrade_breaks() {
    for (version, disk, file, old) in [
        (
            "v1.23.1",
            "it cannot be mounted there already today.",
            "it breaks at the upgrade to 1.24.",
            "it breaks at the upgrade to 1.26.",
        ),
        (
            "v1.26.1",
            "it cannot be mounted there already today.",
            "it cannot be mounted there already today.",
            "it cannot be mounted there already today.",
        ),
    ] {
        let mut cluster = several().node("win-3", Some(&[])).read();
        cluster.api_server_version = Some(version.to_owned());
        let found = blocked(&cluster, 100);
        let ends = |name: &str, end: &str| {
            let (_, blocked) = found
                .iter()
                .find(|(key, _)| &*key.object.name == name)
                .unwrap();
            assert!(
                blocked.note.ends_with(&format!("; {end}")),
                "{}",
                blocked.note
            );
        };
        ends("data", disk);
        ends("files", file);
        ends("old", old);
    }
}

#[test]
fn no_more_are_named_than_are_asked_for() {
    for most in 1..4 {
        assert_eq!(blocked(&several().read(), most).len(), most);
    }
    let abandoned = || {
        Builder::default()
            .node("win-1", Some(&[]))
            .volume("pv-1", "glusterfs")
            .claim("one", Some("pv-1"), None)
            .claim("two", Some("pv-1"), None)
            .claim("three", Some("pv-1"), None)
            .pod("one", Some("win-1"), claim("one"))
            .pod("two", Some("win-1"), claim("two"))
            .pod("three", Some("win-1"), claim("three"))
    };
    for most in 1..4 {
        assert_eq!(blocked(&abandoned().read(), most).len(), most);
    }
}

#[test]
fn a_template_without_a_pod_gets_no_event() {
    let with_template = |source| {
        let mut cluster = Builder::default()
            .node("win-1", Some(&[]))
            .volume("pv-1", "azureDisk")
            .claim("data", Some("pv-1"), None)
            .read();
        let owner = Owner {
            placement: Placement {
                names: Some(System::Windows),
                ..Placement::default()
            },
            volumes: Box::new([PodVolume {
                name: "data".into(),
                source,
            }]),
            ..Owner::default()
        };
        let deployments = &mut cluster.owners[WorkloadKind::Deployment];
        deployments.apply(ObjectKey::new("shop", "web"), owner);
        blocked(&cluster, 100)
    };
    assert_eq!(with_template(inline("azureDisk")), []);
    // The claim exists, so its owner gets the event.
    let found = with_template(claim("data"));
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].0,
        key(BlockedKind::Claim, "data", Some(AZURE_DISK))
    );
}
