use std::sync::LazyLock;

use serde_json::json;

use super::*;
use crate::api::CsiProxyStatus;
use crate::index::Cluster;
use crate::node::{NOT_NEEDED, Reason};

/// Far enough from the start for times before it.
const NOW: u64 = 10_000;
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

fn at(second: u64) -> Instant {
    *START + Duration::from_secs(second)
}

fn status(management: &str) -> WindowsNodeStorageStatus {
    WindowsNodeStorageStatus {
        management: management.to_owned(),
        ..WindowsNodeStorageStatus::default()
    }
}

fn used() -> Hold {
    Hold::Used(CsiProxyUse {
        user: "DaemonSet a/b".to_owned(),
        mounts: true,
    })
}

#[test]
fn a_removal_waits_for_ten_minutes_without_use_and_for_lists_since_unless_it_has_begun() {
    let report = Report::once(&Cluster::default(), None);
    let removing = || NodePlan::Remove(Absence::NotNeeded, Err(Reason::NoAddress.error("x")));
    for (since, listed, has_begun, expected) in [
        (Some(NOW - 600), Some(NOW), false, None),
        (
            Some(NOW - 599),
            Some(NOW),
            false,
            Some(Hold::Until(at(NOW + 1))),
        ),
        // This process has not seen it unused yet, whatever others have seen.
        (None, Some(NOW), false, Some(Hold::Until(at(NOW + 600)))),
        (Some(0), None, false, Some(Hold::Unlisted(at(600)))),
        (Some(0), Some(599), false, Some(Hold::Unlisted(at(600)))),
        (Some(0), Some(600), false, None),
        (Some(0), None, true, None),
    ] {
        let named = || "win-1".to_owned();
        let hold = Present {
            now: Timestamp::UNIX_EPOCH,
            instant: at(NOW),
            listed: listed.map(at),
            report: &report,
            plans: &has_begun
                .then(|| (named(), removing()))
                .into_iter()
                .collect(),
            unused_since: &since
                .map(|since| (named(), at(since)))
                .into_iter()
                .collect(),
        }
        .hold("win-1");
        assert_eq!(hold, expected, "{since:?} {listed:?} {has_begun}");
    }
}

#[test]
fn what_is_held_stays_and_what_was_never_there_is_not_removed() {
    let where_needed = serde_json::from_value(json!({"csiProxy": {"install": "WhereNeeded"}}));
    let removed = serde_json::from_value(json!({"csiProxy": {"management": "Removed"}}));
    let (where_needed, removed) = (where_needed.unwrap(), removed.unwrap());
    let unlisted = || Hold::Unlisted(at(600));
    let (is_used, not_needed) = (Removal::Stay(None), Absence::NotNeeded);
    for (spec, management, hold, expected) in [
        (&where_needed, MANAGED, None, Removal::Due(not_needed)),
        (&where_needed, MANAGED, Some(used()), is_used.clone()),
        (
            &where_needed,
            MANAGED,
            Some(unlisted()),
            Removal::Stay(Some(unlisted())),
        ),
        // A new node gets no installation, and a node without csi-proxy gets no removal.
        (&where_needed, NOT_NEEDED, None, Removal::Done(not_needed)),
        (&where_needed, NOT_NEEDED, Some(used()), is_used),
        // A removal in progress does not install csi-proxy again while it waits.
        (
            &where_needed,
            REMOVING,
            Some(unlisted()),
            Removal::Waits(unlisted()),
        ),
        (&removed, MANAGED, None, Removal::Due(Absence::Removed)),
        (&removed, REMOVING, None, Removal::Due(Absence::Removed)),
        (&removed, MANAGED, Some(used()), Removal::Waits(used())),
        (&removed, "Removed", None, Removal::Done(Absence::Removed)),
        (&removed, NOT_NEEDED, None, Removal::Done(Absence::Removed)),
    ] {
        let found = removal(spec, Some(&status(management)), true, hold.clone());
        assert_eq!(found, expected, "{management} {hold:?}");
    }
    let seen = WindowsNodeStorageStatus {
        csi_proxy: Some(CsiProxyStatus::default()),
        ..status("External")
    };
    let of = |status, is_pinned| removal(&removed, status, is_pinned, None);
    assert_eq!(of(Some(&seen), true), Removal::Due(Absence::Removed));
    // If the statuses were lost, a pin shows that the operator has been there.
    assert_eq!(of(None, true), Removal::Due(Absence::Removed));
    let ours = status(MANAGED);
    assert_eq!(of(Some(&ours), false), Removal::Done(Absence::Removed));
    let new = removal(&where_needed, None, false, None);
    assert_eq!(new, Removal::Done(not_needed));
}
