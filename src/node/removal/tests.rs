use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::json;

use super::*;
use crate::api::CsiProxyStatus;

const NOW: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A status with this management, and the time since when csi-proxy is used or unused.
fn status(management: &str, used: &str, since: i64) -> WindowsNodeStorageStatus {
    WindowsNodeStorageStatus {
        management: management.to_owned(),
        conditions: vec![Condition {
            type_: CSI_PROXY_USED.to_owned(),
            status: used.to_owned(),
            reason: "x".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(at(since)),
        }],
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
        used_until: Timestamp::UNIX_EPOCH,
        others: Some(Others::None),
        now: at(NOW),
        is_fresh: true,
    }
}

#[test]
fn it_comes_where_it_is_needed_and_goes_ten_minutes_after_nothing_has_used_it() {
    let where_needed = spec(&json!({"install": "WhereNeeded"}));
    let until = |second| Removal::Stay(Some(Hold::Until(at(second))));
    let unused = |since| Some(status(MANAGED, "False", since));
    for (status, expected) in [
        // A new node gets no installation, and a node without csi-proxy gets no removal.
        (
            Some(status("NotNeeded", "False", 0)),
            Removal::Done(Absence::NotNeeded),
        ),
        (unused(NOW - 600), Removal::Due(Absence::NotNeeded)),
        (unused(NOW - 599), until(NOW + 1)),
        // A clock was wrong.
        (unused(NOW + 5_000), until(NOW + 600)),
        // It became unused just now, and no status says so yet.
        (Some(status(MANAGED, "True", 0)), until(NOW + 600)),
        (
            Some(WindowsNodeStorageStatus {
                management: MANAGED.to_owned(),
                ..WindowsNodeStorageStatus::default()
            }),
            until(NOW + 600),
        ),
    ] {
        let facts = facts(&where_needed, status.as_ref());
        assert_eq!(removal(&facts), expected, "{status:?}");
        let used = Facts {
            used: Some(a_use()),
            ..facts
        };
        assert_eq!(removal(&used), Removal::Stay(None), "{status:?}");
    }
    let old = unused(0);
    let facts = || facts(&where_needed, old.as_ref());
    let not_fresh = Facts {
        is_fresh: false,
        ..facts()
    };
    assert_eq!(removal(&not_fresh), Removal::Stay(Some(Hold::Unproved)));
    let seen = Facts {
        used_until: at(NOW - 1),
        ..facts()
    };
    assert_eq!(removal(&seen), until(NOW + 599));
    let new = Facts {
        status: None,
        is_pinned: false,
        ..facts()
    };
    assert_eq!(removal(&new), Removal::Done(Absence::NotNeeded));
    let depends = Facts {
        others: Some(Others::Dependent),
        ..facts()
    };
    assert_eq!(removal(&depends), Removal::Stay(None));
    // A removal in progress does not reinstall csi-proxy while it waits for proof.
    let begun = status(REMOVING, "False", 0);
    let begun = Facts {
        status: Some(&begun),
        ..not_fresh
    };
    assert_eq!(removal(&begun), Removal::Waits(Hold::Unproved));
    // While the document cannot be read, it is unknown which services the agent runs.
    let unread = Facts {
        others: None,
        ..facts()
    };
    assert_eq!(removal(&unread), Removal::Stay(None));
    let others = Facts {
        others: Some(Others::Independent),
        ..facts()
    };
    assert_eq!(removal(&others), Removal::CsiProxy);
    for stays in [
        json!({}),
        json!({"install": "WhereNeeded", "needed": "Always"}),
    ] {
        let spec = spec(&stays);
        let facts = Facts {
            spec: &spec,
            ..facts()
        };
        assert_eq!(removal(&facts), Removal::Stay(None));
    }
}

#[test]
fn all_of_it_goes_where_that_is_wanted_but_not_while_it_is_used() {
    let removed = spec(&json!({"management": "Removed", "needed": "Always"}));
    let seen = WindowsNodeStorageStatus {
        csi_proxy: Some(CsiProxyStatus::default()),
        ..status("External", "False", 0)
    };
    for (status, expected) in [
        (status(MANAGED, "False", 0), Removal::Due(Absence::Removed)),
        (status(REMOVING, "False", 0), Removal::Due(Absence::Removed)),
        (seen, Removal::Due(Absence::Removed)),
        (
            status("Removed", "False", 0),
            Removal::Done(Absence::Removed),
        ),
        (
            status("NotNeeded", "False", 0),
            Removal::Done(Absence::Removed),
        ),
        (
            status(MANAGED, "False", NOW),
            Removal::Waits(Hold::Until(at(NOW + 600))),
        ),
    ] {
        // Services of others are no longer kept.
        for others in [Some(Others::Dependent), Some(Others::None), None] {
            let facts = Facts {
                others,
                ..facts(&removed, Some(&status))
            };
            assert_eq!(removal(&facts), expected, "{status:?}");
        }
    }
    let ours = status(MANAGED, "False", 0);
    let used = Facts {
        used: Some(a_use()),
        ..facts(&removed, Some(&ours))
    };
    assert_eq!(removal(&used), Removal::Waits(Hold::Used(a_use())));
    // If the statuses were lost, a pin shows that the operator has been there.
    let lost = facts(&removed, None);
    assert_eq!(removal(&lost), Removal::Waits(Hold::Until(at(NOW + 600))));
    let never_there = Facts {
        is_pinned: false,
        ..facts(&removed, Some(&ours))
    };
    assert_eq!(removal(&never_there), Removal::Done(Absence::Removed));
}
