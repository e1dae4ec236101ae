use std::sync::LazyLock;

use serde_json::json;

use super::*;
use crate::api::CsiProxyStatus;
use crate::node::NOT_NEEDED;

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

fn spec(csi_proxy: &serde_json::Value) -> WindowsStorageSpec {
    serde_json::from_value(json!({ "csiProxy": csi_proxy })).unwrap()
}

fn a_use() -> CsiProxyUse {
    CsiProxyUse {
        user: "DaemonSet a/b".to_owned(),
        mounts: true,
    }
}

fn facts<'a>(
    spec: &'a WindowsStorageSpec,
    status: Option<&'a WindowsNodeStorageStatus>,
) -> Facts<'a> {
    Facts {
        spec,
        used: None,
        status,
        is_pinned: true,
        unused_since: Some(at(0)),
        now: at(NOW),
        listed: Some(at(NOW)),
        has_begun: false,
    }
}

#[test]
fn it_comes_where_it_is_needed_and_goes_ten_minutes_after_nothing_has_used_it() {
    let where_needed = spec(&json!({"install": "WhereNeeded"}));
    let until = |second| Removal::Stay(Some(Hold::Until(at(second))));
    let (here, absent) = (status(MANAGED), status(NOT_NEEDED));
    for (status, since, expected) in [
        // A new node gets no installation, and a node without csi-proxy gets no removal.
        (&absent, None, Removal::Done(Absence::NotNeeded)),
        (&here, Some(NOW - 600), Removal::Due(Absence::NotNeeded)),
        (&here, Some(NOW - 599), until(NOW + 1)),
        // This process has not seen it unused yet, whatever others have seen.
        (&here, None, until(NOW + 600)),
    ] {
        let facts = Facts {
            unused_since: since.map(at),
            ..facts(&where_needed, Some(status))
        };
        assert_eq!(removal(&facts), expected, "{status:?} {since:?}");
        let used = Facts {
            used: Some(a_use()),
            ..facts
        };
        assert_eq!(removal(&used), Removal::Stay(None), "{status:?}");
    }
    let facts = || facts(&where_needed, Some(&here));
    let listed = |listed| Facts { listed, ..facts() };
    let unlisted = Hold::Unlisted(at(600));
    for (since, expected) in [
        (None, Removal::Stay(Some(unlisted.clone()))),
        (Some(at(599)), Removal::Stay(Some(unlisted.clone()))),
        (Some(at(600)), Removal::Due(Absence::NotNeeded)),
    ] {
        assert_eq!(removal(&listed(since)), expected, "{since:?}");
    }
    let new = Facts {
        status: None,
        is_pinned: false,
        ..facts()
    };
    assert_eq!(removal(&new), Removal::Done(Absence::NotNeeded));
    // A removal in progress does not reinstall csi-proxy while it waits for lists.
    let begun = status(REMOVING);
    let begun = Facts {
        status: Some(&begun),
        ..listed(None)
    };
    assert_eq!(removal(&begun), Removal::Waits(unlisted));
    let begun = Facts {
        has_begun: true,
        ..listed(None)
    };
    assert_eq!(removal(&begun), Removal::Due(Absence::NotNeeded));
    let everywhere = spec(&json!({}));
    let facts = Facts {
        spec: &everywhere,
        ..facts()
    };
    assert_eq!(removal(&facts), Removal::Stay(None));
}

#[test]
fn all_of_it_goes_where_that_is_wanted_but_not_while_it_is_used() {
    let removed = spec(&json!({"management": "Removed"}));
    let seen = WindowsNodeStorageStatus {
        csi_proxy: Some(CsiProxyStatus::default()),
        ..status("External")
    };
    for (status, expected) in [
        (status(MANAGED), Removal::Due(Absence::Removed)),
        (status(REMOVING), Removal::Due(Absence::Removed)),
        (seen, Removal::Due(Absence::Removed)),
        (status("Removed"), Removal::Done(Absence::Removed)),
        (status("NotNeeded"), Removal::Done(Absence::Removed)),
    ] {
        let facts = facts(&removed, Some(&status));
        assert_eq!(removal(&facts), expected, "{status:?}");
    }
    let ours = status(MANAGED);
    let just_unused = Facts {
        unused_since: Some(at(NOW)),
        ..facts(&removed, Some(&ours))
    };
    let waits = Removal::Waits(Hold::Until(at(NOW + 600)));
    assert_eq!(removal(&just_unused), waits);
    let used = Facts {
        used: Some(a_use()),
        ..facts(&removed, Some(&ours))
    };
    assert_eq!(removal(&used), Removal::Waits(Hold::Used(a_use())));
    // If the statuses were lost, a pin shows that the operator has been there.
    let lost = facts(&removed, None);
    assert_eq!(removal(&lost), Removal::Due(Absence::Removed));
    let never_there = Facts {
        is_pinned: false,
        ..facts(&removed, Some(&ours))
    };
    assert_eq!(removal(&never_there), Removal::Done(Absence::Removed));
}
