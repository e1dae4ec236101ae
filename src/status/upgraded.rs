//! Detects that the cluster was upgraded while upgrades were held.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{UPGRADEABLE, UpgradedWhileHeld, WindowsStorageStatus};
use crate::assess::report::Reason;
use crate::assess::versions::parse;
use crate::status::conditions::find;

/// Returns the newest version seen. During an upgrade of the control plane, API servers of both versions respond, and a
/// process that was on standby for long may know an old version.
pub fn newest(previous: &WindowsStorageStatus, version: &str) -> String {
    match &previous.kubernetes_version {
        Some(before) if parse(before) > parse(version) => before.clone(),
        _ => version.to_owned(),
    }
}

/// Returns the upgrade that did not wait: the minor version is higher than the one seen while upgrades were held. Patch
/// versions neither redirect nor remove plugins.
pub fn upgraded_while_held(
    previous: &WindowsStorageStatus,
    version: &str,
    conditions: &[Condition],
) -> Option<UpgradedWhileHeld> {
    if find(conditions, UPGRADEABLE).is_some_and(|now| now.status == "True") {
        return None;
    }
    let known = previous.upgraded_while_held.as_ref();
    let before = previous.kubernetes_version.as_deref().unwrap_or(version);
    let minor = |version| parse(version).map(|version| (version.major, version.minor));
    if !was_held(previous) || minor(before) >= minor(version) {
        return known.cloned();
    }
    Some(UpgradedWhileHeld {
        from: known.map_or(before, |known| &known.from).to_owned(),
        to: version.to_owned(),
    })
}

/// Whether a volume held upgrades. Unread inputs and node operations only hold them briefly, and happen at a restart of the
/// API server.
fn was_held(previous: &WindowsStorageStatus) -> bool {
    const FOR_A_MOMENT: [Reason; 2] = [Reason::ReadinessUnknown, Reason::NodeOperationInProgress];
    find(&previous.conditions, UPGRADEABLE).is_some_and(|before| {
        before.status == "False" && FOR_A_MOMENT.iter().all(|it| it.as_str() != before.reason)
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::status::conditions::{condition, settle};

    fn upgradeable(status: &str, reason: &str) -> Vec<Condition> {
        let new = [(UPGRADEABLE, condition(status, reason, ""))];
        settle(&[], new, (None, Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn only_a_new_minor_version_while_volumes_hold_upgrades_counts_until_they_may_go_on() {
        // The version and what was said before, what was known of an upgrade, the version and what is said now; then what
        // is known of an upgrade.
        for case in [
            "v1.29.3 held - v1.30.1 held -> v1.29.3 v1.30.1",
            "v1.29.3+k3s1 held - v1.30.1-gke.1 held -> v1.29.3+k3s1 v1.30.1-gke.1",
            "v1.29.3 held - v1.30.1 unread -> v1.29.3 v1.30.1",
            "v1.29.3 held known v1.30.1 held -> v1.28.1 v1.30.1",
            // A patch, the same, an older server, and none that is known.
            "v1.29.3 held - v1.29.9 held -> -",
            "v1.29.3 held - v1.29.3 held -> -",
            "v1.30.1 held - v1.29.3 held -> -",
            "v1.29.3 held - unknown held -> -",
            // Nothing was held, or is any more.
            "v1.29.3 open - v1.30.1 held -> -",
            "v1.29.3 unread - v1.30.1 held -> -",
            "v1.29.3 held - v1.30.1 open -> -",
            // What is known stays until then.
            "v1.29.3 held known v1.29.3 held -> v1.28.1 v1.29.3",
            "v1.29.3 unread known v1.29.3 held -> v1.28.1 v1.29.3",
            "v1.29.3 held known v1.29.3 open -> -",
        ] {
            let (given, expected) = case.split_once(" -> ").unwrap();
            let [last, before, known, version, now] = given.split(' ').collect::<Vec<_>>()[..]
            else {
                panic!("{case}");
            };
            let said = |word: &str| match word {
                "held" => upgradeable("False", "DriversMissing"),
                "open" => upgradeable("True", "DriversRegistered"),
                _ => upgradeable("False", "ReadinessUnknown"),
            };
            let upgrade = |text: &str| {
                let (from, to) = text.split_once(' ')?;
                let (from, to) = (from.to_owned(), to.to_owned());
                Some(UpgradedWhileHeld { from, to })
            };
            let known = (known == "known").then_some("v1.28.1 v1.29.3");
            let previous = WindowsStorageStatus {
                kubernetes_version: Some(last.to_owned()),
                upgraded_while_held: known.and_then(upgrade),
                conditions: said(before),
                ..WindowsStorageStatus::default()
            };
            let found = upgraded_while_held(&previous, version, &said(now));
            assert_eq!(found, upgrade(expected), "{case}");
        }
    }

    #[test]
    fn the_first_version_is_taken_as_it_is_and_an_older_one_never() {
        let mut previous = WindowsStorageStatus::default();
        assert_eq!(newest(&previous, "v1.30.1"), "v1.30.1");
        let held = upgradeable("False", "DriversMissing");
        assert_eq!(upgraded_while_held(&previous, "v1.30.1", &held), None);
        previous.kubernetes_version = Some("v1.30.1".to_owned());
        for (version, expected) in [
            ("v1.29.9", "v1.30.1"),
            ("v1.30.0", "v1.30.1"),
            ("v1.30.2", "v1.30.2"),
            ("unknown", "v1.30.1"),
        ] {
            assert_eq!(newest(&previous, version), expected);
        }
    }
}
