//! Detects that the cluster was upgraded while upgrades were held.

use crate::api::{UPGRADEABLE, UpgradedWhileHeld, WindowsStorageStatus};
use crate::assess::report::Reason;
use crate::assess::versions::parse;
use crate::status::conditions::find;

/// Notes since which version volumes hold upgrades, and the upgrade that did not wait: the minor version is higher than that.
/// Patch versions neither redirect nor remove plugins. During an upgrade of the control plane, API servers of both versions
/// respond: what is known stays.
pub fn note_upgrade(status: &mut WindowsStorageStatus, version: &str) {
    // These hold upgrades only briefly, and happen at a restart of the API server: they begin nothing and end nothing.
    const FOR_A_MOMENT: [Reason; 2] = [Reason::ReadinessUnknown, Reason::NodeOperationInProgress];
    let held = find(&status.conditions, UPGRADEABLE).filter(|now| now.status != "True");
    let Some(held) = held else {
        (status.held_since_version, status.upgraded_while_held) = (None, None);
        return;
    };
    let minor = |version| parse(version).map(|version| (version.major, version.minor));
    if let Some(since) = &status.held_since_version {
        let known = status.upgraded_while_held.as_ref();
        let last = known.map_or(since, |known| &known.to);
        if minor(last) < minor(version) {
            status.upgraded_while_held = Some(UpgradedWhileHeld {
                from: since.clone(),
                to: version.to_owned(),
            });
        }
    } else if FOR_A_MOMENT.iter().all(|it| it.as_str() != held.reason) {
        status.held_since_version = Some(version.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    use super::*;
    use crate::status::conditions::{condition, settle};

    fn upgradeable(status: &str, reason: &str) -> Vec<Condition> {
        let new = [(UPGRADEABLE, condition(status, reason, ""))];
        settle(&[], new, (None, Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn only_a_new_minor_version_while_volumes_hold_upgrades_counts_until_they_may_go_on() {
        // The version since which upgrades were held, the version to which the cluster is known to have been upgraded since,
        // the version and what is said now; then the same two as known now.
        for case in [
            "v1.29.3 - v1.30.1 held -> v1.29.3 v1.30.1",
            "v1.29.3+k3s1 - v1.30.1-gke.1 held -> v1.29.3+k3s1 v1.30.1-gke.1",
            "v1.29.3 - v1.30.1 unread -> v1.29.3 v1.30.1",
            "v1.28.1 v1.29.3 v1.30.1 held -> v1.28.1 v1.30.1",
            // A patch, the same, an older server, and none that is known.
            "v1.29.3 - v1.29.9 held -> v1.29.3 -",
            "v1.29.3 - v1.29.3 held -> v1.29.3 -",
            "v1.30.1 - v1.29.3 held -> v1.30.1 -",
            "v1.29.3 - unknown held -> v1.29.3 -",
            // Nothing was held, or is any more.
            "- - v1.30.1 held -> v1.30.1 -",
            "- - v1.30.1 unread -> - -",
            "- - v1.30.1 working -> - -",
            "- - v1.30.1 open -> - -",
            "v1.29.3 - v1.30.1 open -> - -",
            "v1.28.1 v1.29.3 v1.29.3 open -> - -",
            // What is known stays until then, whichever server answers.
            "v1.28.1 v1.29.3 v1.29.9 held -> v1.28.1 v1.29.3",
            "v1.28.1 v1.29.3 v1.28.1 held -> v1.28.1 v1.29.3",
            "v1.28.1 v1.29.3 v1.29.3 unread -> v1.28.1 v1.29.3",
        ] {
            let words: Vec<&str> = case.split(' ').collect();
            let [since, upgraded, version, now, _, since_now, upgraded_now] = words[..] else {
                panic!("{case}");
            };
            let now = match now {
                "held" => upgradeable("False", "DriversMissing"),
                "open" => upgradeable("True", "DriversRegistered"),
                "working" => upgradeable("False", "NodeOperationInProgress"),
                _ => upgradeable("False", "ReadinessUnknown"),
            };
            let known = |word: &str| (word != "-").then(|| word.to_owned());
            let upgrade = |from: &str, to: &str| {
                let (from, to) = (from.to_owned(), known(to)?);
                Some(UpgradedWhileHeld { from, to })
            };
            let status = |conditions: &[Condition], since, upgraded| WindowsStorageStatus {
                held_since_version: known(since),
                upgraded_while_held: upgrade(since, upgraded),
                conditions: conditions.to_vec(),
                ..WindowsStorageStatus::default()
            };
            let mut found = status(&now, since, upgraded);
            note_upgrade(&mut found, version);
            assert_eq!(found, status(&now, since_now, upgraded_now), "{case}");
        }
    }
}
