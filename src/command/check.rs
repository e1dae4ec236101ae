//! `check`: assesses a cluster or files.

use anyhow::anyhow;
use windows_storage_operator::api::{SETTINGS_NAME, UPGRADEABLE};
use windows_storage_operator::assess::report::{About, Reason, Upgradeable, Verdict};
use windows_storage_operator::assess::{Report, Way, assess_once, check_target, preview, today};
use windows_storage_operator::index::Cluster;
use windows_storage_operator::report::{self, Answer, render};
use windows_storage_operator::status::find;
use windows_storage_operator::visible::visible;

use crate::cli::CheckArgs;
use crate::command::why::is_unknown;
use crate::command::{UsageError, has_page, input, is_colored, print, report_line};

/// Judges the input and prints the report.
pub fn check(arguments: &CheckArgs) -> anyhow::Result<Answer> {
    let input::Input { about, cluster, .. } = input::read(&arguments.input)?;
    if let Some(target) = arguments.to {
        check_target(&cluster, target).map_err(UsageError::of)?;
        if let Some(today) = today(&cluster).filter(|today| today.minor > target.minor) {
            report_line(format!(
                "note: {target} is not an upgrade: the cluster already has {today}"
            ));
        }
    }
    if let Some((name, way)) = one_node(arguments) {
        has_page(arguments.output, "one node")?;
        return foresee(arguments, &about, &cluster, name, way);
    }
    let mut report = assess_once(&cluster, arguments.to);
    report.about = Some(about);
    let color = is_colored(arguments.color);
    print(&render(&report, arguments.output, color)?)?;
    // In files, the operator's status may be from another time, and the operator judges only the running version.
    let is_alike = arguments.input.files.is_empty() && arguments.to.is_none();
    let difference = difference(&cluster, &report.verdict);
    if let Some(difference) = difference.filter(|_| is_alike) {
        report_line(difference);
    }
    Ok(match report.verdict.reason {
        Reason::ReadinessUnknown => Answer::Unknown,
        _ => Answer::of(report.verdict.upgradeable == Upgradeable::True),
    })
}

/// Returns the node whose pods alone are in question, and where they go.
fn one_node(arguments: &CheckArgs) -> Option<(&str, Way)> {
    let again = arguments.node.as_deref().map(|name| (name, Way::Again));
    again.or_else(|| arguments.drain.as_deref().map(|name| (name, Way::Away)))
}

/// Prints which pods of a node could not mount their volumes.
fn foresee(
    arguments: &CheckArgs,
    about: &About,
    cluster: &Cluster,
    name: &str,
    way: Way,
) -> anyhow::Result<Answer> {
    let report = Report::once(cluster, arguments.to);
    if is_unknown(&report.verdict) {
        return Ok(Answer::Unknown);
    }
    let name = name.strip_prefix("node/").unwrap_or(name);
    let found = preview(cluster, &report, name, way).map_err(|why| anyhow!("{}", visible(&why)))?;
    let color = is_colored(arguments.color);
    let shown = report::preview(&found, way, about, arguments.to, arguments.output, color)?;
    print(&shown)?;
    Ok(Answer::of(found.stuck.is_empty()))
}

/// Returns a note if the operator in the cluster reports another verdict.
fn difference(cluster: &Cluster, verdict: &Verdict) -> Option<String> {
    let status = cluster.settings.get(SETTINGS_NAME)?.status.as_ref()?;
    let said = find(&status.conditions, UPGRADEABLE)?;
    let is_other = said.status != verdict.upgradeable.as_str();
    is_other.then(|| {
        format!(
            "note: the operator says Upgradeable {} ({}): {}",
            visible(&said.status),
            visible(&said.reason),
            visible(&said.message)
        )
    })
}

#[cfg(test)]
mod tests {
    use windows_storage_operator::api::WindowsStorage;
    use windows_storage_operator::assess::report::Reason;

    use super::*;

    #[test]
    fn what_the_operator_says_otherwise_is_noted() {
        let verdict = Verdict {
            upgradeable: Upgradeable::True,
            reason: Reason::NoInTreeVolumes,
            message: String::new(),
        };
        let mut cluster = Cluster::default();
        assert_eq!(difference(&cluster, &verdict), None);
        let mut say = |status: &str| {
            let condition = serde_json::json!({
                "type": "Upgradeable", "status": status, "reason": "DriversMissing", "message": "gone\u{1b}",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let object: WindowsStorage = serde_json::from_value(serde_json::json!({
                "apiVersion": "windowsstorage.dev/v1alpha1", "kind": "WindowsStorage",
                "metadata": {"name": "cluster"}, "spec": {}, "status": {"conditions": [condition]},
            }))
            .unwrap();
            cluster.settings.apply(SETTINGS_NAME.to_owned(), object);
            difference(&cluster, &verdict)
        };
        assert_eq!(say("True"), None);
        let noted = say("False").unwrap();
        assert!(
            noted.starts_with("note: the operator says Upgradeable False (DriversMissing): gone"),
            "{noted}"
        );
        assert!(!noted.contains('\u{1b}'));
    }
}
